//! Sizes and times end where they should.

use std::time::{Duration, Instant};

use outbound::{Client, Error, Limits, Options, Part, Wait};

use crate::net::{Answer, Net, PUBLIC, now, ok};

const PAUSE: Duration = Duration::from_millis(150);

async fn net(answer: Answer) -> Net {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", answer).await;
    net.names.add("a.example", &[&[PUBLIC]]);
    net
}

async fn fetch(answer: Answer) -> Result<Vec<u8>, Error> {
    let net = net(answer).await;
    net.client().get("http://a.example/").send().await?.bytes().await
}

fn too_large(part: Part, limit_bytes: u64) -> Result<Vec<u8>, Error> {
    Err(Error::TooLarge { place: "a.example:80".to_owned(), part, limit_bytes })
}

fn late(wait: Wait, limit: u64) -> Result<Vec<u8>, Error> {
    let limit = Duration::from_millis(limit);
    Err(Error::Timeout { place: "a.example:80".to_owned(), wait, limit })
}

#[tokio::test]
async fn a_body_may_be_as_large_as_its_limit_and_no_larger() {
    assert_eq!(fetch(|_| ok(&"x".repeat(1_000))).await.unwrap().len(), 1_000);
    assert_eq!(fetch(|_| ok(&"x".repeat(1_001))).await, too_large(Part::Body, 1_000));
    let unsaid = fetch(|_| {
        now(&format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(100_000)))
    });
    assert_eq!(unsaid.await, too_large(Part::Body, 1_000));
}

#[tokio::test]
async fn an_endless_body_gives_its_start_and_ends() {
    let net = net(|_| {
        let mut pieces = now("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = format!("190\r\n{}\r\n", "x".repeat(400)).into_bytes();
        pieces.extend((0..100_000).map(|_| (Duration::ZERO, chunk.clone())));
        pieces
    })
    .await;
    let mut response = net.client().get("http://a.example/").send().await.unwrap();
    let mut start = 0;
    let end = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => start += bytes.len(),
            other => break other,
        }
    };
    assert_eq!(start, 1_000);
    assert!(matches!(end, Err(Error::TooLarge { part: Part::Body, .. })), "{end:?}");
}

#[tokio::test]
async fn huge_and_many_headers_are_refused() {
    let huge = fetch(|_| now(&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))));
    assert_eq!(huge.await, too_large(Part::Headers, 64 << 10));
    let many = fetch(|_| {
        let lines: String = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect();
        now(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"))
    });
    assert_eq!(many.await, too_large(Part::Headers, 64 << 10));
}

#[tokio::test]
async fn a_request_body_has_its_limit() {
    let net = net(|_| ok("x")).await;
    let client = net.client();
    assert!(client.post("http://a.example/", vec![b'x'; 100]).send().await.is_ok());
    let sent = client.post("http://a.example/", vec![b'x'; 101]).send().await;
    let error = sent.unwrap_err().to_string();
    assert_eq!(error, "a.example:80: the body of the request has more than the limit of 100 B");
    assert_eq!(net.dialled().len(), 1);
}

#[tokio::test]
async fn compressed_bodies_are_refused() {
    let bomb =
        fetch(|_| now("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx"));
    let error = bomb.await.unwrap_err().to_string();
    assert_eq!(
        error,
        "a.example:80 sent a body in the encoding \"gzip\", though it was asked for a plain one"
    );
}

#[tokio::test]
async fn silence_before_an_answer_ends() {
    assert_eq!(fetch(|_| vec![(Duration::from_secs(60), vec![])]).await, late(Wait::Answer, 400));
    // A head that trickles in is no answer either.
    let trickle = fetch(|_| {
        let line = b"HTTP/1.1 200 OK\r\n".to_vec();
        std::iter::once((PAUSE, line)).chain((0..99).map(|_| (PAUSE, b"x".to_vec()))).collect()
    });
    assert_eq!(trickle.await, late(Wait::Answer, 400));
}

#[tokio::test]
async fn silence_within_a_body_ends() {
    let silent = fetch(|_| {
        let mut pieces = now("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx");
        pieces.push((Duration::from_secs(60), b"x".to_vec()));
        pieces
    });
    assert_eq!(silent.await, late(Wait::Body, 200));
}

#[tokio::test]
async fn a_body_that_trickles_ends_with_the_whole() {
    let begun = Instant::now();
    let slow = fetch(|_| {
        let mut pieces = now("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n");
        pieces.extend((0..900).map(|_| (PAUSE, b"x".to_vec())));
        pieces
    });
    assert_eq!(slow.await, late(Wait::Whole, 1_500));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_connection_has_its_time() {
    #[derive(Debug)]
    struct Never;
    #[async_trait::async_trait]
    impl outbound::Resolve for Never {
        async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
            std::future::pending().await
        }
    }
    let limits = Limits { connect_timeout: Duration::from_millis(50), ..Limits::default() };
    let options = Options { limits, resolver: std::sync::Arc::new(Never), ..Options::default() };
    let sent = Client::new(options).unwrap().get("http://a.example/").send().await;
    assert_eq!(sent.unwrap_err().to_string(), "a.example:80: connecting took longer than 50ms");
}

#[tokio::test]
async fn dropping_a_request_ends_its_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let options = Options { allow: vec![place.to_string().parse().unwrap()], ..Options::default() };
    let client = Client::new(options).unwrap();
    let url = format!("http://{place}/");
    let mut stream = tokio::select! {
        _ = client.get(&url).send() => panic!("nobody answers"),
        accepted = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 16];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut head).await.unwrap();
            stream
        } => accepted,
    };
    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
    let ended = tokio::time::timeout(Duration::from_secs(5), ended).await;
    assert!(ended.is_ok(), "the connection must end");
}

#[tokio::test]
async fn the_heads_of_answers_to_head_requests_have_no_body() {
    let net = net(|_| now("HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")).await;
    let response = net.client().head("http://a.example/").send().await.unwrap();
    assert_eq!(response.headers()["content-length"], "5000");
    assert_eq!(response.bytes().await, Ok(Vec::new()));
}
