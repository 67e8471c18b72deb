//! E4: readers that do not read.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;
use testkit::model_server::Answer;

use super::client::{Next, Seen};
use super::measure;
use super::stand::Stand;

/// Bytes that the turn shows.
const SHOWN_BYTES: u64 = 24 << 20;

/// Viewers that read nothing.
const DEAF: u64 = 20;

/// By how many bytes the server may grow for them beside what the turn itself takes: the ring that
/// they share has 4 MiB, each may have half a MiB on its way, and the allocator keeps some.
const GROWN_BYTES_MAX: u64 = (4 << 20) + (DEAF + 1) * (512 << 10) + (4 << 20);

#[test]
fn e4_readers_that_do_not_read_cost_a_bounded_memory_and_hold_nothing_up() {
    let stand = Stand::start(&["--mode", "full-auto"]);
    let line = "x".repeat(99);
    let command = format!("yes {line} | head -c {SHOWN_BYTES}");
    stand.script(move |prompt, results| match (prompt, results) {
        ("loud", 0) => Answer::call("run_shell", json!({"command": command})),
        _ => Answer::text("Done."),
    });
    let api = stand.api();
    let session = api.create();
    // What the turn itself takes, with a viewer that reads.
    let mut live = api.stream(&session, None);
    api.prompt(&session, "loud");
    live.until(|frame| frame.is("prompt_finished"));
    drop(live);
    let from = api.session(&session)["lastEventId"].as_u64().unwrap();
    let before = measure::peak(stand.server.id);
    let mut stalled = api.stream(&session, Some(from));
    let _deaf: Vec<TcpStream> = (0..DEAF)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", api.port)).unwrap();
            let head = format!(
                "GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\
                 authorization: Bearer {}\r\n\r\n",
                api.token
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    api.prompt(&session, "loud");
    api.wait_for_state(&session, "idle");
    // Nobody holds the turn up.
    let grown = measure::peak(stand.server.id).saturating_sub(before);
    assert!(grown < GROWN_BYTES_MAX, "the server grew by {} KiB", grown / 1024);
    // The one that reads on late gets every recorded event.
    let mut seen = Seen::after(from);
    loop {
        match stalled.next() {
            Next::Frame(frame) => {
                let is_last = frame.is("prompt_finished");
                seen.take(frame);
                if is_last {
                    break;
                }
            }
            other => panic!("{other:?} behind {}", seen.last),
        }
    }
    let log = api.stream(&session, Some(from)).until(|frame| frame.is("prompt_finished"));
    assert_eq!(seen.recorded, log);
    // What it missed was live only, and the ids tell that there was more.
    let shown: usize = seen.deltas.iter().map(|it| it.data["text"].as_str().unwrap().len()).sum();
    let frames = (seen.recorded.len() + seen.deltas.len()) as u64;
    assert!((shown as u64) < SHOWN_BYTES, "so much does not fit into what is kept for it");
    assert!(seen.last - from > frames, "{frames} frames of {}", seen.last - from);
}
