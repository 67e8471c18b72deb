//! A client that the conformance suite of MCP drives: the pool as it is, with somebody who says
//! yes to everything in place of a person.
//!
//! The suite starts it with the address of its server as the last argument, names the scenario in
//! `MCP_CONFORMANCE_SCENARIO` and gives what the scenario needs in `MCP_CONFORMANCE_CONTEXT`.
#![allow(clippy::disallowed_methods, reason = "a program for tests; it ends with its scenario")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connect::oauth::Redirect;
use connect::{
    Child, Endpoint, HttpServer, Launcher, OAuthClient, Origin, Pool, PoolOptions, Server,
    ServerState, StdioServer,
};
use driver_api::{
    Asks, Fault, Place, SystemClock, SystemIds, Tool, ToolContext, ToolHost, ToolOutcome,
    ToolSource as _, Workspace,
};
use outbound::Url;
use protocol::event::Answer;
use protocol::{Block, ToolCallId};
use serde_json::{Map, Value, json};
use stdx::Secret;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::nowhere::Nowhere;

/// How long a scenario may take; the suite ends it after 30 s.
const SCENARIO_WAIT: Duration = Duration::from_secs(25);

/// How often somebody says yes before a server that always wants more is given up.
const AUTHORIZATIONS_MAX: usize = 3;

/// Where the scenarios expect this client's own description.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// Where the authorization server sends the person back to; nobody listens there, since the
/// answer is read from the redirect itself.
const BACK: &str = "http://localhost:3000/callback";

#[path = "../tests/it/nowhere.rs"]
mod nowhere;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let url = std::env::args().next_back().unwrap_or_default();
    let url: Url = url.parse().map_err(|error| format!("the last argument is no url: {error}"))?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let run = tokio::time::timeout(SCENARIO_WAIT, run(url, &context)).await;
    run.map_err(|_| "the scenario took too long".to_owned())?
}

async fn run(url: Url, context: &Value) -> Result<(), String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let pool = pool(url, context, home.path())?;
    let mut left = AUTHORIZATIONS_MAX;
    connect(&pool, &mut left).await?;
    let tools = pool.offers(Place::Folder("/"));
    let calls = match context.get("toolCalls").and_then(Value::as_array) {
        Some(calls) => calls.iter().filter_map(wanted).collect(),
        None => tools.iter().map(|tool| (tool.spec().name.clone(), input(tool, &tools))).collect(),
    };
    let calls: Vec<(String, Map<String, Value>)> = calls;
    for (name, input) in calls {
        call(&pool, &name, &input, home.path(), &mut left).await?;
    }
    // Streams that the server cut are taken up again in their time.
    pool.stop().await;
    Ok(())
}

fn pool(url: Url, context: &Value, home: &Path) -> Result<Arc<Pool>, String> {
    let text = |key: &str| context.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    let host = url.host_str().unwrap_or_default().to_owned();
    let oauth = OAuthClient {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Secret::new),
        client_metadata_url: METADATA.parse().ok(),
        scopes: Vec::new(),
    };
    let endpoint = Endpoint::Http(HttpServer { url, headers: Vec::new(), oauth });
    let server = Server {
        name: "suite".to_owned(),
        origin: Origin::Settings,
        endpoint,
        call_timeout: Duration::from_secs(15),
    };
    // The suite's authorization servers listen on other ports of this machine.
    let allow = host.parse().map_err(|error| format!("open {host}: {error}"))?;
    Ok(Pool::start(PoolOptions {
        servers: vec![server],
        launcher: Arc::new(Nothing),
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(SystemIds),
        http: outbound::Options { allow: vec![allow], ..outbound::Options::default() },
        home: home.to_owned(),
        defer_threshold: usize::MAX,
    }))
}

/// Waits for the server, authorized where it wants that.
async fn connect(pool: &Pool, left: &mut usize) -> Result<(), String> {
    loop {
        pool.settled(SCENARIO_WAIT).await;
        let status = pool.status();
        let status = status.first().ok_or("there is no server")?;
        match status.state {
            ServerState::Connected => return Ok(()),
            ServerState::Unauthorized => authorize(pool, left).await?,
            ServerState::Connecting => {}
            state => {
                let error = status.error.clone().unwrap_or_default();
                return Err(format!("{}: {error}", state.as_str()));
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn authorize(pool: &Pool, left: &mut usize) -> Result<(), String> {
    *left = left.checked_sub(1).ok_or("the server wants to be authorized again and again")?;
    let done = pool.authorize(&Origin::Settings, "suite", &Yes).await;
    done.map_err(|error| format!("authorize: {error}"))?;
    // The keeper is awake by then and tries anew.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

async fn call(
    pool: &Pool,
    name: &str,
    input: &Map<String, Value>,
    home: &Path,
    left: &mut usize,
) -> Result<(), String> {
    let context = tool_context(home);
    loop {
        let tool = pool
            .find(name, Place::Folder("/"))
            .ok_or_else(|| format!("there is no tool {name}"))?;
        let facts = tool.facts(input, &Nowhere).await.map_err(|error| error.to_string())?;
        let outcome = tool.run(input, &facts, &context).await;
        let outcome = outcome.map_err(|error| error.to_string())?;
        if !words(&outcome).contains("wants to be authorized") || *left == 0 {
            return Ok(());
        }
        authorize(pool, left).await?;
        connect(pool, left).await?;
    }
}

/// Reads a call that the scenario wants.
fn wanted(call: &Value) -> Option<(String, Map<String, Value>)> {
    let name = call.get("name")?.as_str()?;
    let input = call.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    Some((format!("mcp__suite__{name}"), input))
}

/// Makes arguments that fit a tool's schema.
fn arguments(tool: &Arc<dyn Tool>) -> Map<String, Value> {
    let schema = &tool.spec().input_schema;
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let value = |name: &str| {
        let kind = schema.get("properties")?.get(name)?.get("type")?.as_str()?;
        Some(match kind {
            "number" | "integer" => json!(1),
            "boolean" => json!(true),
            "string" => json!("test"),
            _ => return None,
        })
    };
    let names = required.iter().filter_map(Value::as_str);
    names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect()
}

/// Makes what a tool is called with. One of the suite's wants the schema of another back, as this
/// client has it.
fn input(tool: &Arc<dyn Tool>, tools: &[Arc<dyn Tool>]) -> Map<String, Value> {
    let mut input = arguments(tool);
    let other = tools.iter().find(|other| other.spec().name != tool.spec().name);
    if tool.spec().name.ends_with("__json_schema_echo")
        && let Some(other) = other
    {
        input.insert("schema".to_owned(), other.spec().input_schema.clone());
    }
    input
}

fn words(outcome: &ToolOutcome) -> String {
    let texts = outcome.content.iter().map(|block| match block {
        Block::Text { text, .. } => text.as_str(),
        _ => "",
    });
    texts.collect()
}

/// Somebody who authorizes everything: follows the address to where it sends them back.
#[derive(Debug)]
struct Yes;

#[async_trait]
impl Redirect for Yes {
    fn uri(&self) -> &str {
        BACK
    }

    async fn visit(&self, address: &Url) -> Result<Url, Fault> {
        let wait = Duration::from_secs(10);
        let waits = outbound::Waits { connect: wait, silence: wait, keep_alive: wait };
        let answer = outbound::Servers::local(waits).get(address, Default::default()).await;
        let answer = answer.map_err(|error| Fault::with("open the address", error))?;
        let back = answer.headers().get(outbound::header::LOCATION);
        let back = back.and_then(|back| back.to_str().ok());
        back.and_then(|back| back.parse().ok()).ok_or_else(|| Fault::new("nobody came back"))
    }
}

/// Somebody who takes what a server proposes, and otherwise the first thing that there is.
#[derive(Debug)]
struct Agreeable;

#[async_trait]
impl ToolHost for Agreeable {
    fn seen(&self, _path: &str) -> Option<String> {
        None
    }

    async fn ask(&self, asks: Asks) -> Option<Answer> {
        let Asks::Question { options, allow_other, .. } = asks else { return None };
        let proposed: Vec<String> = options
            .iter()
            .filter(|option| option.description.as_deref() == Some("the default"))
            .map(|option| option.id.clone())
            .collect();
        if !proposed.is_empty() {
            return Some(Answer::Chosen { answers: proposed, other: None });
        }
        if allow_other {
            return Some(Answer::Chosen { answers: Vec::new(), other: Some("1".to_owned()) });
        }
        let first = options.first().map(|option| option.id.clone());
        Some(Answer::Chosen { answers: first.into_iter().collect(), other: None })
    }
}

fn tool_context(home: &Path) -> ToolContext {
    let (progress, mut pieces) = mpsc::channel(16);
    tokio::spawn(async move { while pieces.recv().await.is_some() {} });
    ToolContext {
        call: ToolCallId::new("call"),
        workspace: Arc::new(Nowhere),
        host: Arc::new(Agreeable),
        progress,
        cancel: CancellationToken::new(),
        spill_dir: home.join("spill"),
        images: true,
    }
}

/// Starts no program.
#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Launcher for Nothing {
    async fn launch(
        &self,
        _server: &StdioServer,
        _inside: Option<&Arc<dyn Workspace>>,
    ) -> Result<Child, Fault> {
        Err(Fault::new("no program is started here"))
    }
}
