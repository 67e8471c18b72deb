//! The first words of a connection.

use std::time::Duration;

use serde_json::json;
use testkit::fake_handle::FakeRuntime;
use tokio::time::Instant;

use crate::house::*;

const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn nothing_is_done_before_it_and_it_comes_once() {
    let house = House::new(FakeRuntime::new());
    let mut host = house.connect(None);
    assert_eq!(host.ask("session/list", json!({})).await.unwrap_err().0, -32002);
    let answer = host.ask("initialize", hello(json!({}))).await.unwrap();
    assert_eq!(answer["agentInfo"], json!({"name": "narthex", "version": "1.2.3"}));
    assert_eq!(answer["policy"]["locked"], json!(["permissions.mode"]));
    assert_eq!(host.ask("initialize", hello(json!({}))).await.unwrap_err().0, -32600);
    assert_eq!(host.ask("health", json!({})).await.unwrap()["status"], "ok");
    assert_eq!(host.ask("session/dance", json!({})).await.unwrap_err().0, -32601);
}

#[tokio::test]
async fn what_is_wrong_is_named_by_its_field() {
    let house = House::new(FakeRuntime::new());
    let mut host = house.connect(None);
    let endpoint = |url: &str| json!({"kind": "anthropic", "baseUrl": url, "auth": "none"});
    for (capabilities, field) in [
        (json!({"telepathy": true}), "telepathy"),
        (json!({"approvals": {"review": "some"}}), "capabilities.approvals.review"),
        (json!({"fs": {"readTextFile": "yes"}}), "capabilities.fs.readTextFile"),
        (json!({"models": {"exclusive": true}}), "capabilities.models.endpoint"),
        (json!({"models": {"endpoint": endpoint("http://elsewhere")}}), "capabilities.models"),
    ] {
        let (code, _, message) =
            host.ask("initialize", hello(capabilities.clone())).await.unwrap_err();
        assert_eq!(code, -32602, "{capabilities}");
        assert!(message.contains(field), "{capabilities}: {message}");
    }
    let mut other = hello(json!({}));
    other["protocolVersion"] = json!("2.0.0");
    // What a newer version says besides is not looked at.
    other["news"] = json!(1);
    assert_eq!(host.ask("initialize", other).await.unwrap_err().0, -32004);
    host.ask("initialize", hello(json!({"terminal": true}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_socket_wants_its_token_within_ten_seconds() {
    let house = House::new(FakeRuntime::new());
    for wrong in [None, Some(""), Some("0123456789abcdeF"), Some("0123456789abcdef0")] {
        let mut host = house.connect(Some(TOKEN));
        let mut first = hello(json!({}));
        if let Some(token) = wrong {
            first["auth"] = json!({"token": token});
        }
        assert_eq!(host.ask("initialize", first).await.unwrap_err().0, -32003, "{wrong:?}");
        assert!(host.hears().await.is_none(), "{wrong:?}");
    }
    let mut silent = house.connect(Some(TOKEN));
    let begun = Instant::now();
    assert_eq!(silent.ask("health", json!({})).await.unwrap_err().0, -32002);
    assert!(silent.hears().await.is_none());
    assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
    let mut host = house.connect(Some(TOKEN));
    let mut first = hello(json!({}));
    first["auth"] = json!({"token": TOKEN});
    host.ask("initialize", first).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.ask("health", json!({})).await.unwrap()["status"], "ok");
}

#[tokio::test]
async fn the_end_is_asked_for_and_nothing_begins_after_it() {
    let house = House::stored();
    let mut host = house.host(json!({})).await;
    assert_eq!(host.ask("shutdown", json!({"graceMs": 0})).await.unwrap(), json!({}));
    house.door.stopped().await;
    for (method, params) in [
        ("session/new", json!({"cwd": "/nowhere"})),
        ("session/load", json!({"sessionId": ID})),
        ("session/fork", json!({"sessionId": ID})),
        ("session/prompt", json!({"sessionId": ID, "text": "x"})),
    ] {
        let (code, word, _) = host.ask(method, params).await.unwrap_err();
        assert_eq!((code, word.as_str()), (-32000, "shutting_down"), "{method}");
    }
    let mut late = house.connect(None);
    let (_, word, _) = late.ask("initialize", hello(json!({}))).await.unwrap_err();
    assert_eq!(word, "shutting_down");
    house.door.wind_down().await;
    house.door.close().await;
    assert!(host.hears().await.is_none());
}
