//! Stops and kills: nothing that was promised is lost, nothing runs twice.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::model_server::{Answer, At as Moment, Gate};
use testkit::net::{At, Fault, Harm, Proxy};

use super::client::{Line, count};
use super::stand::Stand;
use crate::program::until;

#[test]
fn a_stop_with_fifty_runs_and_twenty_viewers_ends_all_in_seconds() {
    let mut stand = Stand::start(&[]);
    let gate = Gate::new();
    let held = gate.clone();
    stand.script(move |_, _| Answer::text("Never said.").gate(Moment::Head, &held));
    let api = stand.api();
    let sessions: Vec<String> = (0..50).map(|_| api.create()).collect();
    let viewers: Vec<_> = sessions.iter().take(20).map(|id| api.stream(id, Some(0))).collect();
    let viewers: Vec<_> =
        viewers.into_iter().map(|mut stream| std::thread::spawn(move || stream.rest())).collect();
    for session in &sessions {
        api.prompt(session, "go");
    }
    until("all are asked", || stand.program.server.request_count() == 50);
    let begun = Instant::now();
    let ended = stand.server.stop("TERM");
    let took = begun.elapsed();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(took < Duration::from_secs(8), "it took {took:?}");
    for viewer in viewers {
        let frames = viewer.join().unwrap();
        let last = frames.last().unwrap();
        assert_eq!((last.kind(), &last.data["reason"]), ("session_closed", &json!("shutdown")));
        for kind in ["done", "prompt_finished"] {
            assert_eq!(count(&frames, kind), 1, "{kind}: {frames:?}");
        }
    }
}

#[test]
fn a_prompt_that_was_taken_runs_once_however_soon_the_kill_comes() {
    const ROUNDS: usize = 12;
    let mut stand = Stand::start(&[]);
    stand.script(|_, _| Answer::text("Done."));
    let session = stand.api().create();
    for round in 1..=ROUNDS {
        let api = stand.api();
        if round > 1 {
            api.resume(&session);
        }
        let text = format!("prompt {round}.");
        let prompt = api.prompt(&session, &text);
        stand.kill_and_restart();
        let api = stand.api();
        if api.get(&format!("/sessions/{session}")).status == 404 {
            // It was over before the kill.
            api.resume(&session);
        }
        api.wait_for_state(&session, "idle");
        let log = api.log(&session);
        let finished =
            |it: &&super::client::Frame| it.is("prompt_finished") && it.data["promptId"] == *prompt;
        assert_eq!(log.iter().filter(finished).count(), 1, "{round}: {log:?}");
        for kind in ["prompt_started", "done", "prompt_finished"] {
            assert_eq!(count(&log, kind), round, "{kind}");
        }
        let said =
            api.messages(&session).iter().filter(|it| it.to_string().contains(&text)).count();
        assert_eq!(said, 1, "{round}");
    }
    stand.program.server.assert_clean();
}

#[test]
fn a_request_whose_answer_was_lost_starts_nothing_twice_with_its_key() {
    let stand = Stand::start(&[]);
    stand.script(|_, _| Answer::text("Done."));
    let api = stand.api();
    let proxy = Proxy::start(stand.server.port);
    let through = stand.api_through(proxy.port());
    let lost = |path: &str, key: &str, body: &serde_json::Value| {
        let before = proxy.struck();
        // Behind the first byte as well as before it.
        for at in [At::Bytes(0), At::Bytes(1), At::Bytes(60)] {
            proxy.plan(Fault { at, harm: Harm::Reset });
            let mut line = Line::open(&through).unwrap();
            line.send(("POST", path), &[("idempotency-key", key)], Some(body)).unwrap();
            until("it was answered", || proxy.struck() > before);
            assert!(line.answer().is_err());
        }
        let mut line = Line::open(&through).unwrap();
        line.send(("POST", path), &[("idempotency-key", key)], Some(body)).unwrap();
        let answer = line.answer().unwrap();
        assert_eq!(answer.headers["idempotency-replayed"], "true", "{answer:?}");
        answer
    };
    let created = lost("/sessions", "key-1", &json!({"title": "one"}));
    assert_eq!(created.status, 201, "{created:?}");
    let listed = api.get("/sessions").json()["sessions"].as_array().unwrap().len();
    assert_eq!(listed, 1);
    let session = created.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/sessions/{session}/prompt");
    let taken = lost(&path, "key-1", &json!({"text": "go"}));
    assert_eq!(taken.status, 202, "{taken:?}");
    api.wait_for_state(&session, "idle");
    assert_eq!(stand.program.server.request_count(), 1);
    let log = api.log(&session);
    assert_eq!((count(&log, "prompt_started"), count(&log, "done")), (1, 1));
    let started = log.iter().find(|frame| frame.is("prompt_started")).unwrap();
    assert_eq!(started.data["promptId"], taken.json()["promptId"]);
    // The same key with another body is another thing, and refused.
    let mut line = Line::open(&api).unwrap();
    let body = json!({"text": "something else"});
    line.send(("POST", &path), &[("idempotency-key", "key-1")], Some(&body)).unwrap();
    assert_eq!(line.answer().unwrap().status, 409);
}
