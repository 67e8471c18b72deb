//! Frames, joined writes, and heartbeats on virtual time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::{HEARTBEAT, WRITE_BYTES_MAX, frame, response, response_every, response_with};

fn text(frame: &Bytes) -> &str {
    std::str::from_utf8(frame).unwrap()
}

async fn write(body: &mut axum::body::Body) -> Option<Bytes> {
    Some(body.frame().await?.unwrap().into_data().unwrap())
}

#[test]
fn a_frame_has_id_event_and_data() {
    let plain = frame(Some("7"), "text_delta", r#"{"text":"hi"}"#);
    assert_eq!(text(&plain), "id: 7\nevent: text_delta\ndata: {\"text\":\"hi\"}\n\n");
    assert_eq!(text(&frame(None, "gap", "{}")), "event: gap\ndata: {}\n\n");
    assert_eq!(text(&frame(None, "e", "a\r\nb\nc")), "event: e\ndata: a\ndata: b\ndata: c\n\n");
}

#[test]
fn no_field_can_open_another() {
    let sneaky = frame(Some("1\ndata: x"), "e\r\nid: 9\0", "a\rid: 3");
    assert_eq!(text(&sneaky), "id: 1data: x\nevent: eid: 9\ndata: aid: 3\n\n");
}

#[test]
fn the_headers_keep_proxies_from_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let response = response(stream::pending());
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("x-accel-buffering"), "no");
}

#[tokio::test(start_paused = true)]
async fn what_waits_goes_out_in_one_write_of_limited_size() {
    let piece = Bytes::from(vec![b'x'; 20 * 1024]);
    let frames = stream::iter(vec![piece.clone(); 7]).chain(stream::pending());
    let mut body = response(frames).into_body();
    let three = write(&mut body).await.unwrap().len();
    assert!(three <= WRITE_BYTES_MAX && three + piece.len() > WRITE_BYTES_MAX, "{three}");
    assert_eq!(write(&mut body).await.unwrap().len(), three);
    assert_eq!(write(&mut body).await.unwrap().len(), piece.len());
    assert_eq!(write(&mut body).await.unwrap(), HEARTBEAT, "nothing is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_limit_goes_out_whole_and_uncopied() {
    let huge = Bytes::from(vec![b'y'; 3 * WRITE_BYTES_MAX]);
    let small = Bytes::from_static(b"small");
    let frames = stream::iter([small.clone(), huge.clone(), small.clone()]);
    let mut body = response(frames).into_body();
    assert_eq!(write(&mut body).await.unwrap(), small);
    let sent = write(&mut body).await.unwrap();
    assert_eq!(sent.as_ptr(), huge.as_ptr());
    assert_eq!(sent.len(), huge.len());
    assert_eq!(write(&mut body).await.unwrap(), small);
    assert_eq!(write(&mut body).await, None, "the stream ends with its source");
}

#[tokio::test(start_paused = true)]
async fn a_door_may_have_a_heartbeat_of_its_own() {
    let own = b": keepalive\n\n";
    let mut body = response_with(stream::pending(), own).into_body();
    assert_eq!(write(&mut body).await.unwrap(), own.as_slice());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_in_silence() {
    let begun = Instant::now();
    let mut body = response(stream::pending()).into_body();
    for beat in 1..=3 {
        assert_eq!(write(&mut body).await.unwrap(), HEARTBEAT);
        assert_eq!(begun.elapsed().as_secs(), 15 * beat);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_come_on_a_busy_stream_too() {
    let begun = Instant::now();
    let frames = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Some((Bytes::from_static(b"event"), ()))
    });
    let mut body = response_every(frames, Duration::from_secs(10)).into_body();
    let mut beats = Vec::new();
    while begun.elapsed() < Duration::from_secs(60) {
        if write(&mut body).await.unwrap().starts_with(HEARTBEAT) {
            beats.push(begun.elapsed().as_secs());
        }
    }
    assert_eq!(beats, [10, 20, 30, 40, 50, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_does_not_read_collects_no_heartbeats() {
    let mut body = response(stream::pending()).into_body();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(write(&mut body).await.unwrap(), HEARTBEAT);
    let next = tokio::time::timeout(Duration::from_secs(14), write(&mut body)).await;
    assert!(next.is_err(), "one heartbeat, not forty");
}
