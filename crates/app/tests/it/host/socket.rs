//! The door at a socket: hosts come, are cut off, and come again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::model_server::{Answer, Call};

use super::{Host, hello};
use crate::program::{Ended, Program, alive, finish, signal, until};

const TOKEN: &str = "0123456789abcdef0123";

/// A program that listens.
struct Listening {
    child: Child,
    path: PathBuf,
}

impl Listening {
    fn start(program: &Program, further: &[&str]) -> Self {
        let folder = program.cwd().join("run");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let (path, token) = (folder.join("s"), folder.join("token"));
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
        let args = ["host", "--socket", "run/s", "--token-file", "run/token"];
        let mut command = program.command(&[&args, further].concat());
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        until("the socket", || path.exists());
        Self { child, path }
    }

    fn host(&self, capabilities: Value) -> Host {
        let mut host = Host::at(&self.path);
        host.ask("initialize", hello(capabilities, Some(TOKEN))).unwrap();
        host
    }

    fn stop(self) -> (Ended, PathBuf) {
        signal(self.child.id(), "TERM");
        (finish(self.child), self.path)
    }
}

#[test]
fn a_host_that_was_cut_off_takes_its_session_up_again() {
    let program = Program::new();
    let listening = Listening::start(&program, &[]);
    let review = || json!({"approvals": {"review": "asks"}});
    let mut first = listening.host(review());
    let session = first.session(&program, "ask");
    program.server.push(Answer::calls([Call::new("run_shell", json!({"command": "touch a"}))]));
    program.server.push(Answer::text("done"));
    first.prompt(&session, "go");
    let (_, before) = first.asked("approval/request");
    first.cut();
    // The socket's other end is told with the next read: until then the session has a host.
    let mut second = listening.host(review());
    let (id, params) = loop {
        let seen = json!({"sessionId": session, "afterSeq": 0});
        second.ask("session/subscribe", seen).unwrap();
        let is_asked = |it: &Value| it["method"] == "approval/request";
        second.ask("health", json!({})).unwrap();
        if let Some(place) = second.kept.iter().position(is_asked) {
            let asked = second.kept.remove(place);
            break (asked["id"].clone(), asked["params"].clone());
        }
    };
    assert_eq!(params["requestId"], before["requestId"], "the same request, not another one");
    second.answers(&id, json!({"outcome": "allow_once"}));
    assert_eq!(second.event("done")["reason"], "completed");
    assert!(program.cwd().join("a").exists());
    let (ended, path) = listening.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!path.exists());
    assert!(!ended.err.contains(TOKEN), "the token is in the log");
}

#[test]
fn a_turn_without_a_host_is_stopped_after_the_grace_and_the_agent_serves_on() {
    let program = Program::new();
    let listening = Listening::start(&program, &["--grace", "100"]);
    let mut first = listening.host(json!({}));
    let session = first.session(&program, "full-auto");
    // How long it sleeps is known to this test alone.
    let mark = format!("82{}", std::process::id());
    let command = format!("sleep {mark}");
    program.server.push(Answer::calls([Call::new("run_shell", json!({"command": command}))]));
    first.prompt(&session, "go");
    until("the command", || alive(&mark) > 0);
    first.cut();
    until("the end of the command", || alive(&mark) == 0);
    let mut second = listening.host(json!({}));
    second.ask("session/subscribe", json!({"sessionId": session, "afterSeq": 0})).unwrap();
    assert_eq!(second.event("done")["reason"], "interrupted");
    let (ended, _) = listening.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_stranger_learns_nothing() {
    let program = Program::new();
    let listening = Listening::start(&program, &[]);
    for token in [None, Some("wrong"), Some("0123456789abcdef012")] {
        let mut stranger = Host::at(&listening.path);
        assert_eq!(stranger.ask("health", json!({})).unwrap_err()["code"], -32002);
        let refused = stranger.ask("initialize", hello(json!({}), token)).unwrap_err();
        assert_eq!(refused["code"], -32003, "{token:?}");
        assert!(stranger.lines.recv_timeout(super::PATIENCE).is_err(), "it was not cut off");
    }
    assert_eq!(listening.host(json!({})).ask("health", json!({})).unwrap()["sessions"], 0);
    let (ended, _) = listening.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
