//! Spans on their way to a collector.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails here"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use driver_api::Observer as _;
use protocol::event::{PromptFinished, PromptStarted, TurnResult};
use protocol::{
    Block, Event, EventBody, FrameId, MessageId, PromptId, SessionId, Timestamp, TurnEnd, Usage,
};
use stdx::Secret;
use telemetry::{Meter, Telemetry, TraceOptions, Traces};

/// Takes one request and hands it out.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut piece = [0; 4096];
        while !is_whole(&got) {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the request broke off: {}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&piece[..read]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).unwrap();
        sender.send(got).unwrap();
    });
    (address, receiver)
}

fn is_whole(got: &[u8]) -> bool {
    let text = String::from_utf8_lossy(got).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().trim().parse().unwrap();
    let begin = got.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    got.len() >= begin + length
}

fn options(endpoint: String) -> TraceOptions {
    TraceOptions {
        endpoint,
        headers: vec![("authorization".to_owned(), Secret::new("Bearer abc".to_owned()))],
        service_name: "narthex".to_owned(),
        version: "1.2.3".to_owned(),
    }
}

fn turn(telemetry: &Telemetry) {
    let tell = |ts: i64, body: EventBody| {
        let session_id = SessionId::new("s1");
        let ts = Timestamp(1_796_000_000_000 + ts);
        telemetry.saw(&Event { body, session_id, seq: None, frame: FrameId(1), ts });
    };
    let prompt_id = PromptId::new("p1");
    let started = PromptStarted {
        prompt_id: prompt_id.clone(),
        message_id: MessageId::new("m1"),
        content: vec![Block::text("the words of a person")],
        max_turns: None,
        command: None,
        options: Default::default(),
    };
    tell(0, started.into());
    let result = TurnResult {
        reason: TurnEnd::Completed,
        code: None,
        message: None,
        usage: Usage::default(),
        cost_usd: None,
        turns: 0,
        duration_ms: 5,
        text: String::new(),
        unanswered: 0,
        structured: None,
    };
    tell(5, PromptFinished { prompt_id, result }.into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn spans_reach_a_collector_with_the_headers_of_the_settings() {
    let (address, requests) = collector();
    let runtime = tokio::runtime::Handle::current();
    let traces = Traces::start(options(address), runtime).unwrap();
    turn(&Telemetry::new(Arc::new(Meter::new("1.2.3")), Some(traces.clone())));
    let finish = move || traces.finish(Duration::from_secs(10));
    tokio::task::spawn_blocking(finish).await.unwrap();
    let got = requests.recv_timeout(Duration::from_secs(10)).unwrap();
    let text = String::from_utf8_lossy(&got);
    assert!(text.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{text}");
    let text = text.to_ascii_lowercase();
    assert!(text.contains("content-type: application/x-protobuf"), "{text}");
    assert!(text.contains("authorization: bearer abc"), "{text}");
    assert!(text.contains("invoke_agent narthex"), "{text}");
    assert!(!text.contains("the words of a person"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_collector_that_is_away_costs_spans_alone() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let runtime = tokio::runtime::Handle::current();
    let traces = Traces::start(options(format!("http://{free}")), runtime).unwrap();
    turn(&Telemetry::new(Arc::new(Meter::new("1.2.3")), Some(traces.clone())));
    let finish = move || traces.finish(Duration::from_secs(10));
    tokio::task::spawn_blocking(finish).await.unwrap();
}
