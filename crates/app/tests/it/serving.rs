//! A server of the built program, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{Ended, Program, finish, signal, until};

/// How long one answer may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs.
pub(crate) struct Serving {
    child: Option<Child>,
    pub(crate) id: u32,
    pub(crate) port: u16,
    pub(crate) ready: Value,
    pub(crate) token: String,
    /// Held open, unless a test closes it.
    pub(crate) out: Option<BufReader<ChildStdout>>,
    log: Arc<Mutex<String>>,
}

impl Serving {
    /// Starts a server of the program's home on any port.
    pub(crate) fn start(program: &Program, further: &[&str]) -> Self {
        let args = [&["serve", "--port", "0", "--json-ready"], further].concat();
        Self::of(program.command(&args), None)
    }

    /// Starts a server as the command says; `token` is the one that it was given.
    pub(crate) fn of(mut command: Command, token: Option<&str>) -> Self {
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (mut err, own) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = err.read(&mut bytes) {
                if count == 0 {
                    break;
                }
                own.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (line, first) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            drop(out.read_line(&mut text));
            drop(line.send((text, out)));
        });
        let Ok((text, out)) = first.recv_timeout(PATIENCE) else {
            signal(child.id(), "KILL");
            panic!("no ready line: {}", log.lock().unwrap());
        };
        let Ok(ready) = serde_json::from_str::<Value>(&text) else {
            signal(child.id(), "KILL");
            panic!("no ready record, but {text:?}: {}", log.lock().unwrap());
        };
        let port = u16::try_from(ready["port"].as_u64().unwrap()).unwrap();
        let made = ready["token"].as_str().unwrap_or_default();
        let token = token.unwrap_or(made).to_owned();
        let id = child.id();
        Self { child: Some(child), id, port, ready, token, out: Some(out), log }
    }

    /// Returns what it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Closes standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.as_mut().unwrap().stdin.take());
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(&mut self, name: &str) -> Ended {
        signal(self.id, name);
        self.end()
    }

    /// Waits for the end.
    pub(crate) fn end(&mut self) -> Ended {
        let ended = finish(self.child.take().unwrap());
        Ended { err: self.log(), ..ended }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, Some(body))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        ask(self.port, method, path, Some(&self.token), body)
    }

    /// Creates a session and returns its id.
    pub(crate) fn session(&self, fields: &Value) -> String {
        let reply = self.post("/v1/sessions", fields);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn prompt(&self, session: &str, text: &str) {
        let path = format!("/v1/sessions/{session}/prompt");
        let reply = self.post(&path, &json!({ "text": text }));
        assert_eq!(reply.status, 202, "{reply:?}");
    }

    /// Returns the state of a session.
    pub(crate) fn state(&self, session: &str) -> String {
        let shown = self.get(&format!("/v1/sessions/{session}")).json();
        shown["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for a request of a session and returns its id.
    pub(crate) fn request(&self, session: &str) -> String {
        let path = format!("/v1/sessions/{session}/permissions");
        let first = || {
            let listed = self.get(&path).json();
            listed["requests"][0]["requestId"].as_str().map(str::to_owned)
        };
        until("a request", || first().is_some());
        first().unwrap()
    }

    /// Watches a session's events: what comes is sent as text, until the stream ends.
    pub(crate) fn watch(&self, session: &str) -> Receiver<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Bearer {}\r\n\r\n",
            self.token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let (lines, came) = channel();
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        assert!(first.contains("200"), "{first}");
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        came
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Its first line and headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("JSON: {self:?}"))
    }
}

/// Sends one request on a connection of its own.
pub(crate) fn ask(
    port: u16,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let text = body.map(ToString::to_string).unwrap_or_default();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    if let Some(token) = token {
        head.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    if body.is_some() {
        head.push_str("content-type: application/json\r\n");
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", text.len()));
    stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Lets a command have an open standard input.
pub(crate) fn with_input(mut command: Command) -> Command {
    command.stdin(Stdio::piped());
    command
}
