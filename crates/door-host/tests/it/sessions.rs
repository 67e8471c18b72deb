//! Sessions over the door.

use protocol::Effect;
use protocol::event::TextDelta;
use runtime_api::Position;
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::*;

#[tokio::test]
async fn what_a_host_declares_shapes_its_sessions() {
    for (capabilities, effects, is_attended) in [
        (json!({}), &[][..], false),
        (json!({"approvals": {}}), &[][..], true),
        (
            json!({"approvals": {"review": "mutations"}}),
            &[Effect::Write, Effect::Execute, Effect::Network, Effect::Destructive][..],
            true,
        ),
        (json!({"interaction": {"questions": true}}), &[][..], true),
    ] {
        let house = House::new(FakeRuntime::new());
        let mut host = house.host(capabilities.clone()).await;
        host.session().await;
        let calls = house.calls();
        let Some(Call::Create(created)) = calls.first() else { panic!("{calls:?}") };
        let agent = &created.agent;
        assert_eq!(agent.asks_for, effects, "{capabilities}");
        assert_eq!(agent.is_attended, is_attended, "{capabilities}");
        assert!(agent.is_hosted && agent.carries_on && agent.lender.is_none());
        // A policy that comes later binds those that begin later.
        assert_eq!(agent.policy, house.around.bound.lock().unwrap().first().cloned());
    }
}

#[tokio::test]
async fn params_are_read_strictly() {
    let house = House::stored();
    let mut host = house.host(json!({})).await;
    for (method, params, field) in [
        ("session/new", json!({}), "cwd"),
        ("session/new", json!({"cwd": 7}), "cwd"),
        ("session/new", json!({"cwd": "relative"}), "cwd"),
        ("session/new", json!({"cwd": "/x", "colour": 1}), "colour"),
        ("session/new", json!({"cwd": "/x", "mode": "fast"}), "mode"),
        ("session/prompt", json!({"sessionId": ID, "text": ""}), "text"),
        ("session/prompt", json!({"text": "x"}), "sessionId"),
        (
            "session/prompt",
            json!({"sessionId": ID, "text": "x", "attachments": [{"type": "image"}]}),
            "attachments[0].mimeType",
        ),
        ("session/list", json!({"limit": 201}), "limit"),
        ("session/list", json!({"cursor": "x"}), "cursor"),
        ("session/events", json!({"sessionId": ID, "limit": 0}), "limit"),
        ("session/answer", json!({"sessionId": ID, "requestId": "r", "answer": "so"}), "answer"),
        ("session/set_mode", json!({"sessionId": ID}), "mode"),
        ("health", json!({"x": 1}), "x"),
        ("health", json!([1]), ""),
    ] {
        let (code, _, message) = host.ask(method, params.clone()).await.unwrap_err();
        assert_eq!(code, -32602, "{method} {params}: {message}");
        assert!(message.contains(field), "{method} {params}: {message}");
    }
    for wrong in ["none", "a/b", "..", "ü"] {
        let params = json!({"sessionId": wrong});
        let (code, word, _) = host.ask("session/usage", params).await.unwrap_err();
        assert_eq!((code, word.as_str()), (-32000, "session_not_found"), "{wrong}");
    }
}

#[tokio::test]
async fn events_follow_the_answer_of_a_subscription() {
    let delta = |text: &str| Play::Event(TextDelta { text: text.to_owned() }.into());
    let runtime = FakeRuntime::new().turn(vec![delta("one"), delta("two")]);
    let house = House::new(runtime);
    let mut host = house.host(json!({})).await;
    let session = host.session().await;
    let answer = host.ask("session/subscribe", json!({"sessionId": session})).await.unwrap();
    assert!(answer["lastSeq"].is_u64() && answer.get("gap").is_none(), "{answer}");
    let positions = house.calls();
    assert!(
        positions.iter().any(|call| matches!(call, Call::Subscribe(Position::Live))),
        "{positions:?}"
    );
    host.prompt(&session).await;
    let mut texts = Vec::new();
    let mut last = 0;
    while texts.len() < 2 {
        let told = host.told("session/event").await;
        assert_eq!(told["sessionId"], json!(session));
        let seq = told["seq"].as_u64().unwrap();
        assert!(seq > last, "{seq} after {last}");
        last = seq;
        if told["event"]["type"] == "text_delta" {
            texts.push(told["event"]["text"].clone());
        }
    }
    assert_eq!(texts, [json!("one"), json!("two")]);
}

#[tokio::test]
async fn a_policy_that_is_required_comes_first() {
    let house = House::stored();
    let mut host = house.host(json!({"policy": {"push": true, "required": true}})).await;
    for (method, params) in
        [("session/new", json!({"cwd": "/nowhere"})), ("session/load", json!({"sessionId": ID}))]
    {
        let (_, word, _) = host.ask(method, params).await.unwrap_err();
        assert_eq!(word, "locked_by_policy", "{method}");
    }
    let unsigned = host.ask("policy/push", json!({"bundle": {}})).await.unwrap_err();
    assert_eq!(unsigned.0, -32005);
    host.ask("session/new", json!({"cwd": "/nowhere"})).await.unwrap_err();
    let pushed = json!({"bundle": {"id": "p"}, "signature": "s", "keyId": "k"});
    let answer = host.ask("policy/push", pushed.clone()).await.unwrap();
    assert_eq!(answer, json!({"accepted": true, "id": "p", "strippedKeys": ["embed.x"]}));
    assert_eq!(*house.around.pushed.lock().unwrap(), [pushed]);
    host.session().await;
}
