//! Prompts, and stopping them.

use protocol::{Image, RefusalCode};
use runtime_api::{Interrupt, PromptPart};
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::{House, at, open_session};

#[tokio::test]
async fn a_prompt_goes_in_whole() {
    let house = House::plain();
    let body = json!({"text": "look", "attachments": [
        {"type": "file", "path": "src/main.rs"},
        {"type": "image", "mimeType": "image/png", "data": "aGk="}
    ]});
    let reply = house.post(&at("/prompt"), &body).await;
    assert_eq!(reply.status, 202);
    assert_eq!(reply.json(), json!({"promptId": "prompt1", "queued": false, "position": 0}));
    let image = Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let expected = [
        PromptPart::Text("look".to_owned()),
        PromptPart::File("src/main.rs".to_owned()),
        PromptPart::Image(image),
    ];
    assert!(matches!(&house.runtime.calls()[..], [Call::Prompt(_, prompt)]
        if prompt.parts == expected));
}

#[tokio::test]
async fn prompts_may_be_large_and_have_an_end() {
    let house = House::plain();
    let room = 25 * 1024 * 1024 - r#"{"text":""}"#.len();
    let body = |bytes: usize| format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes));
    assert_eq!(house.post_text(&at("/prompt"), body(room)).await.status, 202);
    let reply = house.post_text(&at("/prompt"), body(room + 1)).await;
    assert_eq!(reply.code(), (413, "payload_too_large".to_owned()));
    let reply = house.post_text(&at("/mode"), body(1024 * 1024)).await;
    assert_eq!(reply.code(), (413, "payload_too_large".to_owned()));
}

#[tokio::test]
async fn refused_prompts_have_their_own_status() {
    for (code, expected) in [
        (RefusalCode::QueueFull, (429, "queue_full")),
        (RefusalCode::TooLarge, (413, "payload_too_large")),
        (RefusalCode::Invalid, (400, "validation_error")),
        (RefusalCode::SessionNotFound, (404, "session_not_found")),
        (RefusalCode::ShuttingDown, (503, "shutting_down")),
    ] {
        let runtime = FakeRuntime::new().session(open_session()).refuse("prompt", code, "no");
        let reply = House::new(runtime).post(&at("/prompt"), &json!({"text": "hi"})).await;
        let (status, code) = reply.code();
        assert_eq!((status, code.as_str()), expected);
    }
}

#[tokio::test]
async fn an_interrupt_needs_no_body() {
    let runtime = FakeRuntime::new().session(open_session()).turn(vec![Play::UntilInterrupt]);
    let house = House::new(runtime);
    house.post(&at("/prompt"), &json!({"text": "hi"})).await;
    let reply = house.send("POST", &at("/interrupt"), None).await;
    assert_eq!(reply.json(), json!({"interrupted": true}));
    let reply = house.post(&at("/interrupt"), &json!({"clearQueue": true})).await;
    assert_eq!(reply.json(), json!({"interrupted": false}));
    let calls = house.runtime.calls();
    assert!(matches!(
        calls[..],
        [_, Call::Interrupt(_, Interrupt::Running), Call::Interrupt(_, Interrupt::All)]
    ));
}

#[tokio::test]
async fn one_prompt_is_interrupted_by_its_id() {
    let house = House::plain();
    let reply = house.post(&at("/interrupt"), &json!({"promptId": "p-1"})).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"interrupted": false})));
    let body = json!({"promptId": "p-1", "clearQueue": true});
    let (status, _, message) = house.post(&at("/interrupt"), &body).await.refusal();
    assert_eq!(status, 400);
    assert!(message.starts_with("clearQueue: does not go with promptId"), "{message}");
    assert!(matches!(&house.runtime.calls()[..], [Call::Interrupt(_, Interrupt::Prompt(id))]
        if id.as_str() == "p-1"));
}

#[tokio::test]
async fn what_is_refused_for_now_says_when_to_come_again() {
    for code in [RefusalCode::QueueFull, RefusalCode::ShuttingDown, RefusalCode::Invalid] {
        let runtime = FakeRuntime::new().session(open_session()).refuse("prompt", code, "no");
        let house = House::new(runtime);
        let reply = house.post(&at("/prompt"), &json!({"text": "hi"})).await;
        let after = reply.headers.get("retry-after").map(|it| it.to_str().unwrap());
        assert_eq!(after, (code != RefusalCode::Invalid).then_some("1"), "{code:?}");
    }
    let house = House::plain();
    house.stopping.cancel();
    for path in ["/v1/health", "/v1/ready"] {
        let reply = house.get(path).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.headers["retry-after"]),
            (503, &"1".parse().unwrap())
        );
    }
}
