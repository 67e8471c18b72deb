//! How much and how long.

use std::sync::Arc;
use std::time::Duration;

use egress::{Limits, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::house::{House, LONG, allow, fine, head, say, status};

const SHORT: Duration = Duration::from_millis(200);

const GET: &str = "GET http://a.example/ HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn a_hello_that_does_not_come_ends_its_tunnel() {
    let mut house = House::new();
    house.serve_tls("a.example", fine).await;
    let limits = Limits { hello_max: SHORT, ..Limits::default() };
    let entrance = house.open_with(&allow(&["a.example"]), limits);
    let (_, mut stream) = entrance.connect("a.example:443").await;
    assert_eq!(say(&mut stream, "\u{16}\u{3}\u{1}").await, "");
    let event = house.record.wait(1).await.remove(0);
    assert!(event.refused.unwrap().contains("did not come in time"));
}

#[tokio::test]
async fn a_place_that_takes_no_connection_is_given_up() {
    let house = House::new();
    house.names.add("a.example", &[&["93.184.215.14"]]);
    let limits = Limits { connect_max: SHORT, ..Limits::default() };
    let mut egress = allow(&["a.example"]);
    egress.allow[0].port = Some(9);
    let entrance = house.open_with(&egress, limits);
    let answer = entrance.get("http://a.example:9/").await;
    assert_eq!(status(&answer), 504);
    assert!(answer.contains("connecting took longer than"), "{answer}");
    let (head, _) = entrance.connect("a.example:9").await;
    assert_eq!(status(&head), 504);
    let events = house.record.wait(2).await;
    assert!(events.iter().all(|event| event.status == Some(504)));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let mut house = House::new();
    house
        .serve_raw("a.example", 80, |mut stream| async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
        })
        .await;
    let limits = Limits { silence_max: SHORT, ..Limits::default() };
    let entrance = house.open_with(&allow(&["a.example"]), limits);
    let answer = entrance.get("http://a.example/").await;
    assert_eq!(status(&answer), 504);
    assert!(answer.contains("a.example:80 said nothing"), "{answer}");
    assert_eq!(house.record.wait(1).await[0].status, Some(504));
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves_ends() {
    let mut house = House::new();
    house.serve_tls("a.example", fine).await;
    // Long enough for the handshake on a busy machine.
    let limits = Limits { silence_max: SHORT * 10, ..Limits::default() };
    let entrance = house.open_with(&allow(&["a.example"]), limits);
    let root = &house.vouch.certificate;
    let mut stream = entrance.tls("a.example:443", "a.example", root).await.unwrap();
    let mut byte = [0];
    let ended = timeout(LONG, stream.read(&mut byte)).await.expect("it never ended");
    assert!(matches!(ended, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_head_that_trickles_ends_its_connection() {
    let house = House::new();
    let limits = Limits { idle_max: SHORT, ..Limits::default() };
    let entrance = house.open_with(&allow(&["a.example"]), limits);
    let mut stream = entrance.stream().await;
    let trickling = async {
        let mut byte = [0];
        loop {
            if stream.write_all(b"G").await.is_err() {
                return;
            }
            if let Ok(Ok(0) | Err(_)) = timeout(SHORT / 10, stream.read(&mut byte)).await {
                return;
            }
        }
    };
    timeout(LONG, trickling).await.expect("it never ended");
}

#[tokio::test]
async fn as_many_connections_as_may_be_and_no_more() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    let entrance = house.open(&allow(&["a.example"]));
    let mut streams = Vec::new();
    for _ in 0..Limits::default().connections_max {
        let mut stream = entrance.stream().await;
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert_eq!(status(&head(&mut stream).await), 200);
        streams.push(stream);
    }
    assert_eq!(streams.len(), 128);
    let mut late = entrance.stream().await;
    late.write_all(GET.as_bytes()).await.unwrap();
    let mut byte = [0];
    assert!(timeout(SHORT, late.read(&mut byte)).await.is_err(), "there is no place for it");
    drop(streams.pop());
    assert_eq!(status(&head(&mut late).await), 200);
}

#[tokio::test]
async fn doors_may_share_the_places_of_their_connections() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    let connections = Arc::new(Semaphore::new(1));
    let open = || {
        let options = Options { connections: Arc::clone(&connections), ..house.options() };
        house.try_open(&allow(&["a.example"]), options).unwrap()
    };
    let (one, other) = (open(), open());
    let mut first = one.stream().await;
    first.write_all(GET.as_bytes()).await.unwrap();
    assert_eq!(status(&head(&mut first).await), 200);
    let mut late = other.stream().await;
    late.write_all(GET.as_bytes()).await.unwrap();
    let mut byte = [0];
    assert!(timeout(SHORT, late.read(&mut byte)).await.is_err(), "there is no place for it");
    drop(first);
    assert_eq!(status(&head(&mut late).await), 200);
}

#[tokio::test]
async fn a_client_that_leaves_is_in_the_record() {
    let mut house = House::new();
    house
        .serve_raw("a.example", 80, |mut stream| async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
        })
        .await;
    let entrance = house.open(&allow(&["a.example"]));
    let mut stream = entrance.stream().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    super::house::eventually("a connection", || !house.dialled().is_empty()).await;
    drop(stream);
    let event = house.record.wait(1).await.remove(0);
    assert_eq!(event.refused.as_deref(), Some("it broke off before there was an answer"));
}

#[tokio::test]
async fn closing_ends_what_runs() {
    let mut house = House::new();
    house.serve_tls("a.example", fine).await;
    let entrance = house.open(&allow(&["a.example"]));
    let root = &house.vouch.certificate;
    let mut tunnel = entrance.tls("a.example:443", "a.example", root).await.unwrap();
    let mut idle = entrance.stream().await;
    timeout(LONG, entrance.door.close()).await.expect("it never closed");
    for ended in [tunnel.read_u8().await.is_err(), idle.read_u8().await.is_err()] {
        assert!(ended);
    }
}
