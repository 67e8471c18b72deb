//! Host, bearer, origin, route: what passes, and in which order.

use http_kit::ServerOptions;

use crate::client::{Client, ask, request};
use crate::door::Door;

const GET: &str = "GET /v1/things HTTP/1.1\r\n";
const TOKEN: &str = "authorization: Bearer secret\r\n";
const HOST: &str = "host: localhost\r\n";

async fn answered(door: &Door, raw: &str) -> (u16, String) {
    let answer = ask(door.address, raw).await;
    (answer.status, answer.code().to_owned())
}

#[tokio::test]
async fn the_checks_have_one_order() {
    let door = Door::open().await;
    let evil_host = "host: attacker.example\r\n";
    let evil_origin = "origin: https://attacker.example\r\n";
    let wrong_token = "authorization: Bearer wrong\r\n";
    let post = "POST /v1/things HTTP/1.1\r\ncontent-type: text/plain\r\ncontent-length: 1\r\n";
    let nowhere = "GET /v1/nowhere HTTP/1.1\r\n";
    let put = "PUT /v1/things HTTP/1.1\r\n";
    for (parts, status, code) in [
        ([post, evil_host, wrong_token, evil_origin], 403, "forbidden_host"),
        ([post, HOST, wrong_token, evil_origin], 401, "unauthorized"),
        ([post, HOST, TOKEN, evil_origin], 403, "forbidden_origin"),
        ([post, HOST, TOKEN, ""], 415, "unsupported_media_type"),
        ([nowhere, evil_host, TOKEN, ""], 403, "forbidden_host"),
        ([nowhere, HOST, "", ""], 401, "unauthorized"),
        ([nowhere, HOST, TOKEN, evil_origin], 403, "forbidden_origin"),
        ([nowhere, HOST, TOKEN, ""], 404, "not_found"),
        ([put, HOST, "", ""], 401, "unauthorized"),
        ([put, HOST, TOKEN, ""], 405, "method_not_allowed"),
        ([GET, HOST, TOKEN, ""], 200, ""),
    ] {
        let raw = format!("{}\r\n{}", parts.concat(), if parts[0] == post { "{" } else { "" });
        assert_eq!(answered(&door, &raw).await, (status, code.to_owned()), "{raw}");
    }
}

#[tokio::test]
async fn only_loopback_names_are_answered_to() {
    let door = Door::open().await;
    for (head, status) in [
        ("GET /v1/things HTTP/1.1\r\nhost: LOCALHOST:1\r\n", 200),
        ("GET /v1/things HTTP/1.1\r\nhost: 127.3.2.1:9\r\n", 200),
        ("GET /v1/things HTTP/1.1\r\nhost: [::1]:8080\r\n", 200),
        ("GET /v1/things HTTP/1.1\r\nhost: attacker.example\r\n", 403),
        ("GET /v1/things HTTP/1.1\r\nhost: localhost.attacker.example\r\n", 403),
        ("GET /v1/things HTTP/1.1\r\nhost: localhost\u{e9}\r\n", 403),
        ("GET /v1/things HTTP/1.1\r\nhost:\r\n", 403),
        ("GET /v1/things HTTP/1.1\r\n", 400),
        ("GET /v1/things HTTP/1.0\r\n", 400),
        ("GET /v1/things HTTP/1.0\r\nhost: localhost\r\n", 200),
        ("GET /v1/things HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n", 400),
        ("GET /v1/things HTTP/1.1\r\nhost: localhost\r\nHost: attacker.example\r\n", 400),
        ("GET http://localhost/v1/things HTTP/1.1\r\nhost: localhost\r\n", 200),
        ("GET http://attacker.example/v1/things HTTP/1.1\r\nhost: localhost\r\n", 403),
        ("GET http://localhost/v1/things HTTP/1.1\r\nhost: attacker.example\r\n", 403),
        ("GET http://x@localhost/v1/things HTTP/1.1\r\nhost: localhost\r\n", 403),
        ("GET http://localhost/v1/things HTTP/1.1\r\n", 400),
        ("CONNECT attacker.example:80 HTTP/1.1\r\nhost: localhost\r\n", 403),
        ("CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n", 404),
        ("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n", 404),
    ] {
        let raw = format!("{head}{TOKEN}\r\n");
        assert_eq!(answered(&door, &raw).await.0, status, "{raw}");
    }
}

#[tokio::test]
async fn another_bind_answers_to_any_single_name() {
    let door = Door::with(ServerOptions::default(), |gate| gate.is_loopback = false).await;
    for (host, status) in [
        ("host: box.example:80\r\n", 200),
        ("host: localhost\r\n", 200),
        ("host: a.example\r\nhost: b.example\r\n", 400),
        ("", 400),
    ] {
        assert_eq!(answered(&door, &format!("{GET}{host}{TOKEN}\r\n")).await.0, status, "{host}");
    }
    let old = format!("GET /v1/things HTTP/1.0\r\n{TOKEN}\r\n");
    assert_eq!(answered(&door, &old).await.0, 200);
}

#[tokio::test]
async fn one_whole_token_comes_in() {
    let door = Door::open().await;
    for (headers, status) in [
        ("authorization: Bearer secret\r\n", 200),
        ("Authorization: bEARER secret\r\n", 200),
        ("authorization: Bearer  secret\r\n", 200),
        ("", 401),
        ("authorization: Bearer\r\n", 401),
        ("authorization: Bearer \r\n", 401),
        ("authorization: secret\r\n", 401),
        ("authorization: Basic secret\r\n", 401),
        ("authorization: Bearer secre\r\n", 401),
        ("authorization: Bearer secrets\r\n", 401),
        ("authorization: Bearer secret x\r\n", 401),
        ("authorization: Bearer SECRET\r\n", 401),
        ("authorization: Bearer s\u{e9}cret\r\n", 401),
        ("authorization: Bearer secret\r\nauthorization: Bearer secret\r\n", 401),
        ("authorization: Bearer secret\r\nauthorization: Bearer wrong\r\n", 401),
    ] {
        let raw = format!("{GET}{HOST}{headers}\r\n");
        let answer = ask(door.address, &raw).await;
        assert_eq!(answer.status, status, "{raw}");
        let asked_for = answer.header("www-authenticate");
        assert_eq!(asked_for, (status == 401).then_some("Bearer"), "{raw}");
    }
}

#[tokio::test]
async fn an_open_route_still_learns_who_asks() {
    let door = Door::open().await;
    let health = |method: &str, headers: &str| {
        let method = method.to_owned();
        format!("{method} /v1/health HTTP/1.1\r\n{HOST}content-length: 0\r\n{headers}\r\n")
    };
    for (raw, status, body) in [
        (health("GET", ""), 200, "nobody"),
        (health("GET", "authorization: Bearer wrong\r\n"), 200, "nobody"),
        (health("GET", TOKEN), 200, "owner"),
    ] {
        let answer = ask(door.address, &raw).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{raw}");
    }
    assert_eq!(answered(&door, &health("POST", "")).await.0, 401, "another method is not open");
    let mut client = Client::connect(door.address).await;
    client.send(health("HEAD", "")).await;
    assert_eq!(client.stream_head().await.status, 200);
    let beside = format!("GET /v1/health/ HTTP/1.1\r\n{HOST}\r\n");
    assert_eq!(answered(&door, &beside).await.0, 401);
    let origin = health("GET", "origin: null\r\n");
    assert_eq!(answered(&door, &origin).await.0, 403, "open is not open to every page");
}

#[tokio::test]
async fn only_pages_of_this_machine_may_ask() {
    let door = Door::open().await;
    for (origin, status) in [
        ("", 200),
        ("origin: http://localhost:3000\r\n", 200),
        ("origin: http://127.0.0.1:5173\r\n", 200),
        ("origin: https://[::1]:1\r\n", 200),
        ("origin: null\r\n", 403),
        ("origin:\r\n", 403),
        ("origin: https://attacker.example\r\n", 403),
        ("origin: http://localhost.attacker.example\r\n", 403),
        ("origin: http://localhost@attacker.example\r\n", 403),
        ("origin: file://localhost\r\n", 403),
        ("origin: http://localhost\r\norigin: https://attacker.example\r\n", 403),
    ] {
        let answer = ask(door.address, format!("{GET}{HOST}{TOKEN}{origin}\r\n")).await;
        assert_eq!(answer.status, status, "{origin}");
        assert!(!answer.head.contains("access-control-"), "{}", answer.head);
    }
}

#[tokio::test]
async fn preflights_get_no_grant() {
    let door = Door::open().await;
    for origin in ["https://attacker.example", "http://localhost:3000", "null"] {
        let raw = format!(
            "OPTIONS /v1/things HTTP/1.1\r\n{HOST}origin: {origin}\r\n\
             access-control-request-method: POST\r\n\r\n"
        );
        let answer = ask(door.address, raw).await;
        assert_eq!(answer.status, 401, "{origin}");
        assert!(!answer.head.contains("access-control-"), "{}", answer.head);
    }
}

#[tokio::test]
async fn a_listed_origin_is_granted_what_it_needs_and_no_other() {
    let listed = "https://app.example:8443";
    let door = Door::with(ServerOptions::default(), |gate| {
        gate.origins = vec![format!("{listed}/")];
    })
    .await;
    let preflight = |host: &str, origin: &str| {
        format!(
            "OPTIONS /v1/things HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n\
             access-control-request-method: POST\r\n\r\n"
        )
    };
    let answer = ask(door.address, preflight("localhost", listed)).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(listed));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    for (host, origin) in [
        ("localhost", "https://app.example"),
        ("localhost", "http://app.example:8443"),
        ("localhost", "https://app.example:8443.attacker.example"),
        ("attacker.example", listed),
    ] {
        let answer = ask(door.address, preflight(host, origin)).await;
        assert!(answer.status > 400, "{host} {origin}");
    }
    for (token, status) in [(TOKEN, 200), ("", 401)] {
        let answer = ask(door.address, format!("{GET}{HOST}{token}origin: {listed}\r\n\r\n")).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(listed));
        assert_eq!(answer.header("vary"), Some("origin"));
    }
    let answer = ask(door.address, format!("{GET}{HOST}{TOKEN}\r\n")).await;
    assert!(!answer.head.contains("access-control-"));
    assert_eq!(answer.header("vary"), Some("origin"), "a cache keeps it from the page that may");
}

#[tokio::test]
async fn every_answer_carries_the_request_id() {
    let door = Door::open().await;
    let answer = ask(door.address, request("GET /v1/things/7", "x-request-id: a-1\r\n", "")).await;
    assert_eq!((answer.header("x-request-id"), answer.body.as_str()), (Some("a-1"), "a-1"));
    let answer = ask(door.address, request("GET /nowhere", "x-request-id: b.2\r\n", "")).await;
    assert_eq!(answer.header("x-request-id"), Some("b.2"));
    assert!(answer.body.contains(r#""id":"b.2""#), "{}", answer.body);
    let odd = "x-request-id: a b\r\n";
    let answer = ask(door.address, request("GET /v1/things/7", odd, "")).await;
    assert_eq!(answer.header("x-request-id"), Some(answer.body.as_str()));
    assert_eq!(answer.body.len(), 36);
    let foreign = ask(door.address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(foreign.status, 403);
    assert!(foreign.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let door = Door::open().await;
    let answer = ask(door.address, request("DELETE /v1/things", "", "")).await;
    assert_eq!((answer.status, answer.code()), (405, "method_not_allowed"));
    assert_eq!(answer.header("allow"), Some("GET,HEAD,POST"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[tokio::test]
async fn a_panic_breaks_its_own_request_only() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    for _ in 0..2 {
        client.send(request("GET /v1/panic", "", "")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.code()), (500, "internal_error"));
        assert!(!answer.body.contains("secret reason"), "{}", answer.body);
    }
    client.send(request("GET /v1/things", "", "")).await;
    assert_eq!(client.answer().await.status, 200, "on the same connection");
}
