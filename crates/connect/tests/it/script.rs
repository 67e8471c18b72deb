//! Scripted servers over streams in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connect::{Child, LastLines, Launcher, StdioServer};
use driver_api::{Exit, ExitStatus, Fault, Process, Workspace, WorkspaceError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Where a notification says which subscription it belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a server is and what it has seen.
#[derive(Debug)]
pub(crate) struct Script {
    /// The tools that it lists; two per page.
    pub(crate) tools: Mutex<Vec<Value>>,
    /// Every message that it was sent.
    pub(crate) seen: Mutex<Vec<Value>>,
    /// How many launches fail before one succeeds.
    pub(crate) failures: Mutex<usize>,
    pub(crate) launches: Mutex<usize>,
    /// Where each launch was: in the folder of a neuron, or outside of all.
    pub(crate) places: Mutex<Vec<Option<String>>>,
    pub(crate) alive: Mutex<usize>,
    /// Whether it speaks the newest revision.
    pub(crate) is_modern: bool,
    /// Whether it never answers the first question.
    pub(crate) is_mute: Mutex<bool>,
    /// Grows with each call to `kill` and `change`.
    events: watch::Sender<(u32, u32)>,
}

impl Script {
    pub(crate) fn new(tools: &[&str]) -> Arc<Self> {
        Self::of(tools, false)
    }

    pub(crate) fn modern(tools: &[&str]) -> Arc<Self> {
        Self::of(tools, true)
    }

    fn of(tools: &[&str], is_modern: bool) -> Arc<Self> {
        let tools = tools.iter().map(|name| tool(name)).collect();
        Arc::new(Self {
            tools: Mutex::new(tools),
            seen: Mutex::default(),
            failures: Mutex::default(),
            launches: Mutex::default(),
            places: Mutex::default(),
            alive: Mutex::default(),
            is_modern,
            is_mute: Mutex::default(),
            events: watch::Sender::new((0, 0)),
        })
    }

    /// Ends every process of it, as a signal would.
    pub(crate) fn kill(&self) {
        self.events.send_modify(|(kills, _)| *kills += 1);
    }

    /// Changes the tools and tells the clients.
    pub(crate) fn change(&self, tools: &[&str]) {
        *self.tools.lock().unwrap() = tools.iter().map(|name| tool(name)).collect();
        self.events.send_modify(|(_, changes)| *changes += 1);
    }

    pub(crate) fn launches(&self) -> usize {
        *self.launches.lock().unwrap()
    }

    pub(crate) fn alive(&self) -> usize {
        *self.alive.lock().unwrap()
    }

    /// Returns the messages of a method.
    pub(crate) fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|message| message["method"] == method).cloned().collect()
    }
}

pub(crate) fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The tool {name}"),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": name != "write"},
    })
}

/// Starts scripted servers by the name of their program.
#[derive(Debug, Default)]
pub(crate) struct Scripts(pub(crate) HashMap<String, Arc<Script>>);

impl Scripts {
    pub(crate) fn one(name: &str, script: &Arc<Script>) -> Arc<Self> {
        Arc::new(Self(HashMap::from([(name.to_owned(), Arc::clone(script))])))
    }
}

#[async_trait]
impl Launcher for Scripts {
    async fn launch(
        &self,
        server: &StdioServer,
        inside: Option<&Arc<dyn Workspace>>,
    ) -> Result<Child, Fault> {
        let script = self.0.get(&server.command);
        let script = script.ok_or_else(|| Fault::new(format!("no {}", server.command)))?;
        let place = inside.map(|workspace| workspace.cwd().display().to_string());
        script.places.lock().unwrap().push(place);
        {
            let mut failures = script.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(Fault::new("start the program: not there yet"));
            }
        }
        *script.launches.lock().unwrap() += 1;
        *script.alive.lock().unwrap() += 1;
        let (stdin, input) = tokio::io::duplex(64 << 10);
        let (output, stdout) = tokio::io::duplex(64 << 10);
        let stderr = LastLines::default();
        stderr.push("a last word");
        let (end, ended) = watch::channel(None);
        let script = Arc::clone(script);
        let mut events = script.events.subscribe();
        let (kills, _) = *events.borrow();
        let kill = CancellationToken::new();
        let killed = kill.clone();
        tokio::spawn(async move {
            let status = tokio::select! {
                () = serve(&script, input, output) => ExitStatus::Code(0),
                _ = events.wait_for(|(now, _)| *now > kills) => ExitStatus::Signal(9),
                () = killed.cancelled() => ExitStatus::Signal(9),
            };
            *script.alive.lock().unwrap() -= 1;
            end.send_replace(Some(status));
        });
        let process = Box::new(Tree { kill, ended });
        Ok(Child { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, process })
    }
}

#[derive(Debug)]
struct Tree {
    kill: CancellationToken,
    ended: watch::Receiver<Option<ExitStatus>>,
}

#[async_trait]
impl Process for Tree {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let status = self.ended.wait_for(Option::is_some).await.unwrap().unwrap();
        Ok(Exit { status, leftovers: 0, killed: status == ExitStatus::Signal(9) })
    }

    fn kill(&self, _grace: Duration) {
        self.kill.cancel();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

/// Speaks for one process until its input ends.
async fn serve(script: &Arc<Script>, input: DuplexStream, output: DuplexStream) {
    let (send, mut to_send) = mpsc::channel::<Value>(64);
    let mut output = output;
    let writing = async {
        while let Some(message) = to_send.recv().await {
            let line = format!("{message}\n");
            if output.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    let mut events = script.events.subscribe();
    let telling = async {
        loop {
            let (_, before) = *events.borrow_and_update();
            if events.wait_for(|(_, now)| *now != before).await.is_err() {
                return;
            }
            if script.is_modern {
                // Told to those who listen, and to nobody else.
                continue;
            }
            let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let _sent = send.send(told).await;
        }
    };
    let answers: Arc<Mutex<HashMap<String, Value>>> = Arc::default();
    let reading = async {
        let _said = send.send(json!("no message at all")).await;
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            script.seen.lock().unwrap().push(message.clone());
            if message["method"].is_null() {
                let id = message["id"].as_str().unwrap_or_default().to_owned();
                answers.lock().unwrap().insert(id, message);
                continue;
            }
            if message["id"].is_null() {
                continue;
            }
            if message["params"]["name"] == "die" {
                return;
            }
            if message["params"]["name"] == "deaf" {
                // It lives on and reads nothing any more.
                std::future::pending::<()>().await;
            }
            let (script, send, answers) = (Arc::clone(script), send.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                let Some(body) = answer(&script, &message, &send, &answers).await else { return };
                let mut whole = json!({"jsonrpc": "2.0", "id": message["id"]});
                for (key, value) in body.as_object().unwrap() {
                    whole[key] = value.clone();
                }
                let _sent = send.send(whole).await;
            });
        }
    };
    tokio::select! {
        () = writing => {}
        () = telling => {}
        () = reading => {}
    }
}

async fn answer(
    script: &Script,
    message: &Value,
    send: &mpsc::Sender<Value>,
    answers: &Mutex<HashMap<String, Value>>,
) -> Option<Value> {
    let params = &message["params"];
    let capabilities = json!({"tools": {"listChanged": true}});
    let own = json!({"name": "script", "version": "1"});
    match message["method"].as_str().unwrap() {
        _ if *script.is_mute.lock().unwrap() => None,
        "server/discover" if script.is_modern => Some(json!({"result": {
            "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "serverInfo": own, "ttlMs": 0, "cacheScope": "private", "resultType": "complete",
        }})),
        "initialize" if !script.is_modern => Some(json!({"result": {
            "protocolVersion": params["protocolVersion"], "capabilities": capabilities,
            "serverInfo": own,
        }})),
        "subscriptions/listen" if script.is_modern => {
            let told = json!({"jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {SUBSCRIPTION: message["id"]},
                           "notifications": params["notifications"]}});
            let _sent = send.send(told).await;
            let mut events = script.events.subscribe();
            loop {
                let (_, before) = *events.borrow_and_update();
                events.wait_for(|(_, now)| *now != before).await.unwrap();
                let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                    "params": {"_meta": {SUBSCRIPTION: message["id"]}}});
                if send.send(told).await.is_err() {
                    return None;
                }
            }
        }
        "tools/list" => Some(list(script, params)),
        "tools/call" => call(script, message, send, answers).await,
        method => Some(json!({"error": {"code": -32601, "message": format!("no {method}")}})),
    }
}

fn list(script: &Script, params: &Value) -> Value {
    let tools = script.tools.lock().unwrap();
    let start: usize = params["cursor"].as_str().unwrap_or("0").parse().unwrap();
    let page: Vec<&Value> = tools.iter().skip(start).take(2).collect();
    let mut result = json!({"tools": page, "ttlMs": 0, "cacheScope": "private",
                            "resultType": "complete"});
    if start + 2 < tools.len() {
        result["nextCursor"] = json!((start + 2).to_string());
    }
    json!({"result": result})
}

async fn call(
    script: &Script,
    message: &Value,
    send: &mpsc::Sender<Value>,
    answers: &Mutex<HashMap<String, Value>>,
) -> Option<Value> {
    let params = &message["params"];
    let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
    let result = match params["name"].as_str().unwrap() {
        "hang" => return None,
        "refuse" => return Some(json!({"error": {"code": -32000, "message": "not today"}})),
        "progress" => {
            let token = &params["_meta"]["progressToken"];
            let told = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}});
            let _sent = send.send(told).await;
            text("done".to_owned())
        }
        "ask" if script.is_modern => {
            let Some(given) = params["inputResponses"].as_object() else {
                return Some(json!({"result": {"resultType": "input_required",
                    "inputRequests": {"who": {"method": "elicitation/create",
                        "params": params["arguments"]}},
                    "requestState": "sealed"}}));
            };
            assert_eq!(params["requestState"], "sealed");
            text(given["who"].to_string())
        }
        "ask" => {
            let id = format!("ask-{}", message["id"]);
            let asks = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
                              "params": params["arguments"]});
            let _sent = send.send(asks).await;
            loop {
                if let Some(answer) = answers.lock().unwrap().remove(&id) {
                    break text(answer["result"].to_string());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        "result" => params["arguments"].clone(),
        name => {
            text(format!("{name} says {}", params["arguments"]["text"].as_str().unwrap_or("-")))
        }
    };
    let mut result = result;
    result["resultType"] = json!("complete");
    Some(json!({"result": result}))
}
