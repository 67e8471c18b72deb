//! A1, A2, A3, A5, A6, E8: requests over HTTP, whoever is there.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::model_server::Answer;

use super::client::{Api, Frame, Line, count};
use super::stand::Stand;
use crate::program::until;

/// A model that writes a file once and then says that it is done.
fn writes(_: &str, results: usize) -> Answer {
    match results {
        0 => Answer::call("write_file", json!({"path": "made.txt", "content": "made\n"})),
        _ => Answer::text("Done."),
    }
}

fn of_kind<'a>(frames: &'a [Frame], kind: &str) -> &'a Frame {
    frames.iter().find(|frame| frame.is(kind)).unwrap_or_else(|| panic!("{kind}: {frames:?}"))
}

#[test]
fn a1_a_request_that_nobody_sees_expires_and_the_run_goes_on() {
    let stand = Stand::start(&["--permission-timeout", "150"]);
    stand.script(writes);
    let api = stand.api();
    let session = api.create();
    api.prompt(&session, "go");
    api.wait_for_state(&session, "idle");
    let log = api.log(&session);
    let resolved = of_kind(&log, "request_resolved");
    assert_eq!(
        (&resolved.data["outcome"], &resolved.data["by"]),
        (&json!("deny"), &json!("timeout"))
    );
    assert_eq!(of_kind(&log, "tool_denied").data["by"], "timeout");
    assert_eq!(of_kind(&log, "done").data["reason"], "completed");
    assert_eq!(stand.program.read("made.txt"), "");
    let request = resolved.data["requestId"].as_str().unwrap();
    let late = api.allow(&session, request);
    assert_eq!((late.status, late.code().as_str()), (409, "request_resolved"));
    assert_eq!(stand.program.read("made.txt"), "");
}

#[test]
fn a2_a_request_comes_again_after_a_reconnect_and_a_restart_and_is_decided_once() {
    let mut stand = Stand::start(&[]);
    stand.script(writes);
    let api = stand.api();
    let session = api.create();
    let from = api.session(&session)["lastEventId"].as_u64().unwrap();
    let mut live = api.stream(&session, Some(from));
    api.prompt(&session, "go");
    let frames = live.until(|frame| frame.is("permission_request"));
    drop(live);
    let asked = frames.last().unwrap().clone();
    let request = asked.data["requestId"].as_str().unwrap().to_owned();
    let again = |api: &Api| {
        let frames = api.stream(&session, Some(from)).until(|frame| frame.is("permission_request"));
        assert_eq!(frames.last(), Some(&asked), "the same event");
        assert_eq!(api.pending(&session)[0]["requestId"], *request);
        assert_eq!(api.pending(&session).len(), 1);
    };
    again(&api);
    stand.kill_and_restart();
    again(&stand.api());
    stand.restart();
    let api = stand.api();
    again(&api);
    // Many decide at once: one is heard, all others are told so.
    let deciders: Vec<_> = (0..8)
        .map(|_| {
            let (api, session, request) = (api.clone(), session.clone(), request.clone());
            std::thread::spawn(move || api.allow(&session, &request))
        })
        .collect();
    let answers: Vec<_> = deciders.into_iter().map(|it| it.join().unwrap()).collect();
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = |answer: &&super::client::Answer| {
        answer.status == 409 && answer.code() == "request_resolved"
    };
    assert_eq!((taken, answers.iter().filter(refused).count()), (1, 7), "{answers:?}");
    api.wait_for_state(&session, "idle");
    assert_eq!(stand.program.read("made.txt"), "made\n");
    let log = api.log(&session);
    assert_eq!((count(&log, "permission_request"), count(&log, "request_resolved")), (1, 1));
    // A client that comes back after the decision sees both, and that nothing waits.
    let mut late = api.stream(&session, asked.id);
    late.until(|frame| frame.is("request_resolved"));
    assert_eq!(api.pending(&session), Vec::<Value>::new());
}

#[test]
fn a3_an_interrupt_and_a_delete_clear_what_waits() {
    let stand = Stand::start(&[]);
    stand.script(writes);
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    api.prompt(&session, "go");
    let request = api.request(&session);
    let stopped = api.post(&format!("/sessions/{session}/interrupt"), &json!({}));
    assert_eq!(stopped.json()["interrupted"], true);
    let frames = live.until(|frame| frame.is("prompt_finished"));
    assert_eq!(of_kind(&frames, "request_resolved").data["by"], "interrupt");
    assert_eq!(of_kind(&frames, "done").data["reason"], "interrupted");
    assert_eq!(api.pending(&session), Vec::<Value>::new());
    let late = api.allow(&session, &request);
    assert_eq!((late.status, late.code().as_str()), (409, "request_resolved"));
    api.prompt(&session, "again");
    let request = api.request(&session);
    assert_eq!(api.ask("DELETE", &format!("/sessions/{session}"), None).status, 204);
    let rest = live.rest();
    assert_eq!(of_kind(&rest, "request_resolved").data["by"], "interrupt");
    assert_eq!(rest.last().unwrap().kind(), "session_closed");
    assert_eq!(api.allow(&session, &request).status, 404);
    api.resume(&session);
    assert_eq!(api.pending(&session), Vec::<Value>::new());
    assert_eq!(api.allow(&session, &request).status, 409);
    assert_eq!(stand.program.read("made.txt"), "");
}

#[test]
fn a5_waiting_for_a_person_takes_nothing_from_a_commands_time() {
    const TIMEOUT_MS: u64 = 600;
    let stand = Stand::start(&[]);
    stand.script(|_, results| match results {
        0 => {
            let input =
                json!({"command": "sleep 0.1; echo ran > ran.txt", "timeout_ms": TIMEOUT_MS});
            Answer::call("run_shell", input)
        }
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    api.prompt(&session, "go");
    let request = api.request(&session);
    let since = Instant::now();
    until("more than the command's time", || {
        since.elapsed() > Duration::from_millis(TIMEOUT_MS + 200)
    });
    assert_eq!(api.request(&session), request, "the command's time does not end the waiting");
    assert_eq!(api.allow(&session, &request).status, 200);
    api.wait_for_state(&session, "idle");
    let log = api.log(&session);
    let result = of_kind(&log, "tool_result");
    assert_ne!(result.data["isError"], true, "{result:?}");
    assert!(result.data["durationMs"].as_u64().unwrap() < TIMEOUT_MS, "{result:?}");
    assert_eq!(stand.program.read("ran.txt"), "ran\n");
}

#[test]
fn a6_what_nobody_decides_is_never_allowed_over_http() {
    let stand = Stand::start(&["--permission-timeout", "100"]);
    stand.script(|prompt, results| match (prompt, results) {
        (_, 1) => Answer::text("Done."),
        ("write", _) => writes("", 0),
        ("shell", _) => Answer::call("run_shell", json!({"command": "echo ran > made.txt"})),
        ("ask", _) => {
            let options = json!([{"label": "yes"}, {"label": "no"}]);
            Answer::call("ask_question", json!({"question": "Which?", "options": options}))
        }
        _ => Answer::call("exit_plan", json!({"plan": "Do it."})),
    });
    let api = stand.api();
    for (prompt, mode, outcome) in [
        ("write", "ask", "deny"),
        ("shell", "auto-edit", "deny"),
        ("ask", "full-auto", "dismissed"),
        ("plan", "plan", "rejected"),
    ] {
        let session = api.create_with(&json!({"mode": mode}));
        api.prompt(&session, prompt);
        api.wait_for_state(&session, "idle");
        let log = api.log(&session);
        let resolved = of_kind(&log, "request_resolved");
        assert_eq!(resolved.data["outcome"], outcome, "{prompt}");
        assert_eq!(resolved.data["by"], "timeout", "{prompt}");
        let done = of_kind(&log, "done");
        assert!(done.data["unanswered"].as_u64().is_some_and(|count| count > 0), "{done:?}");
    }
    assert_eq!(stand.program.read("made.txt"), "");
}

#[test]
fn e8_what_waits_is_decided_by_another_connection_when_the_client_has_left() {
    let stand = Stand::start(&[]);
    stand.script(|_, results| match results {
        0 => writes("", 0),
        1 => Answer::call("run_shell", json!({"command": "cat made.txt > copy.txt"})),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    // The client says its prompt, then says nothing more, then leaves.
    let live = api.stream(&session, None);
    let mut line = Line::open(&api).unwrap();
    let path = format!("/sessions/{session}/prompt");
    line.send(("POST", &path), &[], Some(&json!({"text": "go"}))).unwrap();
    assert_eq!(line.answer().unwrap().status, 202);
    line.half_close();
    let first = api.request(&session);
    drop(live);
    drop(line);
    assert_eq!(api.allow(&session, &first).status, 200);
    until("the next request", || api.pending(&session).iter().any(|it| it["requestId"] != *first));
    let second = api.request(&session);
    // Whoever decides need not wait for the answer either.
    let mut line = Line::open(&api).unwrap();
    let path = format!("/sessions/{session}/permissions/{second}");
    line.send(("POST", &path), &[], Some(&json!({"answer": "allow_once"}))).unwrap();
    assert_eq!(line.answer().unwrap().status, 200);
    drop(line);
    api.wait_for_state(&session, "idle");
    assert_eq!(stand.program.read("copy.txt"), "made\n");
    assert_eq!(count(&api.log(&session), "done"), 1);
}
