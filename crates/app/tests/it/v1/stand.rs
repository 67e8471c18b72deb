//! A server that can be killed and started again, its model, and what tests ask of it.

use serde_json::{Value, json};
use testkit::model_server::{Answer, Options, Request};

use super::client::{self, Api, Frame, Line, Stream};
use crate::program::{Program, until};
use crate::serving::Serving;

const TOKEN: &str = "a-token-for-every-start-0123456789";

pub(super) struct Stand {
    pub(super) program: Program,
    pub(super) server: Serving,
    flags: Vec<String>,
}

impl Stand {
    /// Starts a server whose model has no script yet.
    pub(super) fn start(flags: &[&str]) -> Self {
        Self::of(Program::new(), flags)
    }

    /// Starts a server whose model keeps no requests, for tests with many.
    pub(super) fn start_light(flags: &[&str]) -> Self {
        let options = Options { keeps_requests: false, ..Options::default() };
        Self::of(Program::with(options), flags)
    }

    pub(super) fn of(program: Program, flags: &[&str]) -> Self {
        program.write("a.txt", "the first file\n");
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let server = serve(&program, &flags);
        Self { program, server, flags }
    }

    /// Kills the server and starts another one on the same home.
    pub(super) fn kill_and_restart(&mut self) {
        self.server.stop("KILL");
        self.server = serve(&self.program, &self.flags);
    }

    /// Stops the server in order and starts another one on the same home.
    pub(super) fn restart(&mut self) {
        let ended = self.server.stop("TERM");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        self.server = serve(&self.program, &self.flags);
    }

    pub(super) fn api(&self) -> Api {
        Api { port: self.server.port, token: TOKEN.to_owned() }
    }

    /// The same server by another port.
    pub(super) fn api_through(&self, port: u16) -> Api {
        Api { port, token: TOKEN.to_owned() }
    }

    /// Lets a function answer every request of the model, by the newest prompt and by how many
    /// results of tools have come since.
    pub(super) fn script(&self, script: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) {
        self.program.server.route_with(move |request| {
            let (prompt, results) = since_the_prompt(request);
            Some(script(&prompt, results))
        });
    }
}

fn serve(program: &Program, flags: &[String]) -> Serving {
    let mut command = program.command(&["serve", "--port", "0", "--json-ready"]);
    command.args(flags).env("NARTHEX_SERVER_TOKEN", TOKEN);
    Serving::of(command, Some(TOKEN))
}

/// Returns the newest prompt of a conversation, and how many results came behind it.
fn since_the_prompt(request: &Request) -> (String, usize) {
    let mut results = 0;
    for message in request.messages().iter().rev().filter(|it| it["role"] == "user") {
        let Some(blocks) = message["content"].as_array() else {
            return (message["content"].as_str().unwrap_or_default().to_owned(), results);
        };
        for block in blocks.iter().rev() {
            match block["type"].as_str() {
                Some("text") => {
                    return (block["text"].as_str().unwrap_or_default().to_owned(), results);
                }
                _ => results += 1,
            }
        }
    }
    (String::new(), results)
}

impl Api {
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> client::Answer {
        let mut line = Line::open(self).unwrap();
        line.send((method, path), &[("connection", "close")], body).unwrap();
        line.answer().unwrap()
    }

    pub(super) fn get(&self, path: &str) -> client::Answer {
        self.ask("GET", path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> client::Answer {
        self.ask("POST", path, Some(body))
    }

    pub(super) fn create(&self) -> String {
        self.create_with(&json!({}))
    }

    pub(super) fn create_with(&self, fields: &Value) -> String {
        let answer = self.post("/sessions", fields);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub(super) fn session(&self, id: &str) -> Value {
        let answer = self.get(&format!("/sessions/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Prompts and returns the id of the prompt.
    pub(super) fn prompt(&self, session: &str, text: &str) -> String {
        let answer = self.post(&format!("/sessions/{session}/prompt"), &json!({"text": text}));
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["promptId"].as_str().unwrap().to_owned()
    }

    pub(super) fn answer(&self, session: &str, request: &str, body: &Value) -> client::Answer {
        self.post(&format!("/sessions/{session}/permissions/{request}"), body)
    }

    pub(super) fn allow(&self, session: &str, request: &str) -> client::Answer {
        self.answer(session, request, &json!({"answer": "allow_once"}))
    }

    /// Returns the requests that wait.
    pub(super) fn pending(&self, session: &str) -> Vec<Value> {
        let listed = self.get(&format!("/sessions/{session}/permissions")).json();
        listed["requests"].as_array().unwrap().clone()
    }

    /// Waits for a request and returns its id.
    pub(super) fn request(&self, session: &str) -> String {
        until("a request", || !self.pending(session).is_empty());
        self.pending(session)[0]["requestId"].as_str().unwrap().to_owned()
    }

    pub(super) fn wait_for_state(&self, session: &str, state: &str) {
        until(state, || self.session(session)["state"] == state);
    }

    /// Opens a stored session.
    pub(super) fn resume(&self, session: &str) {
        let answer = self.post("/sessions", &json!({"resume": session}));
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub(super) fn stream(&self, session: &str, last: Option<u64>) -> Stream {
        Stream::open(self, session, last).unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    /// Returns what the log shows of a session now: its recorded frames. A change of the mode
    /// and back marks the end, since the newest id may be that of something live.
    pub(super) fn log(&self, session: &str) -> Vec<Frame> {
        let shown = self.session(session);
        let (mode, last) = (&shown["mode"], shown["lastEventId"].as_u64());
        let other = if mode == "ask" { json!("auto-edit") } else { json!("ask") };
        for mode in [&other, mode] {
            let answer = self.post(&format!("/sessions/{session}/mode"), &json!({"mode": mode}));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        let is_mark = |frame: &Frame| frame.is("mode_changed") && frame.id > last;
        let mut frames = self.stream(session, Some(0)).until(is_mark);
        frames.pop();
        frames
    }

    pub(super) fn messages(&self, session: &str) -> Vec<Value> {
        let answer = self.get(&format!("/sessions/{session}/messages?limit=1000"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["messages"].as_array().unwrap().clone()
    }
}
