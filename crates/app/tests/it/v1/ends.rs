//! E2, E3, E9: what a session is doing, its ends, and that it can be used afterwards.

use serde_json::{Value, json};
use testkit::model_server::{Answer, At, Call, Gate};
use testkit::net::{At as Place, Fault, Harm, Proxy};

use super::client::{Api, Frame, count};
use super::measure;
use super::stand::Stand;
use crate::program::{Program, alive, signal, until};

/// Folds the log of a session into what `GET` shows of it.
fn folded(frames: &[Frame]) -> Value {
    let (mut queued, mut is_running, mut pending) = (0, false, Vec::new());
    for frame in frames {
        match frame.kind() {
            "prompt_queued" => queued += 1,
            "prompt_started" => {
                // One that began at once was never queued.
                let is_queued = |it: &&Frame| {
                    it.is("prompt_queued") && it.data["promptId"] == frame.data["promptId"]
                };
                queued -= frames.iter().filter(is_queued).count();
                is_running = true;
            }
            "prompt_finished" => is_running = false,
            "permission_request" => pending.push(frame.data["requestId"].clone()),
            "request_resolved" => pending.retain(|id| *id != frame.data["requestId"]),
            _ => {}
        }
    }
    let state = match (is_running, pending.is_empty()) {
        (false, _) => "idle",
        (true, true) => "running",
        (true, false) => "waiting",
    };
    json!({"state": state, "queued": queued, "pendingRequests": pending.len()})
}

/// Holds what `GET` shows against the log up to the nth event of a kind, its last; nothing happens
/// meanwhile.
fn check_state(api: &Api, session: &str, expected: (&str, u64, u64), last: (&str, usize)) {
    let shown = api.session(session);
    let (state, queued, pending) = expected;
    let expected = json!({"state": state, "queued": queued, "pendingRequests": pending});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(shown[key], *value, "{key}: {shown}");
    }
    let mut stream = api.stream(session, Some(0));
    let (kind, nth) = last;
    let log: Vec<Frame> = (0..nth).flat_map(|_| stream.until(|frame| frame.is(kind))).collect();
    assert_eq!(folded(&log), expected);
    assert!(shown["lastEventId"].as_u64() >= log.last().unwrap().id, "{shown}");
}

#[test]
fn e2_the_state_is_the_logs_fold_whoever_watches() {
    let mut stand = Stand::start(&[]);
    let gate = Gate::new();
    let held = gate.clone();
    stand.script(move |prompt, results| match (prompt, results) {
        ("one", 0) => Answer::call("write_file", json!({"path": "b.txt", "content": "b"}))
            .gate(At::Head, &held),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let proxy = Proxy::start(stand.server.port);
    let session = api.create();
    check_state(&api, &session, ("idle", 0, 0), ("session_start", 1));
    // One viewer that is well, one in a black hole, one that broke.
    let _well = api.stream(&session, None);
    for harm in [Harm::BlackHole, Harm::Reset] {
        proxy.plan(Fault { at: Place::frame(0), harm });
        drop(super::client::Stream::open(&stand.api_through(proxy.port()), &session, None));
    }
    api.prompt(&session, "one");
    until("the model was asked", || gate.is_reached());
    check_state(&api, &session, ("running", 0, 0), ("turn_start", 1));
    api.prompt(&session, "two");
    api.prompt(&session, "three");
    check_state(&api, &session, ("running", 2, 0), ("prompt_queued", 2));
    gate.open();
    let request = api.request(&session);
    let waiting = |api: &Api| {
        check_state(api, &session, ("waiting", 2, 1), ("permission_request", 1));
        assert_eq!(api.request(&session), request);
    };
    waiting(&api);
    stand.kill_and_restart();
    waiting(&stand.api());
    stand.restart();
    let api = stand.api();
    waiting(&api);
    assert_eq!(api.allow(&session, &request).status, 200);
    api.wait_for_state(&session, "idle");
    check_state(&api, &session, ("idle", 0, 0), ("prompt_finished", 3));
    assert_eq!(ends(&api, &session, 3), ["completed"; 3]);
}

/// Checks that the log has exactly one end of each of so many prompts; returns the reasons.
fn ends(api: &Api, session: &str, prompts: usize) -> Vec<String> {
    let log = api.log(session);
    let started = log.iter().filter(|frame| frame.is("prompt_started"));
    let started: Vec<_> = started.map(|frame| frame.data["promptId"].clone()).collect();
    let finished = log.iter().filter(|frame| frame.is("prompt_finished"));
    let (finished, reasons): (Vec<_>, Vec<_>) = finished
        .map(|frame| (frame.data["promptId"].clone(), frame.data["result"]["reason"].clone()))
        .unzip();
    assert_eq!((started.len(), &finished), (prompts, &started), "{log:?}");
    let done = log.iter().filter(|frame| frame.is("done"));
    let done: Vec<_> = done.map(|frame| frame.data["reason"].clone()).collect();
    assert_eq!(done, reasons, "{log:?}");
    reasons.iter().map(|reason| reason.as_str().unwrap().to_owned()).collect()
}

#[test]
fn e3_success_interrupt_and_the_models_error_end_a_prompt_once() {
    let stand = Stand::start(&[]);
    let gate = Gate::new();
    let held = gate.clone();
    stand.script(move |prompt, _| match prompt {
        "hang" => Answer::text("never").gate(At::Head, &held),
        "fail" => Answer::error(400, "no such thing"),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    let mut finished = |prompt: &str| {
        live.until(|frame| frame.is("prompt_finished") && frame.data["promptId"] == prompt);
    };
    finished(&api.prompt(&session, "well"));
    let hanging = api.prompt(&session, "hang");
    until("the model was asked", || gate.is_reached());
    let interrupt = || api.post(&format!("/sessions/{session}/interrupt"), &json!({})).json();
    assert_eq!(interrupt()["interrupted"], true);
    finished(&hanging);
    assert_eq!(interrupt()["interrupted"], false);
    finished(&api.prompt(&session, "fail"));
    finished(&api.prompt(&session, "well again"));
    let reasons = ends(&api, &session, 4);
    assert_eq!(reasons, ["completed", "interrupted", "error", "completed"]);
}

#[test]
fn e3_a_prompt_that_takes_too_long_ends_once() {
    let program = Program::new();
    std::fs::create_dir_all(program.home()).unwrap();
    std::fs::write(program.home().join("config.toml"), "[budget]\nturn_ms = 200\n").unwrap();
    let stand = Stand::of(program, &["--permission-timeout", "100"]);
    stand.script(|prompt, _| match prompt {
        "hang" => Answer::silence(),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    for text in ["hang", "well"] {
        api.prompt(&session, text);
        live.until(|frame| frame.is("prompt_finished"));
    }
    assert_eq!(ends(&api, &session, 2), ["time", "completed"]);
}

#[test]
fn e3_a_kill_and_a_delete_end_a_prompt_once() {
    let mut stand = Stand::start(&[]);
    let gate = Gate::new();
    let held = gate.clone();
    stand.script(move |_, _| Answer::text("Done.").gate(At::Head, &held));
    let api = stand.api();
    let sessions = [api.create(), api.create()];
    for session in &sessions {
        api.prompt(session, "go");
    }
    until("the model was asked", || stand.program.server.request_count() == 2);
    stand.kill_and_restart();
    let api = stand.api();
    // Both are running again, by themselves.
    until("the model was asked again", || stand.program.server.request_count() == 4);
    let [killed, deleted] = &sessions;
    let mut live = api.stream(deleted, None);
    let answer = api.ask("DELETE", &format!("/sessions/{deleted}"), None);
    assert_eq!(answer.status, 204, "{answer:?}");
    let rest = live.rest();
    assert_eq!((count(&rest, "done"), count(&rest, "prompt_finished")), (1, 1), "{rest:?}");
    let last = rest.last().unwrap();
    assert_eq!((last.kind(), &last.data["reason"]), ("session_closed", &json!("deleted")));
    assert_eq!(api.get(&format!("/sessions/{deleted}")).status, 404);
    api.resume(deleted);
    assert_eq!(ends(&api, deleted, 1), ["interrupted"]);
    gate.open();
    api.wait_for_state(killed, "idle");
    assert_eq!(ends(&api, killed, 1), ["completed"]);
}

/// A command that does not end by itself, and a word of its processes.
fn endless(tail: u32) -> (String, String) {
    let word = format!("98{}{tail}", std::process::id());
    (format!("sleep {word}"), word)
}

#[test]
fn e9_a_session_can_be_used_at_once_after_its_tools_process_died() {
    let mut stand = Stand::start(&["--mode", "full-auto"]);
    let (command, word) = endless(1);
    stand.script(move |prompt, results| match (prompt, results) {
        ("hang", 0) => Answer::call("run_shell", json!({"command": command})),
        ("list", 0) => Answer::call("run_shell", json!({"command": "cat a.txt"})),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    api.prompt(&session, "hang");
    until("the command is up", || alive(&word) > 0);
    let agents = measure::children(stand.server.id);
    assert_eq!(agents.len(), 1, "one agent serves all");
    signal(agents[0], "KILL");
    let frames = live.until(|frame| frame.is("prompt_finished"));
    let result = frames.iter().find(|frame| frame.is("tool_result")).unwrap();
    assert_eq!(result.data["isError"], true, "{result:?}");
    until("the command has gone", || alive(&word) == 0);
    api.prompt(&session, "list");
    let frames = live.until(|frame| frame.is("prompt_finished"));
    let result = frames.iter().find(|frame| frame.is("tool_result")).unwrap();
    assert!(result.data["output"][0]["text"].as_str().unwrap().contains("the first file"));
    // The same after the server itself died with a command under way.
    api.prompt(&session, "hang");
    until("the command is up", || alive(&word) > 0);
    stand.kill_and_restart();
    let api = stand.api();
    until("the command has gone", || alive(&word) == 0);
    api.prompt(&session, "list");
    api.wait_for_state(&session, "idle");
    assert_eq!(ends(&api, &session, 4), ["completed"; 4]);
}

#[test]
fn e9_no_prompt_is_refused_right_behind_the_end_of_another() {
    let stand = Stand::start(&[]);
    stand.script(|prompt, results| match (prompt.len() % 3, results) {
        (0, 0) => Answer::call("read_file", json!({"path": "a.txt"})),
        (1, _) => Answer::error(400, "no"),
        (_, 0) => Answer::calls([Call::raw("read_file", "{"), Call::new("no_such", json!({}))]),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    let mut live = api.stream(&session, None);
    for round in 1..=45 {
        let answer =
            api.post(&format!("/sessions/{session}/prompt"), &json!({"text": "x".repeat(round)}));
        assert_eq!(answer.status, 202, "{round}: {answer:?}");
        assert_eq!(answer.json()["queued"], false, "{round}: {answer:?}");
        live.until(|frame| frame.is("prompt_finished"));
    }
    assert_eq!(ends(&api, &session, 45).len(), 45);
}
