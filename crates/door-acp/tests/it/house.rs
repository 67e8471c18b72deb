//! A door with a client on the other end of a pipe.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use door_acp::{Access, Bringing, Brought, Login, Options, serve};
use runtime_api::{AgentSettings, Handle, SharedTools};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
    duplex, split,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a test waits for a line before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A way to a model that is missing at first, or is there.
#[derive(Debug)]
pub(crate) struct FakeAccess {
    handle: Handle,
    lacks: Mutex<Option<String>>,
    /// Whether looking again finds it.
    is_found: bool,
}

#[async_trait]
impl Access for FakeAccess {
    fn handle(&self) -> Handle {
        self.handle.clone()
    }

    fn lacks(&self) -> Option<String> {
        self.lacks.lock().unwrap().clone()
    }

    async fn renew(&self) -> Result<(), String> {
        let mut lacks = self.lacks.lock().unwrap();
        match (lacks.take(), self.is_found) {
            (Some(what), false) => {
                *lacks = Some(what.clone());
                Err(what)
            }
            _ => Ok(()),
        }
    }

    async fn bring(&self, servers: Vec<Brought>, cwd: &str) -> Result<Bringing, String> {
        let notices: Vec<String> =
            servers.iter().map(|it| format!("{} in {cwd} is slow", it.name)).collect();
        match servers.iter().any(|it| it.name == "wrong") {
            true => Err("[0].url: is wrong".to_owned()),
            false => Ok(Bringing { tools: SharedTools::new(Arc::new(NoTools)), notices }),
        }
    }

    fn logins(&self) -> Vec<Login> {
        let args = vec!["--login".to_owned(), "anthropic".to_owned()];
        vec![Login { provider: "anthropic".to_owned(), args }]
    }
}

/// Servers that have no tools.
#[derive(Debug)]
struct NoTools;

#[async_trait]
impl driver_api::ToolSource for NoTools {
    fn offers(&self, _: driver_api::Place<'_>) -> Vec<Arc<dyn driver_api::Tool>> {
        Vec::new()
    }

    fn find(&self, _: &str, _: driver_api::Place<'_>) -> Option<Arc<dyn driver_api::Tool>> {
        None
    }
}

/// The two ends of a pipe to a door that runs.
pub(crate) fn start(
    runtime: &Arc<FakeRuntime>,
    (lacks, is_found): (Option<&str>, bool),
    stop: CancellationToken,
) -> (DuplexStream, JoinHandle<std::io::Result<()>>) {
    let access = FakeAccess {
        handle: Handle::new(Arc::clone(runtime) as Arc<dyn runtime_api::Runtime>),
        lacks: Mutex::new(lacks.map(str::to_owned)),
        is_found,
    };
    let (theirs, ours) = duplex(256 * 1024);
    let options = Options { version: "1.2.3", agent: AgentSettings::default() };
    #[allow(clippy::disallowed_methods, reason = "the test waits for it")]
    let served = tokio::spawn(serve(options, Arc::new(access), split(ours), stop));
    (theirs, served)
}

/// A client that writes and reads lines.
pub(crate) struct Client {
    pub(crate) runtime: Arc<FakeRuntime>,
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) stop: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
    next: i64,
    /// What came while something else was waited for.
    held: VecDeque<Value>,
    /// Where sessions work.
    pub(crate) folder: tempfile::TempDir,
}

impl Client {
    /// Starts a door whose runtime has a script, and says hello.
    pub(crate) async fn meet(runtime: FakeRuntime) -> Self {
        Self::meet_with(runtime, json!({})).await
    }

    pub(crate) async fn meet_with(runtime: FakeRuntime, capabilities: Value) -> Self {
        let mut client = Self::start(runtime, (None, false));
        let hello = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        client.ask("initialize", hello).await.unwrap();
        client
    }

    pub(crate) fn start(runtime: FakeRuntime, model: (Option<&str>, bool)) -> Self {
        let (runtime, stop) = (Arc::new(runtime), CancellationToken::new());
        let (pipe, served) = start(&runtime, model, stop.clone());
        let (output, input) = split(pipe);
        let output = BufReader::new(output).lines();
        let folder = tempfile::tempdir().unwrap();
        let (input, held) = (Some(input), VecDeque::new());
        Self { runtime, input, output, stop, served, next: 1, held, folder }
    }

    pub(crate) fn cwd(&self) -> String {
        self.folder.path().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.write(&message.to_string()).await;
    }

    /// Sends a request and returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(json!({"id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params})).await;
    }

    /// Answers a request of the door.
    pub(crate) async fn respond(&mut self, request: &Value, result: Value) {
        self.send(json!({"id": request["id"], "result": result})).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(json!({"id": request["id"], "error": error})).await;
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        let line = line.expect("a line in time").unwrap().expect("a line before the end");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Returns the next message that something holds for; others are held.
    pub(crate) async fn next(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.held.iter().position(&fits) {
            return self.held.remove(place).unwrap();
        }
        loop {
            let message = self.line().await;
            if fits(&message) {
                return message;
            }
            self.held.push_back(message);
        }
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let answer = self.next(|it| it["id"] == id && it.get("method").is_none()).await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// Waits for a request of the door.
    pub(crate) async fn asked(&mut self, method: &str) -> Value {
        self.next(|it| it["method"] == method).await
    }

    /// Waits for an update of this kind.
    pub(crate) async fn update(&mut self, kind: &str) -> Value {
        let fits = |it: &Value| it["params"]["update"]["sessionUpdate"] == kind;
        self.next(fits).await["params"]["update"].clone()
    }

    /// Returns the updates that came so far, in order.
    pub(crate) fn updates(&mut self) -> Vec<Value> {
        let held = std::mem::take(&mut self.held);
        let (updates, rest): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|it| it["method"] == "session/update");
        self.held = rest.into();
        updates.into_iter().map(|it| it["params"]["update"].clone()).collect()
    }

    /// Opens a new session and returns its id.
    pub(crate) async fn session(&mut self) -> String {
        let params = json!({"cwd": self.cwd(), "mcpServers": []});
        let opened = self.ask("session/new", params).await.unwrap();
        self.update("available_commands_update").await;
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Prompts and returns the id of the request.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Closes the client's end and waits until the door has ended.
    pub(crate) async fn leave(mut self) -> Vec<Call> {
        let mut input = self.input.take().unwrap();
        input.shutdown().await.unwrap();
        self.ended().await
    }

    /// Waits until the door has ended and returns what it asked of the runtime.
    pub(crate) async fn ended(mut self) -> Vec<Call> {
        let reading = async {
            while let Ok(Some(line)) = self.output.next_line().await {
                self.held.push_back(serde_json::from_str(&line).unwrap());
            }
        };
        let (served, ()) =
            tokio::time::timeout(PATIENCE * 2, async { tokio::join!(&mut self.served, reading) })
                .await
                .expect("an end in time");
        served.unwrap().unwrap();
        self.runtime.calls()
    }

    /// Waits until the runtime was asked something.
    pub(crate) async fn until_called(&self, what: &str, fits: impl Fn(&Call) -> bool) {
        let polled = tokio::time::timeout(PATIENCE, async {
            while !self.runtime.calls().iter().any(&fits) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(polled.await.is_ok(), "never asked: {what}");
    }
}
