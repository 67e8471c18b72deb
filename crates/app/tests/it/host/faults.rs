//! Hosts that die, fall silent, talk nonsense or do not read.

use serde_json::{Value, json};
use testkit::model_server::{Answer, At, Call, Gate};

use super::Host;
use crate::program::{Program, alive, signal, until};

fn asks() -> Value {
    json!({"approvals": {"review": "asks"}})
}

#[test]
fn a_host_that_dies_at_any_point_leaves_a_session_that_goes_on() {
    for (place, state) in ["idle", "streaming", "asking", "running"].into_iter().enumerate() {
        let program = Program::new();
        let gate = Gate::new();
        let mut host = Host::met(&program, &["--grace", "0"], asks());
        let session = host.session(&program, "ask");
        // How long it sleeps is known to this test alone.
        let mark = format!("81{}{place}", std::process::id());
        let command = format!("sleep {mark}");
        match state {
            "streaming" => program.server.push(Answer::text("slow").gate(At::Text, &gate)),
            _ => {
                let call = Call::new("run_shell", json!({"command": command}));
                program.server.push(Answer::calls([call]))
            }
        };
        if state != "idle" {
            host.prompt(&session, "go");
        }
        match state {
            "streaming" => until("the stream", || gate.is_reached()),
            "asking" => drop(host.asked("approval/request")),
            "running" => {
                let (id, _) = host.asked("approval/request");
                host.answers(&id, json!({"outcome": "allow_once"}));
                until("the command", || alive(&mark) > 0);
            }
            _ => {}
        }
        let ended = host.leave();
        assert_eq!(ended.code, Some(0), "{state}: {ended:?}");
        assert_eq!(alive(&mark), 0, "{state}: the command was left behind");
        gate.open();
        let mut next = Host::met(&program, &[], asks());
        let loaded = next.ask("session/load", json!({"sessionId": session})).unwrap();
        if state == "asking" {
            // What waited for a person waits on, and the next host is asked.
            assert_eq!(loaded["pendingRequests"], 1, "{loaded}");
            let (id, _) = next.asked("approval/request");
            next.ask("session/subscribe", json!({"sessionId": session})).unwrap();
            program.server.push(Answer::text("as you wish"));
            next.answers(&id, json!({"outcome": "deny"}));
            assert_eq!(next.event("done")["reason"], "completed");
        } else {
            assert_eq!(loaded["state"], "idle", "{state}: {loaded}");
        }
        assert_eq!(next.leave().code, Some(0), "{state}");
    }
}

#[test]
fn nonsense_is_answered_and_the_session_goes_on() {
    let program = Program::new();
    let mut host = Host::met(&program, &[], json!({}));
    let session = host.session(&program, "ask");
    for (line, code) in [
        ("{", -32700),
        ("\u{1}\u{2}", -32700),
        ("[{\"jsonrpc\":\"2.0\"}]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"health\"}", -32600),
    ] {
        host.write(line);
        host.until(|it| it["error"]["code"] == code);
    }
    // An answer to nothing, and a notification of nothing, are passed over.
    host.write("{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}");
    host.write("{\"jsonrpc\":\"2.0\",\"method\":\"$/hm\"}");
    host.write("");
    program.server.push(Answer::text("fine"));
    host.prompt(&session, "go");
    assert_eq!(host.event("done")["text"], "fine");
    assert_eq!(host.leave().code, Some(0));
}

#[test]
fn a_signal_ends_it_in_order_while_a_turn_runs() {
    let program = Program::new();
    let gate = Gate::new();
    let mut host = Host::met(&program, &["--grace", "600000"], json!({}));
    let session = host.session(&program, "ask");
    program.server.push(Answer::text("slow").gate(At::Head, &gate));
    host.prompt(&session, "go");
    until("the stream", || gate.is_reached());
    signal(host.id(), "TERM");
    let ended = host.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn sixty_four_sessions_work_at_once() {
    let program = Program::new();
    program.server.route(|_| true, Answer::text("fine"));
    let mut host = Host::met(&program, &[], json!({}));
    let sessions: Vec<String> = (0..64).map(|_| host.session(&program, "ask")).collect();
    let full = host.ask("session/new", json!({"cwd": program.cwd()})).unwrap_err();
    assert_eq!(full["data"]["code"], "too_many_sessions");
    for session in &sessions {
        host.request("session/prompt", json!({"sessionId": session, "text": "go"}));
    }
    for session in &sessions {
        host.until(|it| {
            it["params"]["event"]["type"] == "prompt_finished"
                && it["params"]["sessionId"] == session.as_str()
        });
    }
    assert_eq!(host.ask("health", json!({})).unwrap()["sessions"], 64);
    assert_eq!(host.leave().code, Some(0));
}
