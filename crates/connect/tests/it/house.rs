//! What a call needs around it, and a pool for a test.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connect::{
    Endpoint, Launcher, Origin, Pool, PoolOptions, Scope, Server, ServerState, ServerStatus,
    StdioServer,
};
use driver_api::{
    Asks, Place, SystemClock, SystemIds, Tool, ToolContext, ToolHost, ToolOutcome, ToolSource,
};
use protocol::event::Answer;
use protocol::{Block, ToolCallId};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::nowhere::Nowhere;

/// How long a test waits for what should come at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whoever decides for a session: answers after a while, and remembers the questions.
#[derive(Debug, Default)]
pub(crate) struct Person {
    pub(crate) answers: Mutex<Vec<Option<Answer>>>,
    pub(crate) asked: Mutex<Vec<Asks>>,
    pub(crate) thinks: Duration,
    /// How many questions wait for an answer.
    pub(crate) waiting: Arc<Mutex<i32>>,
}

/// Counts a question that waits.
struct Waiting(Arc<Mutex<i32>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

impl Person {
    pub(crate) fn with(answers: Vec<Option<Answer>>) -> Self {
        Self { answers: Mutex::new(answers), ..Self::default() }
    }
}

#[async_trait]
impl ToolHost for Person {
    fn seen(&self, _path: &str) -> Option<String> {
        None
    }

    async fn ask(&self, asks: Asks) -> Option<Answer> {
        self.asked.lock().unwrap().push(asks);
        *self.waiting.lock().unwrap() += 1;
        let _waiting = Waiting(Arc::clone(&self.waiting));
        tokio::time::sleep(self.thinks).await;
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() { None } else { answers.remove(0) }
    }
}

pub(crate) fn chosen(ids: &[&str]) -> Option<Answer> {
    let answers = ids.iter().map(|id| (*id).to_owned()).collect();
    Some(Answer::Chosen { answers, other: None })
}

pub(crate) fn words(text: &str) -> Option<Answer> {
    Some(Answer::Chosen { answers: Vec::new(), other: Some(text.to_owned()) })
}

/// A pool with its home, ended with the test.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) pool: Arc<Pool>,
    pub(crate) home: tempfile::TempDir,
}

/// Starts a pool.
pub(crate) fn house(launcher: Arc<dyn Launcher>, servers: Vec<Server>) -> House {
    let home = tempfile::tempdir().unwrap();
    let pool = pool_at(home.path(), launcher, servers, PoolOptions::DEFER_THRESHOLD);
    House { pool, home }
}

pub(crate) fn pool_at(
    home: &Path,
    launcher: Arc<dyn Launcher>,
    servers: Vec<Server>,
    defer_threshold: usize,
) -> Arc<Pool> {
    let http = outbound::Options {
        allow: vec!["127.0.0.1".parse().unwrap()],
        ..outbound::Options::default()
    };
    Pool::start(PoolOptions {
        servers,
        launcher,
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(SystemIds),
        http,
        home: home.to_owned(),
        defer_threshold,
    })
}

/// A server that is a program, as the scripted launcher takes it.
pub(crate) fn program(name: &str) -> Server {
    Server {
        name: name.to_owned(),
        origin: Origin::Settings,
        endpoint: Endpoint::Stdio(StdioServer {
            command: name.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            scope: Scope::Host,
        }),
        call_timeout: PATIENCE,
    }
}

impl House {
    pub(crate) fn status(&self, name: &str) -> ServerStatus {
        self.pool.status().into_iter().find(|status| status.name == name).unwrap()
    }

    /// Waits until a server stands so.
    pub(crate) async fn until(&self, name: &str, state: ServerState) -> ServerStatus {
        let what = format!("{name} to be {}", state.as_str());
        eventually(&what, || Some(self.status(name)).filter(|status| status.state == state)).await
    }

    pub(crate) fn offered(&self, cwd: &str) -> Vec<String> {
        names(&self.pool.offers(Place::Folder(cwd)))
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.pool
            .find(name, Place::Folder("/repos"))
            .unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// Calls a tool for a session of nobody.
    pub(crate) async fn call(&self, name: &str, input: Value) -> ToolOutcome {
        self.call_for(Arc::new(Person::default()), name, input).await
    }

    pub(crate) async fn call_for(
        &self,
        person: Arc<Person>,
        name: &str,
        input: Value,
    ) -> ToolOutcome {
        let context = context(person, self.home.path());
        call_in(&self.tool(name), input, &context).await
    }
}

pub(crate) fn names(tools: &[Arc<dyn Tool>]) -> Vec<String> {
    tools.iter().map(|tool| tool.spec().name.clone()).collect()
}

pub(crate) fn context(person: Arc<Person>, folder: &Path) -> ToolContext {
    let (progress, mut pieces) = mpsc::channel(16);
    tokio::spawn(async move { while pieces.recv().await.is_some() {} });
    ToolContext {
        call: ToolCallId::new("call_1"),
        workspace: Arc::new(Nowhere),
        host: person,
        progress,
        cancel: CancellationToken::new(),
        spill_dir: folder.join("spill"),
        images: true,
    }
}

pub(crate) async fn call_in(
    tool: &Arc<dyn Tool>,
    input: Value,
    context: &ToolContext,
) -> ToolOutcome {
    let input = input.as_object().unwrap();
    let facts = tool.facts(input, &Nowhere).await.unwrap();
    let ran = tokio::time::timeout(PATIENCE, tool.run(input, &facts, context)).await;
    ran.expect("the call to end").unwrap()
}

pub(crate) fn text_of(outcome: &ToolOutcome) -> String {
    let texts = outcome.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
