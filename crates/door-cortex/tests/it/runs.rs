//! Runs: as one answer and as a stream.

use axum::body::Body;
use protocol::event::{Answer, PauseKind, QuestionRequest};
use protocol::{RefusalCode, RequestId, TurnEnd};
use runtime_api::{Interrupt, PromptPart, SessionInfo, SessionState};
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::{House, ID, Reply, json_request, names, numbers, open_session, refused};
use crate::play;

fn house(turns: Vec<Vec<Play>>) -> House {
    let runtime = FakeRuntime::new().session(open_session());
    House::new(turns.into_iter().fold(runtime, FakeRuntime::turn))
}

async fn message(house: &House, body: &Value) -> Reply {
    house.post(&format!("/sessions/{ID}/message"), body).await
}

fn hello() -> Value {
    json!({"message": "hello"})
}

/// A turn that said something and then ended otherwise.
fn cut(reason: TurnEnd, said: &str) -> Vec<Play> {
    let mut all = play::begin(1, "hi");
    if !said.is_empty() {
        all.extend(play::says(said));
    }
    all.extend(play::ends(1, &play::result(reason, "")));
    all
}

#[tokio::test]
async fn a_completed_run_is_one_answer() {
    let house = house(vec![play::plain(1, "All done.")]);
    let reply = message(&house, &hello()).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (
            200,
            json!({
                "sessionId": ID, "runId": "run-prompt1", "response": "All done.",
                "stopReason": "end_turn", "totalTurns": 1,
                "totalUsage": {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 0,
                               "cacheCreationTokens": 0}
            })
        )
    );
}

#[tokio::test]
async fn the_last_answer_is_the_response_and_structured_comes_beside() {
    let mut turn = play::begin(1, "hi");
    turn.extend(play::says("Let me look."));
    turn.extend(play::says(r#"{"a":1}"#));
    let structured = Some(json!({"a": 1}));
    let result = protocol::event::TurnResult {
        structured,
        ..play::result(TurnEnd::Completed, r#"{"a":1}"#)
    };
    turn.extend(play::ends(1, &result));
    let house = house(vec![turn]);
    let reply = message(&house, &hello()).await.json();
    assert_eq!(
        (&reply["response"], &reply["structured"]),
        (&json!(r#"{"a":1}"#), &json!({"a": 1}))
    );
}

#[tokio::test]
async fn the_ceiling_is_a_success_with_what_was_said() {
    let house = house(vec![cut(TurnEnd::MaxTurns, "Working on it.")]);
    let reply = message(&house, &json!({"message": "hello", "maxTurns": 1})).await;
    assert_eq!(reply.status, 200);
    let reply = reply.json();
    assert_eq!(reply["stopReason"], "max_turns");
    assert_eq!(reply["response"], "Working on it.");
    let calls = house.runtime.calls();
    let Some(Call::Prompt(_, prompt)) = calls.iter().find(|it| matches!(it, Call::Prompt(..)))
    else {
        panic!("{calls:?}")
    };
    assert_eq!(prompt.max_turns, Some(1));
    assert_eq!(prompt.parts, [PromptPart::Text("hello".to_owned())]);
    assert_eq!(prompt.options.request_id.as_deref(), Some("req-abc"));
}

#[tokio::test]
async fn a_failure_is_502_without_the_providers_words() {
    for reason in [TurnEnd::Error, TurnEnd::Budget, TurnEnd::Interrupted, TurnEnd::Denied] {
        for said in ["", "Half way."] {
            let house = house(vec![cut(reason, said)]);
            let reply = message(&house, &hello()).await;
            assert_eq!(reply.code(), refused(502, "RUN_ERROR"), "{reason:?}");
            let mut expected = json!({
                "error": {"code": "RUN_ERROR", "requestId": "req-abc"},
                "sessionId": ID, "runId": "run-prompt1"
            });
            if !said.is_empty() {
                expected["partialResponse"] = json!(said);
            }
            assert_eq!(reply.json(), expected);
        }
    }
}

#[tokio::test]
async fn a_run_that_cannot_be_seen_to_its_end_is_a_failure() {
    let mut turn = play::begin(1, "hi");
    turn.push(Play::EndStreams);
    let house = house(vec![turn]);
    assert_eq!(message(&house, &hello()).await.code(), refused(502, "RUN_ERROR"));
}

#[tokio::test]
async fn a_session_takes_one_run_at_a_time() {
    let house = house(vec![play::stalled(1), play::plain(1, "first")]);
    let mut stream = house.run("hello").await;
    stream.until("text_delta").await;
    assert_eq!(message(&house, &hello()).await.code(), refused(409, "SESSION_BUSY"));
    let reply = house.post(&format!("/sessions/{ID}/run"), &hello()).await;
    assert_eq!(reply.code(), refused(409, "SESSION_BUSY"));
    drop(stream);
    house.breathe().await;
    // The core's own word for a session that works counts as well.
    for info in [
        SessionInfo { state: SessionState::Running, ..open_session() },
        SessionInfo { queued: 1, ..open_session() },
    ] {
        let house = House::new(FakeRuntime::new().session(info));
        assert_eq!(message(&house, &hello()).await.code(), refused(409, "SESSION_BUSY"));
        assert!(!house.runtime.calls().iter().any(|call| matches!(call, Call::Prompt(..))));
    }
}

#[tokio::test]
async fn a_wrong_model_is_told_before_anything_runs() {
    for (core, status) in [(RefusalCode::InvalidModel, 400), (RefusalCode::ModelNotAllowed, 403)] {
        let runtime = FakeRuntime::new().session(open_session());
        let house = House::new(runtime.refuse("check_settings", core, "no"));
        let reply = message(&house, &json!({"message": "x", "model": "y"})).await;
        assert_eq!(reply.code().0, status);
        assert!(house.runtime.calls().is_empty());
    }
}

#[tokio::test]
async fn nobody_is_waited_for_whom_this_door_cannot_ask() {
    let go_on = Answer::Chosen { answers: vec!["go_on".to_owned()], other: None };
    for (about, expected) in [
        (Some(PauseKind::Repetition), go_on),
        (Some(PauseKind::Budget), Answer::Dismissed),
        (None, Answer::Dismissed),
    ] {
        let question = QuestionRequest {
            request_id: RequestId::new("q"),
            tool_call_id: None,
            about,
            question: "the model repeats itself".to_owned(),
            options: Vec::new(),
            multi_select: false,
            allow_other: false,
            expires_at: None,
        };
        let mut turn = play::begin(1, "hi");
        turn.extend([question.into(), Play::UntilAnswer(RequestId::new("q"))]);
        turn.extend(play::says("done"));
        turn.extend(play::ends(1, &play::result(TurnEnd::Completed, "done")));
        let house = house(vec![turn]);
        assert_eq!(message(&house, &hello()).await.json()["response"], "done");
        let answered = |call: &Call| matches!(call, Call::Answer(_, it) if *it == expected);
        assert!(house.runtime.calls().iter().any(answered), "{about:?}");
    }
}

#[tokio::test]
async fn a_stream_shows_the_run_and_ends_with_it() {
    let house = house(vec![play::plain(1, "Hello, world."), play::plain(2, "again")]);
    let frames = house.run("hello").await.rest().await;
    assert_eq!(
        names(&frames),
        ["run_start", "turn_start", "text_delta", "text_delta", "text", "run_complete"]
    );
    assert_eq!(numbers(&frames), [1, 2, 3, 4]);
    assert!(frames.iter().all(|frame| frame.data["runId"] == "run-prompt1"));
    assert!(frames.iter().all(|frame| frame.data["sessionId"] == ID));
    assert_eq!(frames[5].data["totalTurns"], 1);
    let frames = house.run("hello").await.rest().await;
    assert_eq!(numbers(&frames), [5, 6, 7, 8], "numbers go on over runs");
}

#[tokio::test]
async fn a_failed_stream_is_generic_and_complete() {
    let house = house(vec![cut(TurnEnd::Error, "Half way.")]);
    let frames = house.run("hello").await.rest().await;
    assert_eq!(names(&frames), ["run_start", "turn_start", "text", "error", "run_complete"]);
    assert_eq!(frames[3].data["requestId"], "req-abc");
    assert_eq!(frames[3].data["partialResponse"], "Half way.");
    assert!(!format!("{frames:?}").contains("LEAKED"));
}

#[tokio::test]
async fn whoever_leaves_stops_exactly_that_run() {
    let is_stopped = |house: &House| {
        house.runtime.calls().iter().any(|call| {
            matches!(call, Call::Interrupt(_, Interrupt::Prompt(id)) if id.as_str() == "prompt1")
        })
    };
    let left = house(vec![play::stalled(1), play::plain(2, "I am back.")]);
    let mut stream = left.run("hello").await;
    stream.until("text_delta").await;
    assert!(!is_stopped(&left));
    drop(stream);
    left.breathe().await;
    assert!(is_stopped(&left));
    let reply = message(&left, &hello()).await.json();
    assert_eq!(reply["response"], "I am back.", "the session goes on");
    // A client that waits for one answer leaves as well.
    let left = house(vec![play::stalled(1)]);
    let path = format!("/sessions/{ID}/message");
    {
        let request = json_request(&path, Body::from(hello().to_string()));
        let mut waiting = std::pin::pin!(left.raw(request));
        for _ in 0..20 {
            assert!(looked_at(&mut waiting).await.is_none());
        }
    }
    left.breathe().await;
    assert!(is_stopped(&left));
    // One that has seen the end stops nothing.
    let seen = house(vec![play::plain(1, "x")]);
    seen.run("hello").await.rest().await;
    seen.breathe().await;
    assert!(!is_stopped(&seen));
}

/// Looks at a future once, and lets others go on.
async fn looked_at<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let found = tokio::select! {
        biased;
        found = future => Some(found),
        () = std::future::ready(()) => None,
    };
    tokio::task::yield_now().await;
    found
}

#[tokio::test]
async fn frames_of_an_abort_have_no_error() {
    let house = house(vec![play::stalled(1)]);
    let mut viewer = house.events("", None).await;
    let mut stream = house.run("hello").await;
    stream.until("text_delta").await;
    drop(stream);
    let seen = viewer.until("run_complete").await;
    assert_eq!(names(&seen), ["run_start", "turn_start", "text_delta", "run_complete"]);
    assert_eq!(seen[3].data["stopReason"], "aborted");
}
