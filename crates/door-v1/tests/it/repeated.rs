//! The same request sent twice.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use testkit::fake_handle::{Call, FakeRuntime, session_info};

use crate::house::{House, ID, OTHER_TOKEN, Reply, at, open_session, request};

const OTHER: &str = "06f0000000000000000000000t";

async fn keyed(house: &House, path: &str, key: &str, body: &Value) -> Reply {
    let request = request(Method::POST, path)
        .header("content-type", "application/json")
        .header("idempotency-key", key.as_bytes());
    house.ask(request.body(body.to_string().into()).unwrap()).await
}

fn house() -> House {
    House::with(|root| {
        FakeRuntime::new().session(session_info(ID, root)).session(session_info(OTHER, root))
    })
}

#[tokio::test]
async fn a_prompt_with_a_key_runs_once() {
    let house = house();
    let body = json!({"text": "hi"});
    let first = keyed(&house, &at("/prompt"), "k1", &body).await;
    assert!(!first.headers.contains_key("idempotency-replayed"));
    let again = keyed(&house, &at("/prompt"), "k1", &body).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(house.runtime.calls().len(), 1);
    // Another key, another session, another route, or none: another prompt.
    keyed(&house, &at("/prompt"), "k2", &body).await;
    keyed(&house, &format!("/v1/sessions/{OTHER}/prompt"), "k1", &body).await;
    keyed(&house, "/v1/sessions", "k1", &json!({})).await;
    house.post(&at("/prompt"), &body).await;
    house.post(&at("/prompt"), &body).await;
    assert_eq!(house.runtime.calls().len(), 6);
}

#[tokio::test]
async fn a_session_and_a_copy_with_a_key_are_made_once() {
    let house = house();
    let first = keyed(&house, "/v1/sessions", "k", &json!({"mode": "ask", "title": "t"})).await;
    // The order of fields is none of the body's meaning.
    let request = request(Method::POST, "/v1/sessions")
        .header("content-type", "application/json")
        .header("idempotency-key", "k");
    let again = house.ask(request.body(r#"{"title": "t",  "mode":"ask"}"#.into()).unwrap()).await;
    assert_eq!(again.json(), first.json());
    keyed(&house, &at("/fork"), "k", &json!({})).await;
    keyed(&house, &at("/fork"), "k", &json!({})).await;
    let calls = house.runtime.calls();
    assert!(matches!(calls[..], [Call::Create(_), Call::Fork(..), Call::Open(..)]), "{calls:?}");
}

#[tokio::test]
async fn a_key_belongs_to_one_body() {
    let house = house();
    keyed(&house, &at("/prompt"), "k", &json!({"text": "one"})).await;
    let reply = keyed(&house, &at("/prompt"), "k", &json!({"text": "two"})).await;
    assert_eq!(reply.code(), (409, "idempotency_conflict".to_owned()));
    assert_eq!(house.runtime.calls().len(), 1);
}

#[tokio::test]
async fn what_was_refused_may_be_tried_again() {
    let refused = FakeRuntime::new().session(open_session()).refuse(
        "prompt",
        protocol::RefusalCode::QueueFull,
        "full",
    );
    let house = House::new(refused);
    let body = json!({"text": "hi"});
    let reply = keyed(&house, &at("/prompt"), "k", &body).await;
    assert_eq!(reply.code(), (429, "queue_full".to_owned()));
    assert_eq!(keyed(&house, &at("/prompt"), "k", &body).await.status, 202);
}

#[tokio::test]
async fn two_at_once_are_one() {
    let house = house();
    let (body, path) = (json!({"text": "hi"}), at("/prompt"));
    let (one, two) =
        tokio::join!(keyed(&house, &path, "k", &body), keyed(&house, &path, "k", &body));
    assert_eq!(one.json(), two.json());
    assert_eq!(house.runtime.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_remembered_for_ten_minutes() {
    let house = house();
    let body = json!({"text": "hi"});
    keyed(&house, &at("/prompt"), "k", &body).await;
    tokio::time::advance(Duration::from_secs(599)).await;
    keyed(&house, &at("/prompt"), "k", &body).await;
    assert_eq!(house.runtime.calls().len(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    keyed(&house, &at("/prompt"), "k", &body).await;
    assert_eq!(house.runtime.calls().len(), 2);
}

#[tokio::test]
async fn keys_are_visible_and_short() {
    let house = house();
    for key in ["", "a b", "\t", "ü", &"x".repeat(256)] {
        let (status, _, message) =
            keyed(&house, &at("/prompt"), key, &json!({"text": "hi"})).await.refusal();
        assert_eq!(status, 400, "{key:?}");
        assert!(message.starts_with("idempotency-key: "), "{message}");
    }
    let longest = "x".repeat(255);
    assert_eq!(keyed(&house, &at("/prompt"), &longest, &json!({"text": "hi"})).await.status, 202);
    assert_eq!(house.runtime.calls().len(), 1);
    assert!(matches!(&house.runtime.calls()[0], Call::Prompt(id, _) if id.as_str() == ID));
}

#[tokio::test]
async fn work_goes_on_when_the_client_hangs_up() {
    let house = house();
    let (body, path) = (json!({"text": "hi"}), at("/prompt"));
    // Polled once and dropped: the client has gone before the answer.
    tokio::select! {
        biased;
        _ = keyed(&house, &path, "k", &body) => panic!("answered at once"),
        () = std::future::ready(()) => {}
    }
    let reply = keyed(&house, &at("/prompt"), "k", &body).await;
    assert_eq!(reply.status, 202);
    assert_eq!(house.runtime.calls().len(), 1, "the first request did it, the second heard of it");
}

#[tokio::test]
async fn keys_are_the_callers_own() {
    let house = house();
    let (mine, other) = (json!({"text": "mine"}), json!({"text": "other"}));
    let first = keyed(&house, &at("/prompt"), "k", &mine).await;
    for (body, again) in [(&other, false), (&other, true)] {
        let mut request = request(Method::POST, &at("/prompt"))
            .header("content-type", "application/json")
            .header("idempotency-key", "k")
            .body(body.to_string().into())
            .unwrap();
        let bearer = format!("Bearer {OTHER_TOKEN}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let reply = house.ask(request).await;
        assert_eq!(reply.status, 202);
        assert_eq!(reply.headers.contains_key("idempotency-replayed"), again);
        assert_ne!(reply.json()["promptId"], first.json()["promptId"]);
    }
    assert_eq!(house.runtime.calls().len(), 2);
}
