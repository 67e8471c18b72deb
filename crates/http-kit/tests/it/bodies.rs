//! Bodies over the network: sizes, announced and not, and clients that read last.

use std::time::Duration;

use http_kit::ServerOptions;

use crate::client::{Client, ask, json, request};
use crate::door::Door;

const MIB: usize = 1024 * 1024;

fn head(path: &str, headers: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\
         content-type: application/json\r\n{headers}\r\n"
    )
}

#[tokio::test]
async fn type_then_size_then_content() {
    let door = Door::open().await;
    let plain = "content-type: text/plain\r\n";
    let long = "{".repeat(101);
    for (raw, status, code) in [
        (request("POST /v1/things", plain, &long), 415, "unsupported_media_type"),
        (request("POST /v1/things", "content-type:\r\n", "{}"), 415, "unsupported_media_type"),
        (request("POST /v1/things", "", "{}"), 415, "unsupported_media_type"),
        (json("POST /v1/things", &long), 413, "payload_too_large"),
        (json("POST /v1/things", "{"), 400, "validation_error"),
        (json("POST /v1/things", r#"{"name":7}"#), 400, "validation_error"),
        (json("POST /v1/things", ""), 400, "validation_error"),
        (json("POST /v1/things", r#"{"name":"x"}"#), 200, ""),
        (json("POST /v1/maybe", ""), 200, ""),
        (request("POST /v1/maybe", "", ""), 200, ""),
        (json("POST /v1/maybe", "{"), 400, "validation_error"),
    ] {
        let answer = ask(door.address, &raw).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{raw}");
    }
    let named = ask(door.address, json("POST /v1/things", r#"{"name":7}"#)).await;
    assert!(named.body.contains("name: invalid type"), "{}", named.body);
}

#[tokio::test]
async fn a_client_that_sends_all_before_it_reads_has_its_answer() {
    let door = Door::open().await;
    let body = vec![b'x'; 26 * MIB];
    let announced = format!("content-length: {}\r\n", body.len());
    let wrong = head("/v1/prompt", &announced).replace("Bearer secret", "Bearer wrong");
    for (head, status) in [
        (head("/v1/prompt", &announced), 413),
        (head("/v1/things", &announced), 413),
        (wrong, 401),
        (head("/nowhere", &announced), 404),
    ] {
        let mut client = Client::connect(door.address).await;
        client.send(&head).await;
        client.send(&body).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{head}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_body_in_chunks_is_cut_where_it_grows_too_long() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/prompt", "transfer-encoding: chunked\r\n")).await;
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat();
    for _ in 0..27 {
        client.send(&chunk).await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 413);
}

#[tokio::test]
async fn the_largest_body_passes() {
    let door = Door::open().await;
    let name = "x".repeat(25 * MIB - 20);
    let answer =
        ask(door.address, json("POST /v1/prompt", &format!(r#"{{"name":"{name}"}}"#))).await;
    assert_eq!((answer.status, answer.body), (200, name.len().to_string()));
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let door = Door::open().await;
    let asks = "expect: 100-continue\r\n";
    let long = head("/v1/things", &format!("content-length: 101\r\n{asks}"));
    assert_eq!(ask(door.address, long).await.status, 413);
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/things", &format!("content-length: 12\r\n{asks}"))).await;
    assert_eq!(client.answer().await.status, 100);
    client.send(r#"{"name":"x"}"#).await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let options =
        ServerOptions { body_gap_max: Duration::from_millis(100), ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/things", "content-length: 50\r\n")).await;
    client.send("{").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.code()), (408, "request_timeout"));
    assert!(client.end().await.is_empty(), "the rest is not taken for a request");
}

#[tokio::test]
async fn a_body_that_trickles_has_an_end_too() {
    let options = ServerOptions {
        body_gap_max: Duration::from_secs(10),
        body_time_max: Duration::from_millis(300),
        ..ServerOptions::default()
    };
    let door = Door::with(options, |_| {}).await;
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/prompt", "content-length: 1000000\r\n")).await;
    let answer = loop {
        tokio::select! {
            answer = client.answer() => break answer,
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        client.send(" ").await;
    };
    assert_eq!((answer.status, answer.code()), (408, "request_timeout"));
}

#[tokio::test]
async fn a_body_that_breaks_off_disturbs_nobody() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/things", "transfer-encoding: chunked\r\n")).await;
    client.send("zz\r\n").await;
    assert_eq!(client.answer().await.status, 400);
    let mut client = Client::connect(door.address).await;
    client.send(head("/v1/things", "content-length: 50\r\n")).await;
    drop(client);
    assert_eq!(ask(door.address, json("POST /v1/things", r#"{"name":"x"}"#)).await.status, 200);
}
