//! A server that answers as a test says, down to where its connections break.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use narthex::client::{Client, ClientOptions};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the line of the request without the `/v1` before its path.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.path.strip_prefix("/v1").unwrap_or(&self.path))
    }

    pub(crate) fn last_event_id(&self) -> Option<u64> {
        self.header("last-event-id").map(|id| id.parse().unwrap())
    }
}

/// What is sent back, piece by piece. Nothing says where it ends: the connection does.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Send(String),
    Wait(Duration),
    /// Nothing more comes, and the connection stays.
    Hold,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) pieces: Vec<Piece>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let (text, length) = (body.to_string(), body.to_string().len());
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
        );
        Self { head, pieces: vec![Piece::Send(text)] }
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        Self::json(status, &serde_json::json!({"error": {"code": code, "message": "no"}}))
    }

    pub(crate) fn header(mut self, line: &str) -> Self {
        self.head.push_str(line);
        self.head.push_str("\r\n");
        self
    }

    /// Hangs up without a word.
    pub(crate) fn nothing() -> Self {
        Self { head: String::new(), pieces: Vec::new() }
    }

    pub(crate) fn events(pieces: Vec<Piece>) -> Self {
        Self { head: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n".to_owned(), pieces }
    }
}

type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// The server. It ends when it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::default();
        let (script, seen): (Script, _) = (Arc::new(script), Arc::clone(&requests));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&script), Arc::clone(&seen)));
            }
        });
        Self { url, requests, _tasks: tasks }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    /// Makes a client whose waits are short.
    pub(crate) fn client_with(&self, change: impl FnOnce(&mut ClientOptions)) -> Client {
        let mut options = ClientOptions::default();
        options.backoff_first = Duration::from_millis(1);
        options.backoff_max = Duration::from_millis(5);
        change(&mut options);
        Client::connect_with(&self.url, "the-token", options).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }
}

async fn serve(mut stream: TcpStream, script: Script, seen: Arc<Mutex<Vec<Request>>>) {
    let Some(request) = read(&mut stream).await else { return };
    seen.lock().unwrap().push(request.clone());
    let reply = script(&request);
    if reply.head.is_empty() {
        return;
    }
    let head = format!("{}connection: close\r\n\r\n", reply.head);
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    for piece in reply.pieces {
        match piece {
            Piece::Send(text) => {
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Piece::Wait(length) => tokio::time::sleep(length).await,
            Piece::Hold => {
                // Until the client goes.
                let _ = stream.read(&mut [0; 16]).await.is_ok();
            }
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap().split(' ');
    let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Request { method, path, headers, body })
}

/// Returns an event as it stands in a stream.
pub(crate) fn frame(id: u64, event: &Value) -> String {
    let name = event["type"].as_str().unwrap();
    format!("id: {id}\nevent: {name}\ndata: {event}\n\n")
}

/// Returns a session as it stands in an answer.
pub(crate) fn session(last_event_id: u64, state: &str) -> Value {
    serde_json::json!({
        "id": "s1", "cwd": "/work", "mode": "ask", "model": "demo", "state": state,
        "queued": 0, "createdAt": "2026-12-01T08:00:00.000Z",
        "updatedAt": "2026-12-01T08:00:00.000Z", "lastEventId": last_event_id,
        "pendingRequests": 0, "of-a-newer-server": true,
    })
}
