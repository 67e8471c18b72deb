//! What every request passes: ids, names, the token, methods, unknown places.

use axum::body::Body;
use http::Request;
use serde_json::json;
use testkit::fake_handle::FakeRuntime;
use testkit::fake_neurons::FakeNeurons;

use crate::house::{House, ID, Setting, refused, request};

const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

const ROUTES: [(&str, &str); 20] = [
    ("GET", "/health"),
    ("GET", "/neurons"),
    ("POST", "/neurons"),
    ("GET", "/neurons/a"),
    ("DELETE", "/neurons/a"),
    ("POST", "/neurons/a/exec"),
    ("POST", "/neurons/a/tool"),
    ("GET", "/neurons/a/tools"),
    ("POST", "/neurons/a/install"),
    ("POST", "/neurons/a/snapshot"),
    ("POST", "/sessions"),
    ("GET", "/sessions"),
    ("GET", "/sessions/ses-a"),
    ("DELETE", "/sessions/ses-a"),
    ("POST", "/sessions/ses-a/message"),
    ("POST", "/sessions/ses-a/run"),
    ("GET", "/sessions/ses-a/events"),
    ("GET", "/sessions/ses-a/approvals"),
    ("POST", "/sessions/ses-a/approvals/apr-a"),
    ("GET", "/no-such-thing"),
];

fn empty(setting: Setting) -> House {
    House::with(setting, FakeRuntime::new(), FakeNeurons::new())
}

#[tokio::test]
async fn the_callers_request_id_is_used_where_it_can_be() {
    let house = empty(Setting::new());
    let ask = |id: &str| {
        let request = Request::get(format!("{}/neurons/absent", door_cortex::BASE));
        let request = request.header("host", "localhost").header("x-request-id", id);
        house.ask(request.body(Body::empty()).unwrap())
    };
    for id in ["trace-42.a:B_c", &"Az09._:-".repeat(16)] {
        let reply = ask(id).await;
        assert_eq!(reply.headers["x-request-id"], id);
        assert_eq!(reply.code(), refused(404, "NOT_FOUND"));
    }
    for id in ["a b", "a/b", "<script>", &"x".repeat(129)] {
        let reply = ask(id).await;
        let made = reply.headers["x-request-id"].to_str().unwrap();
        assert!(made.starts_with("ctx-") && made.len() == 20, "{made}");
        assert_eq!(reply.code(), refused(404, "NOT_FOUND"));
    }
}

#[tokio::test]
async fn every_route_needs_the_token_before_anything_is_looked_at() {
    let house = empty(Setting::new().with_token(TOKEN));
    for (method, path) in ROUTES {
        let reply = house.send(method, path).await;
        assert_eq!(reply.code(), refused(401, "UNAUTHORIZED"), "{method} {path}");
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
    }
    for path in ["/neurons/..%2Fx", "/neurons/a/", "/sessions/a%20b"] {
        assert_eq!(house.get(path).await.code(), refused(401, "UNAUTHORIZED"), "{path}");
    }
    assert!(house.neurons.calls().is_empty() && house.runtime.calls().is_empty());
}

#[tokio::test]
async fn only_the_very_token_comes_in() {
    let house = empty(Setting::new().with_token(TOKEN));
    let ask = |value: String| {
        let request = request("GET", "/health").header("authorization", value);
        house.ask(request.body(Body::empty()).unwrap())
    };
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert_eq!(ask(format!("{scheme} {TOKEN}")).await.status, 200, "{scheme}");
    }
    for wrong in [
        "Bearer wrong".to_owned(),
        format!("Bearer {TOKEN}x"),
        format!("Basic {TOKEN}"),
        TOKEN.to_owned(),
        "Bearer ".to_owned(),
    ] {
        assert_eq!(ask(wrong.clone()).await.code(), refused(401, "UNAUTHORIZED"), "{wrong}");
    }
}

#[tokio::test]
async fn foreign_names_and_pages_are_refused_first() {
    let house = empty(Setting::new().with_token(TOKEN).with_limits(1, 1));
    let ask = |host: &str, origin: Option<&str>| {
        let mut request = Request::get(format!("{}/health", door_cortex::BASE));
        request = request.header("host", host).header("authorization", format!("Bearer {TOKEN}"));
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        house.ask(request.body(Body::empty()).unwrap())
    };
    for _ in 0..3 {
        assert_eq!(ask("evil.example", None).await.code(), refused(403, "FORBIDDEN"));
        let page = Some("https://evil.example");
        assert_eq!(ask("localhost", page).await.code(), refused(403, "FORBIDDEN"));
    }
    let reply = ask("localhost:3100", Some("http://localhost:5173")).await;
    assert_eq!(reply.status, 200, "what was refused there consumed nothing");
    assert!(!reply.headers.keys().any(|name| name.as_str().starts_with("access-control-")));
}

#[tokio::test]
async fn unknown_places_and_methods_are_not_found() {
    let house = House::plain();
    for (method, path) in [
        ("GET", "/nothing/here"),
        ("GET", ""),
        ("GET", "/health/"),
        ("GET", "/neurons/worker/nothing"),
        ("PATCH", "/neurons"),
        ("PUT", "/neurons"),
        ("TRACE", "/neurons"),
        ("HEAD", "/neurons"),
        ("OPTIONS", "/neurons"),
        ("DELETE", "/neurons"),
        ("GET", "/neurons/worker/exec"),
        ("POST", "/health"),
    ] {
        let reply = house.send(method, path).await;
        assert_eq!(reply.status, 404, "{method} {path}");
        assert!(!reply.headers.contains_key("allow"), "{method} {path}");
    }
    for path in ["/health", "/", "/api/v1/health", "/api", "/api/v2/cortex/health"] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        assert_eq!(house.ask(request).await.code(), refused(404, "NOT_FOUND"), "{path}");
    }
}

#[tokio::test]
async fn crafted_ids_are_refused_before_anything_is_looked_for() {
    let house = House::plain();
    let long = "x".repeat(65);
    for id in ["..", "a%2Fb", "a%20b", "a.b", &long, "..%2F..%2Fevil", "a:b", "a%25b", "%ff"] {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/tools"), ("GET", "/")] {
            let reply = house.send(method, &format!("/neurons/{id}{rest}")).await;
            assert_eq!(reply.paths(), ["agentId"], "{method} {id}{rest}");
        }
        let reply = house.post(&format!("/neurons/{id}/exec"), &json!({"code": "true"})).await;
        assert_eq!(reply.paths(), ["agentId"], "{id}");
    }
    let long = "x".repeat(129);
    for id in ["..", "a%2Fb", &long, "ses%20x", "ses.x"] {
        for rest in ["", "/events", "/approvals", "/"] {
            let reply = house.get(&format!("/sessions/{id}{rest}")).await;
            assert_eq!(reply.paths(), ["sessionId"], "{id}{rest}");
        }
    }
    for path in ["/neurons/", "/neurons/worker/", "/neurons/worker//", "/neurons/worker/exec/"] {
        assert_eq!(house.get(path).await.paths(), ["agentId"], "{path}");
    }
    let path = format!("/sessions/{ID}/approvals/a.b");
    assert_eq!(house.post(&path, &json!({"decision": "allow"})).await.paths(), ["approvalId"]);
    assert!(house.neurons.calls().is_empty() && house.runtime.calls().is_empty());
    // The whole alphabet is a good id of something that is not there.
    let good = "aZ09_-".repeat(11)[..64].to_owned();
    assert_eq!(house.get(&format!("/neurons/{good}")).await.code(), refused(404, "NOT_FOUND"));
    assert_eq!(house.get("/neurons/%77orker").await.status, 200, "letters may be encoded");
}

#[tokio::test]
async fn nothing_is_to_be_kept_on_the_way() {
    let house = House::plain();
    for path in ["/health", "/neurons/absent"] {
        assert_eq!(house.get(path).await.headers["cache-control"], "no-store", "{path}");
    }
}
