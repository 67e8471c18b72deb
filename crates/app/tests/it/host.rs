//! `narthex host`: the built program inside another one, and what happens when that one fails.
#![allow(clippy::needless_pass_by_value, reason = "messages are made where they are handed over")]
#![allow(clippy::disallowed_methods, reason = "these tests start the built program as users do")]

mod embedding;
mod faults;
mod socket;

use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::{Ended, Program, finish};

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The host of a connection.
struct Host {
    /// The program, where the connection is its standard streams.
    child: Option<Child>,
    /// The socket, where it is one.
    stream: Option<UnixStream>,
    input: Option<Box<dyn Write + Send>>,
    lines: Receiver<String>,
    next: i64,
    /// What came while something else was waited for.
    kept: Vec<Value>,
}

impl Host {
    /// Starts the program, and says nothing yet.
    fn silent(program: &Program, further: &[&str]) -> Self {
        Self::of(program.command(&[&["host"], further].concat()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let input: Box<dyn Write + Send> = Box::new(input);
        let (child, stream) = (Some(child), None);
        Self { child, stream, input: Some(input), lines, next: 1, kept: Vec::new() }
    }

    /// Starts the program and says who it is.
    fn met(program: &Program, further: &[&str], capabilities: Value) -> Self {
        let mut host = Self::silent(program, further);
        host.ask("initialize", hello(capabilities, None)).unwrap();
        host
    }

    /// Connects to a socket.
    fn at(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        let lines = lines(stream.try_clone().unwrap());
        let input: Box<dyn Write + Send> = Box::new(stream.try_clone().unwrap());
        let (child, stream) = (None, Some(stream));
        Self { child, stream, input: Some(input), lines, next: 1, kept: Vec::new() }
    }

    fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    /// Reads until a message fits.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.kept.iter().position(&fits) {
            return self.kept.remove(place);
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{error}; so far: {:?}", self.kept);
            });
            let message: Value = serde_json::from_str(&line).expect("protocol alone");
            if fits(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let answer = self.until(|it| it["id"] == id && it.get("method").is_none());
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Begins a session and watches it.
    fn session(&mut self, program: &Program, mode: &str) -> String {
        let wanted = json!({"cwd": program.cwd(), "mode": mode});
        let session = self.ask("session/new", wanted).unwrap();
        let id = session["id"].as_str().unwrap().to_owned();
        self.ask("session/subscribe", json!({"sessionId": id})).unwrap();
        id
    }

    fn prompt(&mut self, session: &str, text: &str) {
        self.ask("session/prompt", json!({"sessionId": session, "text": text})).unwrap();
    }

    /// Waits for an event of a kind.
    fn event(&mut self, kind: &str) -> Value {
        self.until(|it| it["params"]["event"]["type"] == kind)["params"]["event"].clone()
    }

    /// Waits until it is asked something.
    fn asked(&mut self, method: &str) -> (Value, Value) {
        let asked = self.until(|it| it["method"] == method && it.get("id").is_some());
        (asked["id"].clone(), asked["params"].clone())
    }

    fn answers(&mut self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Cuts a socket.
    fn cut(self) {
        self.stream.unwrap().shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Says its last, and waits for the end.
    fn leave(mut self) -> Ended {
        drop(self.input.take());
        self.end()
    }

    fn end(self) -> Ended {
        let ended = finish(self.child.unwrap());
        // Nothing but the protocol was ever written.
        for line in self.lines.try_iter() {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("{line}"));
        }
        ended
    }
}

fn lines(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn hello(capabilities: Value, token: Option<&str>) -> Value {
    let mut params = json!({
        "protocolVersion": "1.0.0",
        "clientInfo": {"name": "test", "version": "1"},
        "capabilities": capabilities
    });
    if let Some(token) = token {
        params["auth"] = json!({"token": token});
    }
    params
}
