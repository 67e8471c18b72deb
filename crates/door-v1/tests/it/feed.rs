//! The stream over all sessions.

use protocol::event::{DecidedBy, InteractionKind, Outcome};
use protocol::event::{RequestResolved, SessionClosed, SessionEnd};
use protocol::{EventBody, RequestId};
use runtime_api::SessionInfo;
use serde_json::json;
use testkit::fake_handle::{FakeRuntime, Play};

use crate::answers::{pending, permission};
use crate::house::{Frame, House, ID, at, fits, names, open_session, stored_session};
use crate::stream::{notice, text, usage};

fn resolved(id: &str) -> RequestResolved {
    RequestResolved {
        request_id: RequestId::new(id),
        kind: InteractionKind::Permission,
        outcome: Outcome::Deny,
        by: DecidedBy::Client,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    }
}

fn turn() -> Vec<Play> {
    vec![
        notice("one"),
        text("a"),
        usage(),
        EventBody::from(permission("req-2")).into(),
        resolved("req-1").into(),
        SessionClosed { reason: SessionEnd::Deleted }.into(),
    ]
}

fn house() -> House {
    let info = SessionInfo { last_seq: 0, ..open_session() };
    let runtime = FakeRuntime::new()
        .session(info)
        .session(stored_session("stored", "/nowhere"))
        .pending(vec![pending(permission("req-1"))])
        .turn(turn());
    House::new(runtime)
}

fn check(frames: &[Frame]) {
    for frame in frames {
        assert_eq!(frame.id, None, "{frame:?}");
        fits(&json!({"$ref": "#/components/schemas/FeedEvent"}), &frame.data).unwrap();
    }
}

#[tokio::test]
async fn it_begins_with_a_snapshot_and_goes_on_with_changes() {
    let house = house();
    let mut stream = house.stream("/v1/events", None).await;
    let snapshot = stream.until("snapshot_end").await;
    check(&snapshot);
    let expected = ["snapshot_start", "session_state", "permission_request", "snapshot_end"];
    assert_eq!(names(&snapshot), expected);
    assert_eq!(
        snapshot[1].data,
        json!({
            "type": "session_state", "sessionId": ID, "state": "idle", "queued": 0,
            "pendingRequests": 0, "mode": "ask", "model": "anthropic/claude-sonnet-4-6",
            "title": "a title", "cwd": "/nowhere", "updatedAt": "2026-11-30T00:54:20.000Z"
        })
    );
    assert_eq!(snapshot[2].data["requestId"], "req-1");
    house.post(&at("/mode"), &json!({"mode": "plan"})).await;
    house.post(&at("/mode"), &json!({"mode": "plan"})).await;
    house.post(&at("/prompt"), &json!({"text": "hi"})).await;
    let mut changes = stream.until("request_resolved").await;
    changes.push(stream.next().await.unwrap());
    check(&changes);
    let expected =
        ["session_state", "usage", "permission_request", "request_resolved", "session_state"];
    assert_eq!(names(&changes), expected);
    assert_eq!(changes[0].data["mode"], "plan");
    assert_eq!(
        (&changes[1].data["costUsd"], &changes[1].data["sessionId"]),
        (&json!(0.25), &json!(ID))
    );
    assert_eq!(
        (&changes[4].data["state"], &changes[4].data["reason"]),
        (&json!("closed"), &json!("deleted"))
    );
}

#[tokio::test]
async fn sessions_that_are_opened_appear() {
    let house = House::with(|root| FakeRuntime::new().session(stored_session(ID, root)));
    let mut stream = house.stream("/v1/events?topics=state", None).await;
    assert_eq!(names(&stream.until("snapshot_end").await), ["snapshot_start", "snapshot_end"]);
    house.post("/v1/sessions", &json!({"title": "new"})).await;
    assert_eq!(stream.next().await.unwrap().data["title"], "new");
    // No event tells that one was resumed.
    house.post("/v1/sessions", &json!({"resume": ID})).await;
    assert_eq!(stream.next().await.unwrap().data["sessionId"], ID);
}

#[tokio::test]
async fn topics_choose() {
    for (topics, expected) in [
        ("state", vec!["snapshot_start", "session_state", "snapshot_end", "session_state"]),
        ("usage", vec!["snapshot_start", "snapshot_end", "usage", "session_state"]),
        (
            "interactions",
            vec![
                "snapshot_start",
                "permission_request",
                "snapshot_end",
                "permission_request",
                "request_resolved",
                // Its requests are gone with it.
                "session_state",
            ],
        ),
        (
            "usage,state",
            vec!["snapshot_start", "session_state", "snapshot_end", "usage", "session_state"],
        ),
    ] {
        let house = house();
        let mut stream = house.stream(&format!("/v1/events?topics={topics}"), None).await;
        let mut seen = stream.until("snapshot_end").await;
        house.post(&at("/prompt"), &json!({"text": "hi"})).await;
        while seen.len() < expected.len() {
            seen.push(stream.next().await.unwrap());
        }
        check(&seen);
        assert_eq!(names(&seen), expected, "{topics}");
    }
}
