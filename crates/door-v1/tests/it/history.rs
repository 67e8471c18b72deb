//! Messages, checkpoints, going back, copies.

use protocol::event::RewindScope;
use protocol::{Block, CheckpointId, Message, MessageId, RefusalCode, Role, Seq, Timestamp};
use runtime_api::{ForkPoint, GoBack, PointInfo, WentBack};
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::house::{House, ID, at, open_session};

fn message(id: &str) -> Message {
    Message {
        id: MessageId::new(id),
        role: Role::User,
        content: vec![Block::text("hi")],
        created_at: Timestamp(1_796_000_000_000),
    }
}

fn point(id: &str) -> PointInfo {
    PointInfo {
        id: CheckpointId::new(id),
        seq: Seq(2),
        created_at: Timestamp(1_796_000_000_000),
        message_id: MessageId::new("m1"),
        label: "change things".to_owned(),
        files: 2,
        has_files: true,
        is_undone: false,
        is_cut: false,
    }
}

fn house() -> House {
    let back = WentBack {
        point: Some(CheckpointId::new("cp-1")),
        changed: vec![('~', "a.txt".to_owned()), ('-', "b.txt".to_owned())],
        kept: vec![("c.txt".to_owned(), "changed since".to_owned())],
        beyond: vec!["the database".to_owned()],
        messages_removed: 4,
    };
    House::with(|root| {
        let runtime = FakeRuntime::new().session(session_info(ID, root));
        let runtime = runtime.points(vec![point("cp-1")], back);
        runtime.transcript(vec![message("m1"), message("m2"), message("m3")])
    })
}

#[tokio::test]
async fn messages_come_in_pages() {
    let house = house();
    for (query, ids, more) in [
        ("", vec!["m1", "m2", "m3"], false),
        ("?limit=2", vec!["m1", "m2"], true),
        ("?limit=3", vec!["m1", "m2", "m3"], false),
        ("?after=m2", vec!["m3"], false),
        ("?limit=1&after=m1", vec!["m2"], true),
        ("?after=m3", vec![], false),
    ] {
        let page = house.get(&at(&format!("/messages{query}"))).await.json();
        let messages = page["messages"].as_array().unwrap().iter();
        let found: Vec<_> = messages.map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!((found, &page["hasMore"]), (ids, &json!(more)), "{query}");
    }
    let (status, _, message) = house.get(&at("/messages?after=m9")).await.refusal();
    assert_eq!((status, message.as_str()), (400, "after: no message m9"));
}

/// The largest page, which is also the usual one.
#[tokio::test]
async fn a_thousand_messages_are_not_taken_for_all() {
    let all: Vec<_> = (0..1_001).map(|number| message(&format!("m{number}"))).collect();
    let house = House::new(FakeRuntime::new().session(open_session()).transcript(all));
    let page = house.get(&at("/messages")).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 1_000);
    assert_eq!(page["hasMore"], json!(true));
    let page = house.get(&at("/messages?after=m999")).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    assert_eq!(page["hasMore"], json!(false));
}

#[tokio::test]
async fn checkpoints_are_listed_and_gone_back_to() {
    let house = house();
    let listed = house.get(&at("/checkpoints")).await.json();
    let checkpoint = json!({
        "id": "cp-1", "createdAt": "2026-11-30T00:53:20.000Z", "messageId": "m1",
        "label": "change things", "files": 2, "hasFiles": true, "undone": false, "removed": false
    });
    assert_eq!(listed, json!({"checkpoints": [checkpoint]}));
    let reply = house.post(&at("/rewind"), &json!({"checkpointId": "cp-1"})).await;
    let kept = json!([{"path": "c.txt", "reason": "changed since"}]);
    assert_eq!(
        reply.json(),
        json!({"checkpoint": checkpoint, "filesChanged": ["a.txt", "b.txt"], "filesKept": kept,
               "notes": ["the database"], "messagesRemoved": 4})
    );
    let body = json!({"checkpointId": "cp-1", "scope": "files", "force": true, "dryRun": true});
    assert_eq!(house.post(&at("/rewind"), &body).await.status, 200);
    let reply = house.post(&at("/undo"), &json!({})).await;
    assert_eq!(
        reply.json(),
        json!({"undone": true, "checkpoint": "cp-1", "filesChanged": ["a.txt", "b.txt"],
               "filesKept": kept, "notes": ["the database"]})
    );
    let calls = house.runtime.calls();
    let plain = GoBack::default();
    let forced = GoBack { is_forced: true, is_dry: true };
    assert!(matches!(&calls[..], [
        Call::Rewind(_, RewindScope::Both, one),
        Call::Rewind(_, RewindScope::Files, two),
        Call::Undo(_, three),
    ] if (*one, *two, *three) == (plain, forced, plain)));
}

#[tokio::test]
async fn nothing_to_undo_is_no_error() {
    let house = House::plain();
    let reply = house.send("POST", &at("/undo"), None).await;
    let nothing = json!({"undone": false, "filesChanged": [], "filesKept": [], "notes": []});
    assert_eq!((reply.status.as_u16(), reply.json()), (200, nothing));
}

#[tokio::test]
async fn going_back_needs_a_checkpoint_and_an_idle_session() {
    let reply = house().post(&at("/rewind"), &json!({"checkpointId": "no-such"})).await;
    assert_eq!(reply.code(), (404, "checkpoint_not_found".to_owned()));
    for (method, path, body) in [
        ("rewind", "/rewind", json!({"checkpointId": "cp-1"})),
        // A busy session is told first.
        ("rewind", "/rewind", json!({"checkpointId": "no-such"})),
        ("undo", "/undo", json!({})),
        ("fork", "/fork", json!({})),
    ] {
        let house = House::with(|root| {
            let runtime = FakeRuntime::new().session(session_info(ID, root));
            let runtime = runtime.points(vec![point("cp-1")], WentBack::default());
            runtime.refuse(method, RefusalCode::SessionBusy, "a prompt runs")
        });
        let reply = house.post(&at(path), &body).await;
        assert_eq!(reply.code(), (409, "session_busy".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn a_fork_is_open_at_once() {
    let house = house();
    let reply = house.post(&at("/fork"), &json!({"messageId": "m2"})).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["id"]), (201, &json!("forked")));
    assert_eq!(house.get("/v1/sessions/forked").await.status, 200);
    assert!(
        matches!(&house.runtime.calls()[..], [Call::Fork(_, ForkPoint::Message(id)), Call::Open(..)]
        if id.as_str() == "m2")
    );
    assert_eq!(house.send("POST", &at("/fork"), None).await.status, 201);
}

#[tokio::test]
async fn a_fork_that_cannot_be_opened_is_not_left_behind() {
    let house = House::with(|root| {
        let runtime = FakeRuntime::new().session(session_info(ID, root));
        runtime.refuse("open", RefusalCode::TooManySessions, "full")
    });
    let reply = house.post(&at("/fork"), &json!({})).await;
    assert_eq!(reply.code(), (429, "too_many_sessions".to_owned()));
    assert!(
        matches!(house.runtime.calls().last(), Some(Call::Remove(id)) if id.as_str() == "forked")
    );
}
