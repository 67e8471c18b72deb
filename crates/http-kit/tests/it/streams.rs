//! Event streams over sockets that go away in every way there is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_kit::ServerOptions;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use crate::client::{Client, PATIENCE, request};
use crate::door::Door;

async fn viewer(door: &Door) -> Client {
    let mut viewer = Client::connect(door.address).await;
    viewer.send(request("GET /v1/stream", "", "")).await;
    let head = viewer.stream_head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    viewer.until("id: 1\nevent: hello\ndata: {}\n\n").await;
    viewer
}

async fn no_socket_left(door: &Door) {
    let begun = Instant::now();
    while !door.sockets().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", door.sockets());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn headers_leave_before_the_first_event_and_heartbeats_follow() {
    let door = Door::open().await;
    let mut viewer = viewer(&door).await;
    viewer.until(": heartbeat\n\n").await;
}

#[tokio::test]
async fn a_viewer_that_leaves_ends_its_stream() {
    let door = Door::open().await;
    let viewer = viewer(&door).await;
    door.live(1).await;
    drop(viewer);
    door.live(0).await;
    no_socket_left(&door).await;
}

#[tokio::test]
async fn a_viewer_that_resets_ends_its_stream() {
    let door = Door::open().await;
    let viewer = viewer(&door).await;
    socket2::SockRef::from(&viewer.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(viewer);
    door.live(0).await;
    no_socket_left(&door).await;
}

#[tokio::test]
async fn a_half_closed_viewer_is_let_go_at_once() {
    let door = Door::open().await;
    let mut viewer = viewer(&door).await;
    viewer.stream.shutdown().await.unwrap();
    door.live(0).await;
    viewer.end().await;
    drop(viewer);
    no_socket_left(&door).await;
}

#[tokio::test]
async fn a_client_that_leaves_a_waiting_request_frees_it() {
    let door = Door::open().await;
    let mut client = Client::connect(door.address).await;
    client.send(request("GET /v1/wait", "", "")).await;
    door.live(1).await;
    drop(client);
    door.live(0).await;
}

#[tokio::test]
async fn a_viewer_that_takes_nothing_is_cut_and_cost_little() {
    let stall_max = Duration::from_millis(300);
    let options = ServerOptions { stall_max, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let mut viewer = Client::connect_narrow(door.address).await;
    viewer.send(request("GET /v1/flood", "", "")).await;
    door.live(1).await;
    let begun = Instant::now();
    door.live(0).await;
    assert!(begun.elapsed() >= stall_max);
    let handed_out = door.inside.pieces.load(Ordering::Relaxed) * 64 * 1024;
    assert!(handed_out < 2 * 1024 * 1024, "{handed_out} bytes were taken for nobody");
    viewer.end().await;
    drop(viewer);
    no_socket_left(&door).await;
}

#[tokio::test]
async fn a_narrow_viewer_that_reads_steadily_is_kept() {
    let stall_max = Duration::from_millis(1_500);
    let options = ServerOptions { stall_max, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let mut viewer = Client::connect_narrow_and_far(door.address).await;
    viewer.send(request("GET /v1/flood", "", "")).await;
    let begun = Instant::now();
    let mut taken = 0;
    // Sixteen kilobytes within a stall: far less than a third of what the system may hold.
    while begun.elapsed() < stall_max * 3 {
        let mut piece = vec![0; 1024];
        let read = tokio::io::AsyncReadExt::read(&mut viewer.stream, &mut piece).await;
        taken +=
            read.unwrap_or_else(|error| panic!("{error} after {taken}, {:?}", begun.elapsed()));
        sleep(Duration::from_millis(90)).await;
    }
    assert_eq!(*door.inside.live.borrow(), 1, "after {taken} bytes");
}

#[tokio::test]
async fn a_viewer_that_reads_on_is_kept() {
    let stall_max = Duration::from_millis(800);
    let options = ServerOptions { stall_max, ..ServerOptions::default() };
    let door = Door::with(options, |_| {}).await;
    let mut viewer = Client::connect(door.address).await;
    viewer.send(request("GET /v1/flood", "", "")).await;
    let begun = Instant::now();
    let mut taken = 0;
    while begun.elapsed() < stall_max * 3 {
        let mut piece = vec![0; 512 * 1024];
        taken += tokio::io::AsyncReadExt::read(&mut viewer.stream, &mut piece).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(*door.inside.live.borrow(), 1, "after {taken} bytes");
}
