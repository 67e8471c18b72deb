//! `narthex acp`: the built program as an editor starts it.
#![allow(clippy::disallowed_methods, reason = "these tests start the built program as users do")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::model_server::{Answer, Call, tool_names, tool_results};

use crate::mcp::SERVER;
use crate::program::{Ended, Program, alive, finish, signal, until};

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// An editor without files and terminals of its own.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: i64,
    seen: Vec<Value>,
}

impl Editor {
    fn start(program: &Program) -> Self {
        Self::of(program.command(&["acp"]))
    }

    fn of(mut command: std::process::Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, input, lines, next: 1, seen: Vec::new() }
    }

    fn met(program: &Program) -> Self {
        let mut editor = Self::start(program);
        editor.ask("initialize", &json!({"protocolVersion": 1})).unwrap();
        editor
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Reads until a message fits; all are kept.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("a line in time");
            let message: Value = serde_json::from_str(&line).expect("protocol alone");
            self.seen.push(message.clone());
            if fits(&message) {
                return message;
            }
        }
    }

    fn answer(&mut self, id: i64) -> Result<Value, Value> {
        let answer = self.until(|it| it["id"] == id && it.get("method").is_none());
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    fn session(&mut self, program: &Program) -> String {
        let opened = self.ask("session/new", &json!({"cwd": program.cwd(), "mcpServers": []}));
        opened.unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Answers the next permission.
    fn decide(&mut self, option: &str) {
        let asked = self.until(|it| it["method"] == "session/request_permission");
        let result = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    }

    fn leave(mut self) -> Ended {
        drop(self.input.take());
        let ended = finish(self.child);
        // Nothing but the protocol was ever written.
        for line in self.lines.try_iter() {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("{line}"));
        }
        ended
    }
}

/// Lets the model read a file, which edits want, and then change it.
fn edits(program: &Program) {
    program.write("a.txt", "the first file\n");
    program.server.push(Answer::call("read_file", json!({"path": "a.txt"})));
    let args = json!({"path": "a.txt", "old_string": "first", "new_string": "second"});
    program.server.push(Answer::call("edit_file", args));
}

#[test]
fn a_session_is_talked_in_left_and_loaded_again() {
    let program = Program::new();
    let mut editor = Editor::met(&program);
    let session = editor.session(&program);
    edits(&program);
    program.server.push(Answer::text("Done."));
    let prompt = editor.prompt(&session, "change it");
    editor.decide("allow_once");
    assert_eq!(editor.answer(prompt).unwrap()["stopReason"], "end_turn");
    assert_eq!(program.read("a.txt"), "the second file\n");
    let ended = editor.leave();
    assert_eq!(ended.code, Some(0), "{ended:?}");

    let mut editor = Editor::met(&program);
    let params = json!({"sessionId": session, "cwd": program.cwd(), "mcpServers": []});
    editor.ask("session/load", &params).unwrap();
    let kinds: Vec<_> = editor
        .seen
        .iter()
        .filter_map(|it| it["params"]["update"]["sessionUpdate"].as_str())
        .collect();
    for kind in ["user_message_chunk", "tool_call", "agent_message_chunk"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    program.server.push(Answer::text("Still here."));
    let prompt = editor.prompt(&session, "and now?");
    assert_eq!(editor.answer(prompt).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.leave().code, Some(0));
}

#[test]
fn an_editor_that_goes_away_stops_its_turn_and_denies_what_waits() {
    let program = Program::new();
    let mut editor = Editor::met(&program);
    let session = editor.session(&program);
    edits(&program);
    editor.prompt(&session, "change it");
    editor.until(|it| it["method"] == "session/request_permission");
    let ended = editor.leave();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(program.read("a.txt"), "the first file\n");
    let waiting = program.run(&["approvals", "list", "--format", "json"]);
    assert!(!waiting.out.contains(&session), "{waiting:?}");
}

#[test]
fn a_cancelled_command_is_gone_when_the_prompt_is_answered() {
    const WORD: &str = "86.1207";
    let program = Program::new();
    let mut editor = Editor::met(&program);
    let session = editor.session(&program);
    let args = json!({"command": format!("sleep {WORD}")});
    program.server.push(Answer::calls([Call::new("run_shell", args)]));
    let prompt = editor.prompt(&session, "sleep");
    editor.decide("allow_once");
    until("the command", || alive(WORD) == 1);
    editor.tell("session/cancel", &json!({"sessionId": session}));
    assert_eq!(editor.answer(prompt).unwrap()["stopReason"], "cancelled");
    assert_eq!(alive(WORD), 0);
    assert_eq!(editor.leave().code, Some(0));
}

#[test]
fn a_question_outlives_a_program_that_is_told_to_stop() {
    let program = Program::new();
    let mut editor = Editor::met(&program);
    let session = editor.session(&program);
    edits(&program);
    editor.prompt(&session, "change it");
    editor.until(|it| it["method"] == "session/request_permission");
    signal(editor.child.id(), "TERM");
    let ended = finish(editor.child);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(editor.input);

    let mut editor = Editor::met(&program);
    let params = json!({"sessionId": session, "cwd": program.cwd(), "mcpServers": []});
    let loading = editor.request("session/load", &params);
    editor.answer(loading).unwrap();
    program.server.push(Answer::text("Done."));
    editor.decide("allow_once");
    editor.until(|it| {
        it["params"]["update"]["sessionUpdate"] == "usage_update"
            || it["params"]["update"]["content"]["text"] == "Done."
    });
    assert_eq!(program.read("a.txt"), "the second file\n");
    assert_eq!(editor.leave().code, Some(0));
}

#[test]
fn without_a_key_a_client_has_to_authenticate_and_then_may() {
    let program = Program::new();
    let mut command = program.command(&["acp"]);
    // At its usual address the provider wants a key; nothing is asked of it here.
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        command.env_remove(name);
    }
    let mut editor = Editor::of(command);
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": true}}});
    let told = editor.ask("initialize", &hello).unwrap();
    let ids: Vec<_> =
        told["authMethods"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert!(ids.contains(&json!("key")) && ids.contains(&json!("login-anthropic")), "{ids:?}");
    let new = json!({"cwd": program.cwd(), "mcpServers": []});
    let refused = editor.ask("session/new", &new).unwrap_err();
    assert_eq!(refused["code"], -32000, "{refused}");
    let kept = program.run_with_input(&["acp", "--login", "anthropic"], "a-key-of-a-person\n");
    assert_eq!(kept.code, Some(0), "{kept:?}");
    editor.ask("authenticate", &json!({"methodId": "key"})).unwrap();
    editor.ask("session/new", &new).unwrap();
    assert_eq!(editor.leave().code, Some(0));
}

#[test]
fn garbage_is_answered_and_the_log_is_on_standard_error() {
    let program = Program::new();
    let mut editor = Editor::start(&program);
    writeln!(editor.input.as_mut().unwrap(), "no json").unwrap();
    let answer = editor.until(|it| it.get("error").is_some());
    assert_eq!(answer["error"]["code"], -32700);
    assert_eq!(answer["id"], Value::Null);
    editor.ask("initialize", &json!({"protocolVersion": 1})).unwrap();
    assert_eq!(editor.leave().code, Some(0));
    let wrong = program.run(&["acp", "--model", "no/such/model"]);
    assert_ne!(wrong.code, Some(0), "{wrong:?}");
    assert!(wrong.out.is_empty() && !wrong.err.is_empty(), "{wrong:?}");
}

#[test]
fn the_tools_that_an_editor_brings_are_that_sessions_alone() {
    const MARK: &str = "86.7301";
    let program = Program::new();
    let mut editor = Editor::met(&program);
    let env = json!([{"name": "MARK", "value": MARK}, {"name": "PORT", "value": "1"}]);
    let server = json!({"name": "probe", "command": "bash", "args": ["-c", SERVER], "env": env});
    let new = json!({"cwd": program.cwd(), "mcpServers": [server]});
    let opened = editor.ask("session/new", &new).unwrap();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    program.server.push(Answer::call("mcp__probe__look", json!({})));
    program.server.push(Answer::text("Looked."));
    let prompt = editor.prompt(&session, "look");
    assert_eq!(editor.answer(prompt).unwrap()["stopReason"], "end_turn");
    let told = format!("{:?}", tool_results(program.server.requests().last().unwrap()));
    assert!(told.contains("pid="), "{told}");
    assert_eq!(alive(MARK), 1);

    let other = editor.session(&program);
    program.server.push(Answer::text("I have no such tool."));
    let prompt = editor.prompt(&other, "look");
    editor.answer(prompt).unwrap();
    let names = tool_names(program.server.requests().last().unwrap());
    assert!(!names.iter().any(|name| name.starts_with("mcp__")), "{names:?}");

    editor.ask("session/close", &json!({"sessionId": session})).unwrap();
    until("the end of the server", || alive(MARK) == 0);
    assert_eq!(editor.leave().code, Some(0));
}
