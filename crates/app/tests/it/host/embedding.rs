//! What an application gets of a program that works.

use serde_json::json;
use testkit::model_server::{Answer, Call};

use super::{Host, hello};
use crate::program::Program;

fn touch(name: &str) -> Answer {
    Answer::calls([Call::new("run_shell", json!({"command": format!("touch {name}")}))])
}

#[test]
fn the_hosts_denial_holds_in_full_auto_and_its_consent_lets_run() {
    let program = Program::new();
    let review = json!({"approvals": {"review": "mutations"}});
    let mut host = Host::met(&program, &[], review);
    let session = host.session(&program, "full-auto");
    program.server.push(touch("one"));
    program.server.push(touch("two"));
    program.server.push(Answer::text("done"));
    host.prompt(&session, "go");
    for (outcome, name) in [("deny", "one"), ("allow_once", "two")] {
        let (id, params) = host.asked("approval/request");
        let card = &params["approval"];
        assert_eq!(card["command"], format!("touch {name}"));
        assert_eq!(card["reason"], "review");
        host.answers(&id, json!({"outcome": outcome, "reason": "so it is"}));
    }
    assert_eq!(host.event("tool_denied")["by"], "host");
    assert_eq!(host.event("done")["reason"], "completed");
    assert!(!program.cwd().join("one").exists() && program.cwd().join("two").exists());
    let ended = host.leave();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_edit_goes_through_the_editors_buffer_and_a_command_through_its_terminal() {
    let program = Program::new();
    program.write("a.txt", "on the disk\n");
    let lends = json!({
        "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": {"create": true}
    });
    let mut host = Host::met(&program, &[], lends);
    let session = host.session(&program, "full-auto");
    let edit = json!({"path": "a.txt", "old_string": "buffer", "new_string": "changed"});
    program.server.push(Answer::calls([Call::new("read_file", json!({"path": "a.txt"}))]));
    program.server.push(Answer::calls([Call::new("edit_file", edit)]));
    program.server.push(Answer::calls([Call::new("run_shell", json!({"command": "make"}))]));
    program.server.push(Answer::text("done"));
    host.prompt(&session, "go");
    loop {
        let asked = host.until(|it| {
            it.get("id").is_some() && it.get("method").is_some()
                || it["params"]["event"]["type"] == "done"
        });
        let result = match asked["method"].as_str().unwrap() {
            "fs/read_text_file" => json!({"content": "in the buffer\n"}),
            "fs/write_text_file" => {
                assert_eq!(asked["params"]["content"], "in the changed\n");
                json!({})
            }
            "terminal/create" => {
                assert_eq!(asked["params"]["args"], json!(["-c", "make"]));
                json!({"terminalId": "t"})
            }
            "terminal/output" => json!({"output": "made it\n", "truncated": false}),
            "terminal/wait_for_exit" => json!({"exitCode": 2}),
            "terminal/release" => json!({}),
            _ => break,
        };
        host.answers(&asked["id"], result);
    }
    assert_eq!(program.read("a.txt"), "on the disk\n", "the disk is the editor's to write");
    let last = program.server.requests().last().unwrap().body.to_string();
    assert!(last.contains("made it") && last.contains('2'), "{last}");
    assert_eq!(host.leave().code, Some(0));
}

#[test]
fn what_is_wrong_ends_it_before_anything_is_opened() {
    let program = Program::new();
    for (args, part) in [
        (&["--socket", "s"][..], "token"),
        (&["--token-file", "t"], "socket"),
        (&["--stdio", "--socket", "s", "--token-file", "t"], "stdio"),
        (&["--socket", "none/s", "--token-file", "t"], "--token-file"),
        (&["--token", "0123456789abcdef"], "--token"),
        (&["--max-sessions", "0"], "max-sessions"),
    ] {
        let ended = program.run(&[&["host"], args].concat());
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.err.contains(part) && ended.out.is_empty(), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_session_is_loaded_after_a_restart_and_goes_on() {
    let program = Program::new();
    let mut host = Host::met(&program, &[], json!({}));
    let session = host.session(&program, "ask");
    program.server.push(Answer::text("quince"));
    host.prompt(&session, "a fruit");
    host.event("prompt_finished");
    assert_eq!(host.leave().code, Some(0));
    let mut host = Host::silent(&program, &[]);
    host.ask("initialize", hello(json!({}), None)).unwrap();
    let listed = host.ask("session/list", json!({"limit": 1})).unwrap();
    assert_eq!(listed["sessions"][0]["id"], session.as_str());
    host.ask("session/load", json!({"sessionId": session})).unwrap();
    host.ask("session/subscribe", json!({"sessionId": session, "afterSeq": 0})).unwrap();
    host.event("prompt_finished");
    program.server.push(Answer::text("again"));
    host.prompt(&session, "which?");
    host.event("prompt_finished");
    let last = program.server.requests().last().unwrap().body.to_string();
    assert!(last.contains("quince"), "{last}");
    assert_eq!(host.leave().code, Some(0));
}
