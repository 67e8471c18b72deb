//! The gate around the routes: its order, the envelope, methods, health.

use axum::body::Body;
use http::{Method, Request};
use protocol::RefusalCode;
use serde_json::json;
use testkit::fake_handle::FakeRuntime;

use crate::house::{DOCUMENT, House, ID, TOKEN, at, open_session, request};

#[tokio::test]
async fn the_gate_has_one_order() {
    let house = House::plain();
    let evil = "https://attacker.example";
    let send = |host: &'static str,
                token: &'static str,
                origin: Option<&'static str>,
                path: &str,
                kind: Option<&'static str>,
                body: &'static str| {
        let mut request = Request::builder().method(Method::POST).uri(path);
        request = request.header("host", host).header("authorization", format!("Bearer {token}"));
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        house.ask(request.body(Body::from(body)).unwrap())
    };
    let (sessions, text) = ("/v1/sessions", Some("text/plain"));
    let json = Some("application/json");
    for (reply, expected) in [
        (
            send("attacker.example", "wrong", Some(evil), "/nothing", text, "{").await,
            (403, "forbidden_host"),
        ),
        (
            send("localhost", "wrong", Some(evil), "/nothing", text, "{").await,
            (401, "unauthorized"),
        ),
        (
            send("localhost", TOKEN, Some(evil), "/nothing", text, "{").await,
            (403, "forbidden_origin"),
        ),
        (send("localhost", TOKEN, None, "/nothing", text, "{").await, (404, "not_found")),
        (
            send("localhost", TOKEN, None, sessions, text, "{").await,
            (415, "unsupported_media_type"),
        ),
        (
            send("localhost", TOKEN, None, sessions, None, "{").await,
            (415, "unsupported_media_type"),
        ),
        (send("localhost", TOKEN, None, sessions, json, "{").await, (400, "validation_error")),
        (
            send("localhost", TOKEN, None, sessions, json, r#"{"mode":7}"#).await,
            (400, "validation_error"),
        ),
    ] {
        let (status, code) = reply.code();
        assert_eq!((status, code.as_str()), expected);
        let id = reply.headers["x-request-id"].to_str().unwrap();
        assert_eq!(reply.json()["error"]["requestId"], id);
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn every_route_but_health_needs_the_bearer() {
    let house = House::plain();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_ascii_uppercase().parse().unwrap();
            let path = path.replace("{sessionId}", ID).replace("{requestId}", "r");
            let path = path.replace("{taskId}", "t");
            let request = Request::builder().method(&method).uri(&path).header("host", "localhost");
            let reply = house.ask(request.body(Body::empty()).unwrap()).await;
            if path == "/v1/health" {
                assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"status": "ok"})));
            } else {
                let expected = (401, "unauthorized".to_owned());
                assert_eq!(reply.code(), expected, "{method} {path}");
                assert_eq!(reply.headers["www-authenticate"], "Bearer", "{method} {path}");
            }
        }
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn routes_are_exact_and_methods_are_told() {
    let house = House::plain();
    let slash = at("/");
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/sessions/",
        &slash,
        "/v1/nothing",
        "/v2/sessions",
        "/v1/health/",
        "/v1//sessions",
        "/V1/sessions",
        "/docs/",
        "/openapi.yaml",
    ] {
        assert_eq!(house.get(path).await.code(), (404, "not_found".to_owned()), "{path}");
    }
    for (method, path, allow) in [
        (Method::PUT, at("/prompt"), vec!["POST"]),
        (Method::GET, at("/prompt"), vec!["POST"]),
        (Method::DELETE, "/v1/models".to_owned(), vec!["GET", "HEAD"]),
        (Method::PATCH, at(""), vec!["DELETE", "GET", "HEAD"]),
        (Method::PUT, "/v1/sessions".to_owned(), vec!["GET", "HEAD", "POST"]),
        (Method::POST, "/v1/health".to_owned(), vec!["GET", "HEAD"]),
    ] {
        let reply = house.ask(request(method.clone(), &path).body(Body::empty()).unwrap()).await;
        assert_eq!(reply.code(), (405, "method_not_allowed".to_owned()), "{method} {path}");
        let mut told: Vec<_> =
            reply.headers["allow"].to_str().unwrap().split(',').map(str::trim).collect();
        told.sort_unstable();
        assert_eq!(told, allow, "{method} {path}");
    }
}

#[tokio::test]
async fn health_tells_more_with_the_token() {
    let house = House::plain();
    let health = house.get("/v1/health").await.json();
    assert_eq!((&health["status"], &health["version"]), (&json!("ok"), &json!("1.2.3")));
    assert_eq!(health["sessions"], 1);
    assert!(health["uptimeMs"].is_u64());
    house.stopping.cancel();
    let health = house.get("/v1/health").await;
    assert_eq!((health.status.as_u16(), &health.json()["status"]), (503, &json!("stopping")));
}

#[tokio::test]
async fn readiness_depends_on_the_store() {
    let house = House::new(FakeRuntime::new().refuse("check", RefusalCode::Invalid, "disk full"));
    let reply = house.get("/v1/ready").await;
    let expected = json!({"status": "unready", "checks": {"store": "failed"}});
    assert_eq!((reply.status.as_u16(), reply.json()), (503, expected));
    let reply = house.get("/v1/ready").await;
    let expected = json!({"status": "ready", "checks": {"store": "ok"}});
    assert_eq!((reply.status.as_u16(), reply.json()), (200, expected));
    house.stopping.cancel();
    let reply = house.get("/v1/ready").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["status"]), (503, &json!("stopping")));
}

#[tokio::test]
async fn nothing_is_to_be_kept_on_the_way() {
    let house = House::new(FakeRuntime::new().session(open_session()));
    for path in ["/v1/health", "/v1/sessions", "/docs", "/openapi.json", &at("/usage"), &at("/x")] {
        let reply = house.get(path).await;
        if reply.status == 200 {
            assert_eq!(reply.headers["cache-control"], "no-store", "{path}");
        }
    }
}
