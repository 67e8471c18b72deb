//! A door, and hosts that are connected to it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use door_host::{Door, ModelEndpoint, Options, Pushed, Rejected, Surroundings, TokenSource};
use protocol::{SessionId, Timestamp};
use runtime_api::{AgentSettings, Handle, PolicyTag};
use serde_json::{Value, json};
use stdx::Secret;
use testkit::fake_handle::{Call, FakeRuntime, session_info};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The session that most tests use.
pub(crate) const ID: &str = "06f0000000000000000000000s";

/// The program around the door.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// What was pushed.
    pub(crate) pushed: Mutex<Vec<Value>>,
    /// Who mints tokens, and whether nothing else may be asked.
    pub(crate) lent: Mutex<Option<(Arc<dyn TokenSource>, bool)>>,
    /// What bound sessions.
    pub(crate) bound: Mutex<Vec<PolicyTag>>,
}

impl Surroundings for Around {
    fn now(&self) -> Timestamp {
        Timestamp(1_796_000_000_000)
    }

    fn locked(&self) -> Vec<String> {
        vec!["permissions.mode".to_owned()]
    }

    fn policy_source(&self) -> Option<String> {
        None
    }

    fn push(&self, envelope: &Value) -> Result<Pushed, Rejected> {
        if envelope.get("signature").is_none() {
            return Err(Rejected { reason: "unsigned", message: "it has no signature".into() });
        }
        self.pushed.lock().unwrap().push(envelope.clone());
        Ok(Pushed { id: "p".to_owned(), stripped_keys: vec!["embed.x".to_owned()] })
    }

    fn binding(&self, _: Option<&[String]>) -> Option<PolicyTag> {
        let tag = PolicyTag::fresh();
        self.bound.lock().unwrap().push(tag.clone());
        Some(tag)
    }

    fn lend_models(
        &self,
        endpoint: &ModelEndpoint,
        is_exclusive: bool,
        tokens: Arc<dyn TokenSource>,
    ) -> Result<(), String> {
        if endpoint.base_url().contains("elsewhere") {
            return Err("baseUrl: is elsewhere".to_owned());
        }
        *self.lent.lock().unwrap() = Some((tokens, is_exclusive));
        Ok(())
    }

    fn default_model(&self, _: Option<&[String]>) -> Option<String> {
        None
    }
}

pub(crate) struct House {
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) around: Arc<Around>,
    pub(crate) door: Door,
}

impl House {
    pub(crate) fn new(runtime: FakeRuntime) -> Self {
        let (runtime, around) = (Arc::new(runtime), Arc::new(Around::default()));
        let door = Door::new(Options {
            handle: Handle::new(runtime.clone()),
            agent: AgentSettings::default(),
            mode: None,
            version: "1.2.3",
            event_buffer: 2_000,
            grace: Duration::from_secs(10),
            surroundings: around.clone(),
        });
        Self { runtime, around, door }
    }

    /// A house with one session that is stored.
    pub(crate) fn stored() -> Self {
        let info = session_info(ID, "/nowhere");
        Self::new(FakeRuntime::new().session(info))
    }

    /// Connects a host that has said nothing yet; with a token it has to show it.
    pub(crate) fn connect(&self, token: Option<&str>) -> Host {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (door, token) = (self.door.clone(), token.map(|it| Secret::new(it.to_owned())));
        #[allow(clippy::disallowed_methods, reason = "it ends with its stream")]
        let _serving = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(near);
            door.serve(reader, writer, token.as_ref()).await;
        });
        let (reader, writer) = tokio::io::split(far);
        Host { lines: BufReader::new(reader).lines(), writer, last: 0, kept: Vec::new() }
    }

    /// Connects a host that has said who it is.
    pub(crate) async fn host(&self, capabilities: Value) -> Host {
        let mut host = self.connect(None);
        host.ask("initialize", hello(capabilities)).await.unwrap();
        host
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.runtime.calls()
    }

    /// Waits until a call was made that fits.
    pub(crate) async fn called<T>(&self, fits: impl Fn(&Call) -> Option<T>) -> T {
        let look = async {
            loop {
                if let Some(found) = self.calls().iter().find_map(&fits) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("never: {:?}", self.calls()))
    }
}

/// What a host says first.
pub(crate) fn hello(capabilities: Value) -> Value {
    json!({
        "protocolVersion": "1.0.0",
        "clientInfo": {"name": "test", "version": "1"},
        "capabilities": capabilities
    })
}

/// A host.
pub(crate) struct Host {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    last: u64,
    /// What came while something else was waited for.
    kept: Vec<Value>,
}

impl Host {
    pub(crate) async fn says(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next message; none at the end.
    pub(crate) async fn hears(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("nothing came");
        line.unwrap().map(|line| serde_json::from_str(&line).unwrap())
    }

    async fn hears_that(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.kept.iter().position(&fits) {
            return self.kept.remove(place);
        }
        loop {
            let message = self.hears().await.expect("the connection ended");
            if fits(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    /// Asks and waits for the answer; a no is its code, the word of it, and its message.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Value, (i64, String, String)> {
        self.last += 1;
        let id = self.last;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.says(&message).await;
        let answer = self.hears_that(|it| it["id"] == id && it.get("method").is_none()).await;
        match answer.get("error") {
            None => Ok(answer["result"].clone()),
            Some(error) => {
                let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let code = word(&error["data"]["code"]);
                Err((error["code"].as_i64().unwrap(), code, word(&error["message"])))
            }
        }
    }

    /// Waits until it is asked something; returns id and params.
    pub(crate) async fn asked(&mut self, method: &str) -> (Value, Value) {
        let asked = self.hears_that(|it| it["method"] == method && it.get("id").is_some()).await;
        (asked["id"].clone(), asked["params"].clone())
    }

    /// Waits until it is told something.
    pub(crate) async fn told(&mut self, method: &str) -> Value {
        let told = self.hears_that(|it| it["method"] == method && it.get("id").is_none()).await;
        told["params"].clone()
    }

    pub(crate) async fn answers(&mut self, id: &Value, result: Value) {
        self.says(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    pub(crate) async fn refuses(&mut self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.says(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    /// Tells whether anything but answers came so far.
    pub(crate) fn was_asked_nothing(&self) -> bool {
        self.kept.iter().all(|it| it.get("method").is_none() || it.get("id").is_none())
    }

    /// Begins a session; returns its id.
    pub(crate) async fn session(&mut self) -> String {
        let session = self.ask("session/new", json!({"cwd": "/nowhere"})).await.unwrap();
        session["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str) {
        let params = json!({"sessionId": session, "text": "go"});
        self.ask("session/prompt", params).await.unwrap();
    }
}

pub(crate) fn id_of(text: &str) -> SessionId {
    SessionId::new(text)
}
