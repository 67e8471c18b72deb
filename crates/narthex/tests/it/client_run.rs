//! A prompt at a server, with callbacks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use narthex::protocol::{Effect, TurnEnd};
use narthex::{Callbacks, Decision, Reply as Chosen, RunResult};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::scripted_http::{Piece, Reply, Request, Server, frame, session};
use crate::stand::soon;

fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = json!(kind);
    fields["sessionId"] = json!("s1");
    fields["ts"] = json!("2026-12-01T08:00:00.000Z");
    fields
}

fn started(prompt: &str) -> Value {
    event("prompt_started", json!({"promptId": prompt, "messageId": "m", "content": []}))
}

fn permission(id: &str, effect: &str) -> Value {
    let target = json!({"summary": "a.txt", "effect": effect});
    event(
        "permission_request",
        json!({"requestId": id, "toolCallId": "t", "toolName": "write_file", "effect": effect,
               "target": target, "input": {}, "suggestedRules": [], "risk": "low",
               "expiresAt": null}),
    )
}

fn question(id: &str) -> Value {
    let options = json!([{"id": "pg", "label": "Postgres"}, {"id": "sq", "label": "SQLite"}]);
    event(
        "question_request",
        json!({"requestId": id, "question": "Which?", "options": options, "multiSelect": false,
               "allowOther": true, "expiresAt": null}),
    )
}

fn plan(id: &str) -> Value {
    event(
        "plan_request",
        json!({"requestId": id, "toolCallId": "t", "plan": "1. Do", "expiresAt": null}),
    )
}

fn finished(prompt: &str) -> Value {
    let usage = json!({"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 0,
                       "cacheWriteTokens": 0});
    let result = json!({"reason": "completed", "usage": usage, "turns": 1, "durationMs": 1_500,
                        "text": "Done."});
    event("prompt_finished", json!({"promptId": prompt, "result": result}))
}

/// A server with one session at event 10. The events after it are asked for again and again, since
/// its connections end soon: what may be sent can depend on what has happened.
async fn server(
    stream: impl Fn() -> Vec<Value> + Send + Sync + 'static,
    answers: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(move |request| match request.line().as_str() {
        "GET /sessions/s1" => Reply::json(200, &session(10, "running")),
        "POST /sessions/s1/prompt" => Reply::json(202, &json!({"promptId": "p2"})),
        "GET /sessions/s1/events" => {
            let after = request.last_event_id().unwrap();
            let events = stream();
            let frames = (11..).zip(&events).filter(|(id, _)| *id > after);
            let mut pieces: Vec<Piece> =
                frames.map(|(id, event)| Piece::Send(frame(id, event))).collect();
            pieces.push(Piece::Wait(Duration::from_millis(20)));
            Reply::events(pieces)
        }
        _ => answers(request),
    })
    .await
}

fn taken(_: &Request) -> Reply {
    Reply::json(200, &json!({"ok": true}))
}

fn answers(server: &Server) -> Vec<(String, Value)> {
    let requests = server.requests().into_iter();
    let answers = requests.filter(|request| request.path.contains("/permissions/"));
    answers
        .map(|request| {
            let id = request.path.rsplit('/').next().unwrap().to_owned();
            (id, request.body)
        })
        .collect()
}

async fn run(server: &Server, callbacks: Callbacks) -> RunResult {
    let session = server.client().session("s1");
    soon("the end", session.run("Do it", callbacks)).await.unwrap()
}

/// A callback needs a moment before its answer is on its way: the end waits for the answers.
fn asks() -> Vec<Value> {
    vec![
        started("p1"),
        permission("foreign", "write"),
        finished("p1"),
        started("p2"),
        permission("r1", "write"),
        question("r2"),
        plan("r3"),
        event("permission_request", json!({"requestId": "r4", "effect": "telepathy"})),
    ]
}

/// The same server, whose prompt ends once so many answers have come.
async fn ends_after(count: usize, stream: Vec<Value>) -> Server {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    let events = move || {
        let mut events = stream.clone();
        if came.load(Ordering::SeqCst) >= count {
            events.push(finished("p2"));
        }
        events
    };
    let answers = move |request: &Request| {
        counted.fetch_add(1, Ordering::SeqCst);
        taken(request)
    };
    server(events, answers).await
}

#[tokio::test]
async fn a_prompt_is_watched_before_it_is_sent_and_its_requests_are_answered() {
    let server = ends_after(4, asks()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let callbacks = Callbacks::new()
        .on_permission(|request| async move {
            match request.effect {
                Effect::Write => Decision::AllowOnce,
                _ => Decision::deny("no"),
            }
        })
        .on_question(|question| async move { Chosen::choose(&question.options[0].label) });
    let session = server.client().session("s1");
    let shown = Arc::clone(&seen);
    let result = session.run_with("Do it", callbacks, move |event| {
        shown.lock().unwrap().push(event.id.unwrap());
    });
    let result = soon("the end", result).await.unwrap();
    assert_eq!((result.reason, result.text.as_str()), (TurnEnd::Completed, "Done."));
    assert_eq!((result.usage.output_tokens, result.cost_usd), (2, None));
    assert_eq!((result.duration, result.session_id.as_str()), (Duration::from_millis(1_500), "s1"));
    let mut answers = answers(&server);
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    let no = |id: &str, answer: Value| (id.to_owned(), answer);
    assert_eq!(
        answers[..2],
        [
            no("r1", json!({"answer": "allow_once"})),
            no("r2", json!({"answer": {"answers": ["Postgres"]}})),
        ]
    );
    assert_eq!(answers[2].1["answer"]["approved"], false);
    assert_eq!((answers[3].0.as_str(), &answers[3].1["answer"]), ("r4", &json!("deny")));
    assert_eq!(answers.len(), 4, "the request of another prompt is left alone: {answers:?}");
    assert_eq!(
        server.lines()[..3],
        ["GET /sessions/s1", "GET /sessions/s1/events", "POST /sessions/s1/prompt",]
    );
    assert_eq!(
        *seen.lock().unwrap(),
        (14..=19).collect::<Vec<u64>>(),
        "those of the prompt, each once, in order"
    );
}

#[tokio::test]
async fn without_callbacks_everything_is_decided_against() {
    let server = ends_after(4, asks()).await;
    run(&server, Callbacks::new()).await;
    let mut answers = answers(&server);
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(answers[0].1["answer"], "deny");
    assert_eq!(answers[1].1, json!({"answer": {"dismissed": true}}));
    assert_eq!(answers[2].1["answer"]["approved"], false);
}

#[tokio::test]
async fn a_request_that_is_decided_elsewhere_drops_its_callback() {
    struct Told(Arc<Notify>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let resolved = event(
        "request_resolved",
        json!({"requestId": "r1", "kind": "permission", "outcome": "deny", "by": "timeout"}),
    );
    let asked = Arc::new(AtomicBool::new(false));
    let is_asked = Arc::clone(&asked);
    let stream = move || {
        let mut events = vec![started("p2"), permission("r1", "write")];
        if is_asked.load(Ordering::SeqCst) {
            events.extend([resolved.clone(), finished("p2")]);
        }
        events
    };
    let server = server(stream, taken).await;
    let dropped = Arc::new(Notify::new());
    let is_dropped = Arc::clone(&dropped);
    let callbacks = Callbacks::new().on_permission(move |_| {
        let told = Told(Arc::clone(&is_dropped));
        asked.store(true, Ordering::SeqCst);
        async move {
            std::future::pending::<()>().await;
            drop(told);
            Decision::AllowOnce
        }
    });
    run(&server, callbacks).await;
    soon("the callback's end", dropped.notified()).await;
    assert_eq!(answers(&server), []);
}

#[tokio::test]
async fn an_answer_is_sent_again_and_one_that_is_refused_becomes_a_no() {
    let count = AtomicUsize::new(0);
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    let events = move || {
        let mut events = vec![started("p2"), permission("r1", "write")];
        if came.load(Ordering::SeqCst) > 0 {
            events.push(finished("p2"));
        }
        events
    };
    let answering = move |_: &Request| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::nothing(),
        1 => Reply::error(400, "validation_error"),
        _ => {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::error(409, "request_resolved")
        }
    };
    let server = server(events, answering).await;
    let callbacks = Callbacks::new().on_permission(|_| async { Decision::allow_for_session() });
    run(&server, callbacks).await;
    let given: Vec<Value> =
        answers(&server).iter().map(|(_, body)| body["answer"].clone()).collect();
    assert_eq!(given, ["allow_always", "allow_always", "deny"]);
}

#[tokio::test]
async fn an_end_that_was_left_out_is_told() {
    let server = Server::start(|request| match request.line().as_str() {
        "GET /sessions/s1" => Reply::json(200, &session(30, "idle")),
        "GET /sessions/s1/events" => {
            let gap = json!({"type": "replay_gap", "from": 11, "to": 29, "dropped": 19});
            let notice = event("notice", json!({"level": "info", "message": "x"}));
            let stream = format!("event: replay_gap\ndata: {gap}\n\n{}", frame(31, &notice));
            Reply::events(vec![Piece::Send(stream), Piece::Hold])
        }
        _ => Reply::json(202, &json!({"promptId": "p2"})),
    });
    let server = server.await;
    let session = server.client().session("s1");
    let error = soon("the error", session.run("Do it", Callbacks::new())).await.unwrap_err();
    assert!(error.to_string().contains("the prompt ended among events"), "{error}");
}

#[tokio::test]
async fn a_session_that_is_closed_meanwhile_is_an_error() {
    let gone = event("session_closed", json!({"reason": "deleted"}));
    let server = server(move || vec![started("p2"), gone.clone()], taken).await;
    let session = server.client().session("s1");
    let error = soon("the error", session.run("Do it", Callbacks::new())).await.unwrap_err();
    assert!(error.to_string().contains("closed before the prompt ended"), "{error}");
}

fn interrupts(server: &Server) -> Vec<Value> {
    let requests = server.requests().into_iter();
    requests
        .filter(|request| request.path.ends_with("/interrupt"))
        .map(|request| request.body)
        .collect()
}

#[tokio::test]
async fn a_run_that_is_dropped_stops_its_own_prompt_also_one_that_waits() {
    for events in [vec![started("p2")], vec![started("p1")]] {
        let told = Arc::new(Notify::new());
        let is_told = Arc::clone(&told);
        let server = server(
            move || events.clone(),
            move |_| {
                is_told.notify_one();
                Reply::json(200, &json!({"interrupted": true}))
            },
        );
        let server = server.await;
        let session = server.client().session("s1");
        let running = session.run("Do it", Callbacks::new());
        assert!(tokio::time::timeout(Duration::from_millis(200), running).await.is_err());
        soon("the interrupt", told.notified()).await;
        assert_eq!(interrupts(&server), [json!({"promptId": "p2"})]);
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_while_its_prompt_is_sent_asks_for_its_id_under_the_same_key() {
    let count = Arc::new(AtomicUsize::new(0));
    let (arrived, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_arrived, is_told) = (Arc::clone(&arrived), Arc::clone(&told));
    let server = Server::start(move |request| match request.line().as_str() {
        "GET /sessions/s1" => Reply::json(200, &session(10, "idle")),
        "GET /sessions/s1/events" => Reply::events(vec![Piece::Hold]),
        "POST /sessions/s1/prompt" => {
            let mut reply = Reply::json(202, &json!({"promptId": "p2"}));
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                has_arrived.notify_one();
                reply.pieces = vec![Piece::Hold];
            }
            reply
        }
        _ => {
            is_told.notify_one();
            Reply::json(200, &json!({"interrupted": true}))
        }
    });
    let server = server.await;
    let session = server.client().session("s1");
    tokio::select! {
        ended = session.run("Do it", Callbacks::new()) => panic!("{ended:?}"),
        () = soon("the prompt", arrived.notified()) => {}
    }
    soon("the interrupt", told.notified()).await;
    assert_eq!(interrupts(&server), [json!({"promptId": "p2"})]);
    let keys: Vec<Option<String>> = server
        .requests()
        .iter()
        .filter(|request| request.path.ends_with("/prompt"))
        .map(|request| request.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[tokio::test]
async fn a_run_whose_own_done_was_seen_stops_nothing() {
    let done = event(
        "done",
        json!({"reason": "completed", "turns": 1, "durationMs": 1, "text": "",
               "usage": {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 0,
                         "cacheWriteTokens": 0}}),
    );
    let server = server(move || vec![started("p2"), done.clone()], taken).await;
    let session = server.client().session("s1");
    let (mut count, seen) = (0, Arc::new(Notify::new()));
    let is_seen = Arc::clone(&seen);
    let running = session.run_with("Do it", Callbacks::new(), move |event| {
        count += 1;
        assert!(event.body.known().is_some());
        if count == 2 {
            is_seen.notify_one();
        }
    });
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        () = soon("done", seen.notified()) => {}
    }
    session.info().await.unwrap();
    assert_eq!(interrupts(&server), Vec::<Value>::new());
}
