//! Connections: slow, idle, many, broken, and the end of the server.

use std::time::Duration;

use http_kit::ServerOptions;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, PATIENCE, ask, request};
use crate::door::Door;

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_connection_answers_many_requests() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    for _ in 0..50 {
        client.send(request("GET /v1/things", "", "")).await;
        assert_eq!(client.answer().await.body, "things");
    }
    client.send(request("GET /v1/things", "", "").repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(client.answer().await.body, "things", "also when all are sent at once");
    }
}

#[tokio::test]
async fn a_request_knows_whose_it_is() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    let own = client.stream.local_addr().unwrap().to_string();
    for _ in 0..2 {
        client.send(request("GET /v1/peer", "", "")).await;
        assert_eq!(client.answer().await.body, own);
    }
}

#[tokio::test]
async fn slow_headers_are_cut() {
    let options = ServerOptions { header_time_max: SHORT, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let begun = Instant::now();
    let mut silent = Client::connect(door.address).await;
    let mut slow = Client::connect(door.address).await;
    slow.send("GET /v1/things HTTP/1.1\r\nhost: loc").await;
    assert!(silent.end().await.is_empty());
    assert!(slow.end().await.is_empty());
    assert!(begun.elapsed() >= SHORT);

    let mut second = Client::connect(door.address).await;
    second.send(request("GET /v1/things", "", "")).await;
    assert_eq!(second.answer().await.status, 200);
    second.send("G").await;
    assert!(second.end().await.is_empty(), "the time counts for later requests as well");
}

#[tokio::test]
async fn idle_connections_are_closed_and_busy_ones_are_not() {
    let options = ServerOptions { idle_max: SHORT, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let mut idle = Client::connect(door.address).await;
    idle.send(request("GET /v1/things", "", "")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut busy = Client::connect(door.address).await;
    busy.send(request("GET /v1/wait", "", "")).await;
    door.live(1).await;
    assert!(idle.end().await.is_empty());
    sleep(SHORT * 2).await;
    door.inside.go_on.notify_one();
    assert_eq!(busy.answer().await.body, "went on");
    assert!(busy.end().await.is_empty());
}

#[tokio::test]
async fn garbage_gets_a_refusal_and_the_next_client_its_answer() {
    let door = Door::open().await;
    let good = request("GET /v1/things", "", "");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    let wide = format!("GET / HTTP/1.1\r\nhost: localhost\r\na: {}\r\n\r\n", "x".repeat(100_000));
    for (raw, status) in [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "400"),
        (b"NONSENSE\r\n\r\n".to_vec(), "400"),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), "400"),
        (b"GET /\0 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), "400"),
        (b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n".to_vec(), "400"),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".to_vec(), "400"),
        (
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
                .to_vec(),
            "400",
        ),
        (many.into_bytes(), "431"),
        (wide.into_bytes(), "431"),
    ] {
        let mut client = Client::connect(door.address).await;
        client.send(&raw).await;
        let said = String::from_utf8(client.end().await).unwrap();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{raw:?}: {said:?}");
        assert_eq!(ask(door.address, &good).await.status, 200);
    }
    let mut client = Client::connect(door.address).await;
    client.send(format!("{good}NONSENSE\r\n\r\n")).await;
    assert_eq!(client.answer().await.status, 200, "what came before the garbage is answered");
    assert!(client.end().await.starts_with(b"HTTP/1.1 400"));
}

#[tokio::test]
async fn two_thousand_short_connections_leave_nothing() {
    let door = Door::open().await;
    let raw = request("GET /v1/things", "", "");
    for round in 0..2_000 {
        let mut client = Client::connect(door.address).await;
        match round % 4 {
            // Left at once, in a header, after the request, after the answer.
            0 => {}
            1 => client.send(&raw[..20]).await,
            2 => client.send(&raw).await,
            _ => {
                client.send(&raw).await;
                assert_eq!(client.answer().await.status, 200);
            }
        }
    }
    let begun = Instant::now();
    while !door.sockets().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", door.sockets());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn more_connections_than_the_limit_wait_for_their_turn() {
    let options = ServerOptions { connections_max: 2, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let raw = request("GET /v1/things", "", "");
    let mut first = Client::connect(door.address).await;
    let mut second = Client::connect(door.address).await;
    for client in [&mut first, &mut second] {
        client.send(&raw).await;
        assert_eq!(client.answer().await.status, 200);
    }
    let mut third = Client::connect(door.address).await;
    third.send(&raw).await;
    assert!(timeout(SHORT, third.answer()).await.is_err());
    drop(first);
    assert_eq!(third.answer().await.status, 200);
}

#[tokio::test]
async fn stopping_ends_idle_connections_and_lets_requests_finish() {
    let mut door = Door::open().await;
    let mut idle = Client::connect(door.address).await;
    idle.send(request("GET /v1/things", "", "")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut fresh = Client::connect(door.address).await;
    let mut running = Client::connect(door.address).await;
    running.send(request("GET /v1/wait", "", "")).await;
    door.live(1).await;
    door.stop.cancel();
    assert!(idle.end().await.is_empty());
    assert!(fresh.end().await.is_empty());
    assert!(TcpStream::connect(door.address).await.is_err(), "nothing new is accepted");
    door.inside.go_on.notify_one();
    let answer = running.answer().await;
    assert_eq!(answer.body, "went on");
    assert!(running.end().await.is_empty());
    door.ended().await;
}

#[tokio::test]
async fn what_does_not_finish_is_cut() {
    let options = ServerOptions { drain_max: SHORT, ..ServerOptions::default() };
    let mut door = Door::with(options, |_| {}).await;
    let mut waiting = Client::connect(door.address).await;
    waiting.send(request("GET /v1/wait", "", "")).await;
    let mut viewer = Client::connect(door.address).await;
    viewer.send(request("GET /v1/stream", "", "")).await;
    viewer.until("hello").await;
    door.live(2).await;
    door.stop.cancel();
    door.ended().await;
    door.live(0).await;
    assert!(waiting.end().await.is_empty());
}
