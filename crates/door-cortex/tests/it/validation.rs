//! Bad input: refused with a detail that names the field, before anything happens.

use axum::body::Body;
use serde_json::{Value, json};
use testkit::fake_handle::FakeRuntime;

use crate::house::{House, ID, open_session, refused, request};

async fn check(path: &str, table: Vec<(Value, &str)>) {
    let house = House::plain();
    for (body, expected) in table {
        let paths = house.post(path, &body).await.paths();
        assert!(paths.iter().any(|path| path == expected), "{body}: {paths:?}");
    }
    assert!(house.runtime.calls().is_empty(), "{:?}", house.runtime.calls());
    assert!(house.neurons.calls().is_empty(), "{:?}", house.neurons.calls());
}

#[tokio::test]
async fn neurons() {
    let with = |name: &str, value: Value| json!({"agentId": "a", name: value});
    let many: serde_json::Map<String, Value> =
        (0..65).map(|number| (format!("V{number}"), json!("x"))).collect();
    check(
        "/neurons",
        vec![
            (json!({}), "agentId"),
            (json!({"agentId": ".."}), "agentId"),
            (json!({"agentId": "a/b"}), "agentId"),
            (json!({"agentId": "a b"}), "agentId"),
            (json!({"agentId": ""}), "agentId"),
            (json!({"agentId": "x".repeat(65)}), "agentId"),
            (json!({"agentId": "a\0b"}), "agentId"),
            (json!({"agentId": 7}), "agentId"),
            (json!({"agentId": null}), "agentId"),
            (json!({"agentId": ["a"]}), "agentId"),
            (json!({"agentId": {}}), "agentId"),
            (with("workspace", json!("relative")), "workspace"),
            (with("workspace", json!("/a\0b")), "workspace"),
            (with("env", json!([])), "env"),
            (with("env", json!(many)), "env"),
            (with("env", json!({"A": 7})), "env.A"),
            (with("env", json!({"1A": "x"})), "env."),
            (with("env", json!({"A": "x".repeat(4_097)})), "env.A"),
            (with("memoryMb", json!(127)), "memoryMb"),
            (with("memoryMb", json!(65_537)), "memoryMb"),
            (with("vcpus", json!(0)), "vcpus"),
            (with("vcpus", json!(33)), "vcpus"),
        ],
    )
    .await;
}

#[tokio::test]
async fn code() {
    let with = |name: &str, value: Value| json!({"code": "true", name: value});
    check(
        "/neurons/worker/exec",
        vec![
            (json!({}), "code"),
            (json!({"code": ""}), "code"),
            (json!({"code": 5}), "code"),
            (json!({"code": "x".repeat(100_001)}), "code"),
            (with("language", json!("cobol")), "language"),
            (with("timeoutMs", json!(99)), "timeoutMs"),
            (with("timeoutMs", json!(600_001)), "timeoutMs"),
            (with("timeoutMs", json!("x")), "timeoutMs"),
            (with("cwd", json!("x".repeat(4_097))), "cwd"),
        ],
    )
    .await;
}

#[tokio::test]
async fn tools_and_packages() {
    check(
        "/neurons/worker/tool",
        vec![
            (json!({}), "tool"),
            (json!({"tool": "a b"}), "tool"),
            (json!({"tool": "x".repeat(129)}), "tool"),
            (json!({"tool": "bash", "params": []}), "params"),
            (json!({"tool": "no_such_tool"}), "tool"),
            (json!({"tool": "apply_patch"}), "tool"),
        ],
    )
    .await;
    let with = |packages: Value| json!({"packages": packages});
    check(
        "/neurons/worker/install",
        vec![
            (json!({}), "packages"),
            (with(json!([])), "packages"),
            (with(json!("hello")), "packages"),
            (with(json!(vec!["x"; 51])), "packages"),
            (with(json!(["-rf"])), "packages.0"),
            (with(json!(["ok", "a;b"])), "packages.1"),
            (with(json!([""])), "packages.0"),
            (with(json!(["a b"])), "packages.0"),
            (with(json!(["$(id)"])), "packages.0"),
            (json!({"packages": ["a"], "manager": "brew"}), "manager"),
            (json!({"packages": ["a"], "timeoutMs": 1_800_001}), "timeoutMs"),
        ],
    )
    .await;
}

#[tokio::test]
async fn sessions() {
    let with = |name: &str, value: Value| json!({"agentId": "worker", name: value});
    check(
        "/sessions",
        vec![
            (json!({}), "agentId"),
            (json!({"agentId": "a/b"}), "agentId"),
            (with("name", json!("")), "name"),
            (with("name", json!("x".repeat(129))), "name"),
            (with("name", json!("a\u{7}b")), "name"),
            (with("name", json!(5)), "name"),
            (with("model", json!("")), "model"),
            (with("model", json!("a b")), "model"),
            (with("systemPrompt", json!("x".repeat(100_001))), "systemPrompt"),
            (with("maxTurns", json!(201)), "maxTurns"),
        ],
    )
    .await;
}

#[tokio::test]
async fn runs() {
    let with = |name: &str, value: Value| json!({"message": "hello", name: value});
    let format = |value: Value| with("responseFormat", value);
    let images = |value: Value| with("images", value);
    let png = json!({"data": "aGk=", "mimeType": "image/png"});
    for route in ["message", "run"] {
        check(
            &format!("/sessions/{ID}/{route}"),
            vec![
                (json!({}), "message"),
                (json!({"message": ""}), "message"),
                (json!({"message": null}), "message"),
                (json!({"message": " \n\t"}), "message"),
                (json!({"message": 5}), "message"),
                (with("maxTurns", json!(0)), "maxTurns"),
                (with("maxTurns", json!(201)), "maxTurns"),
                (with("maxTurns", json!(1.5)), "maxTurns"),
                (with("maxTurns", json!("3")), "maxTurns"),
                (with("model", json!("")), "model"),
                (with("model", json!("x".repeat(129))), "model"),
                (format(json!("x")), "responseFormat"),
                (format(json!({})), "responseFormat.schema"),
                (format(json!({"schema": "object"})), "responseFormat.schema"),
                (format(json!({"schema": {"d": "x".repeat(33_000)}})), "responseFormat.schema"),
                (format(json!({"schema": {}, "name": "a b"})), "responseFormat.name"),
                (format(json!({"schema": {}, "strict": 1})), "responseFormat.strict"),
                (images(json!("x")), "images"),
                (images(json!(vec![png.clone(); 5])), "images"),
                (images(json!(["x"])), "images.0"),
                (images(json!([png.clone(), {"data": "aGk="}])), "images.1.mimeType"),
                (images(json!([{"mimeType": "image/png"}])), "images.0.data"),
                (images(json!([{"data": "%%%", "mimeType": "image/png"}])), "images.0.data"),
                (images(json!([{"data": "aGk", "mimeType": "image/png"}])), "images.0.data"),
                (images(json!([{"data": "aGk=", "mimeType": "image/tiff"}])), "images.0.mimeType"),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn decisions() {
    check(
        &format!("/sessions/{ID}/approvals/apr-a"),
        vec![
            (json!({}), "decision"),
            (json!({"decision": "maybe"}), "decision"),
            (json!({"decision": true}), "decision"),
            (json!({"decision": "allow", "reason": 5}), "reason"),
            (json!({"decision": "allow", "reason": "x".repeat(1_001)}), "reason"),
        ],
    )
    .await;
}

#[tokio::test]
async fn queries() {
    let house = House::plain();
    for (path, expected) in [
        ("?history=0", "history"),
        ("?history=x", "history"),
        ("?history=-1", "history"),
        ("?history=1001", "history"),
        ("/events?after=-1", "after"),
        ("/events?after=x", "after"),
        ("/events?after=1.5", "after"),
        ("/events?after=", "after"),
    ] {
        let reply = house.get(&format!("/sessions/{ID}{path}")).await;
        assert_eq!(reply.paths(), [expected], "{path}");
    }
    assert_eq!(house.get("/sessions?agentId=a%20b").await.paths(), ["agentId"]);
    let header = request("GET", &format!("/sessions/{ID}/events")).header("last-event-id", "x");
    let reply = house.ask(header.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.paths(), ["Last-Event-ID"]);
    let reply = house.get(&format!("/sessions/{ID}?unknown=1")).await;
    assert_eq!(reply.status, 200, "unknown parameters are ignored");
}

#[tokio::test]
async fn bodies() {
    let house = House::new(FakeRuntime::new().session(open_session()));
    let none: [&[u8]; 7] =
        [b"", b"{", b"[]", b"\"agentId\"", b"null", b"{\"agentId\":\"a\"", b"\xff"];
    for raw in none {
        let reply = house.post_text("/neurons", raw.to_vec()).await;
        assert_eq!(reply.paths(), [""], "{raw:?}");
    }
    let kind = |kind: &str| {
        let request = request("POST", "/neurons").header("content-type", kind);
        house.ask(request.body(Body::from("agentId=a")).unwrap())
    };
    let unsupported = refused(415, "UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(kind("application/x-www-form-urlencoded").await.code(), unsupported);
    let large = json!({"agentId": "a", "pad": "x".repeat(1 << 20)});
    let reply = house.post("/neurons", &large).await;
    assert_eq!(reply.code(), refused(413, "PAYLOAD_TOO_LARGE"));
    let path = format!("/sessions/{ID}/message");
    let reply = house.post(&path, &json!({"message": "", "pad": "x".repeat(1 << 20)})).await;
    assert_eq!(reply.paths(), ["message"], "images make the bodies of runs large");
    let reply = house.post(&path, &json!({"message": "", "pad": "x".repeat(32 << 20)})).await;
    assert_eq!(reply.code(), refused(413, "PAYLOAD_TOO_LARGE"));
    assert!(house.neurons.calls().is_empty());
}

#[tokio::test]
async fn what_is_wrong_is_told_before_what_is_not_there() {
    let house = House::plain();
    assert_eq!(house.post("/neurons/absent/exec", &json!({"code": 5})).await.paths(), ["code"]);
    assert_eq!(house.post("/sessions/ses-absent/message", &json!({})).await.paths(), ["message"]);
    let all = house.post("/neurons/absent/exec", &json!({"code": "", "language": "x"})).await;
    assert_eq!(all.paths(), ["code", "language"], "everything is told at once");
}

#[tokio::test]
async fn no_value_is_told_back() {
    let house = House::plain();
    let secret = "sk-live-000";
    let body = json!({"agentId": secret.repeat(9), "env": {secret: 1, "A": secret.repeat(999)}});
    let reply = house.post("/neurons", &body).await;
    let text = String::from_utf8(reply.body).unwrap();
    // Names of variables stand in paths, values never.
    assert_eq!(text.matches(secret).count(), 1, "{text}");
}
