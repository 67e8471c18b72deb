//! The log: one line per request, and nothing that is nobody's business.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::client::{Client, PATIENCE, ask, json, request};
use crate::door::Door;

/// Keeps every event as a line: level, target, the spans it is in, its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lines: Vec<String>,
    spans: Vec<String>,
    inside: Vec<Id>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, data: &Metadata<'_>) -> bool {
        *data.level() <= tracing::Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut kept = self.0.lock().unwrap();
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        kept.spans.push(text);
        Id::from_u64(kept.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut kept = self.0.lock().unwrap();
        let mut line = format!("{} {}:", event.metadata().level(), event.metadata().target());
        for id in &kept.inside {
            let at = usize::try_from(id.into_u64()).unwrap() - 1;
            write!(line, " [{}]", kept.spans[at]).unwrap();
        }
        event.record(&mut Fields(&mut line));
        kept.lines.push(line);
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().inside.push(span.clone());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().inside.pop();
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines.clone()
    }

    /// The lines of the access log, once there are so many.
    async fn access(&self, wanted: usize) -> Vec<String> {
        let begun = tokio::time::Instant::now();
        loop {
            let lines: Vec<String> =
                self.lines().into_iter().filter(|line| line.contains(" access:")).collect();
            if lines.len() >= wanted {
                return lines;
            }
            assert!(begun.elapsed() < PATIENCE, "{lines:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// The tests run on one thread each, so the log of a thread is the log of a test.
fn listen() -> (Log, DefaultGuard) {
    let log = Log::default();
    (log.clone(), tracing::subscriber::set_default(log))
}

#[tokio::test]
async fn a_request_has_one_line_without_its_secrets() {
    let (log, _guard) = listen();
    let door = Door::open().await;
    let raw = request("GET /v1/things/s3ssion?last_event_id=s3cret", "x-request-id: q1\r\n", "");
    assert_eq!(ask(door.address, raw).await.status, 200);
    let lines = log.access(1).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [
        "INFO",
        "access:",
        "method=GET",
        "path=/v1/things/{id}",
        "status=200",
        "body_bytes=2",
        "request=q1",
        "caller=\"owner\"",
        "took_ms=",
    ] {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
    assert!(!lines[0].contains("secret") && !lines[0].contains("s3"), "{}", lines[0]);
}

#[tokio::test]
async fn refusals_and_unknown_paths_are_logged() {
    let (log, _guard) = listen();
    let door = Door::open().await;
    ask(door.address, "GET /v1/things HTTP/1.1\r\nhost: x.example\r\n\r\n").await;
    ask(door.address, "GET /v1/things HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    ask(door.address, request("GET /nowhere?q=s3cret", "", "")).await;
    ask(door.address, json("POST /v1/things", r#"{"name":"s3cret","x":1}"#)).await;
    let lines = log.access(4).await;
    for (line, parts) in lines.iter().zip([
        ["status=403", "caller=\"-\"", "path=/v1/things"],
        ["status=401", "caller=\"-\"", "path=/v1/things"],
        ["status=404", "caller=\"owner\"", "path=/nowhere"],
        ["status=400", "caller=\"owner\"", "method=POST"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    assert!(!log.lines().concat().contains("s3cret"));
}

#[tokio::test]
async fn a_stream_is_logged_when_it_ends() {
    let (log, _guard) = listen();
    let door = Door::open().await;
    let mut viewer = Client::connect(door.address).await;
    viewer.send(request("GET /v1/stream", "", "")).await;
    viewer.until("hello").await;
    assert!(log.lines().iter().all(|line| !line.contains(" access:")));
    drop(viewer);
    let lines = log.access(1).await;
    assert!(lines[0].contains("status=200") && lines[0].contains("/v1/stream"), "{}", lines[0]);
    assert!(!lines[0].contains("body_bytes=0"), "{}", lines[0]);
}

#[tokio::test]
async fn a_client_that_left_and_a_handler_that_panicked_are_logged() {
    let (log, _guard) = listen();
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    client.send(request("GET /v1/wait", "", "")).await;
    door.live(1).await;
    drop(client);
    assert!(log.access(1).await[0].contains("status=499"));
    ask(door.address, request("GET /v1/panic", "x-request-id: p1\r\n", "")).await;
    assert!(log.access(2).await[1].contains("status=500"));
    let said = log.lines().into_iter().find(|line| line.contains("ERROR")).unwrap();
    assert!(said.contains("the secret reason") && said.contains("id=p1"), "{said}");
}
