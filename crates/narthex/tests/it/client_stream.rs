//! The event stream of a session, over connections that break in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use narthex::client::{ClientError, EventFeed, RemoteEvent, ServerEvent};
use serde_json::{Value, json};

use crate::scripted_http::{Piece, Reply, Server, frame, session};
use crate::stand::soon;

const LAST: u64 = 4;

fn text(id: u64) -> Value {
    json!({"type": "text_delta", "text": format!("ä{id}"), "sessionId": "s1",
           "ts": "2026-12-01T08:00:00.000Z"})
}

fn closed() -> Value {
    json!({"type": "session_closed", "reason": "deleted", "sessionId": "s1",
           "ts": "2026-12-01T08:00:00.000Z"})
}

/// The whole stream after an event: four deltas and the end, with heartbeats between.
fn stream_after(id: u64) -> String {
    let mut stream = String::from(": heartbeat\n\n");
    for id in id + 1..=LAST {
        stream.push_str(&frame(id, &text(id)));
        stream.push_str(": heartbeat\n\n");
    }
    stream.push_str(&frame(LAST + 1, &closed()));
    stream
}

async fn all(mut feed: EventFeed) -> (Vec<RemoteEvent>, Option<ClientError>) {
    let mut events = Vec::new();
    while let Some(event) = soon("an event", feed.next()).await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(soon("the end", feed.next()).await.is_none(), "an error is the last item");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

fn ids(events: &[RemoteEvent]) -> Vec<Option<u64>> {
    events.iter().map(|event| event.id).collect()
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_goes_on_where_it_was() {
    let whole = stream_after(0);
    let cut = Arc::new(AtomicUsize::new(0));
    let at = Arc::clone(&cut);
    let server = Server::start(move |request| {
        let (cut, last) = (at.swap(usize::MAX, Ordering::SeqCst), request.last_event_id());
        if cut == usize::MAX {
            // A server that sends one event too many is put up with.
            return Reply::events(vec![Piece::Send(stream_after(last.unwrap().saturating_sub(1)))]);
        }
        assert_eq!(last, Some(0));
        let first = stream_after(0).as_bytes()[..cut].to_vec();
        let pieces = vec![Piece::Send(String::from_utf8(first).unwrap())];
        Reply::events(pieces)
    });
    let server = server.await;
    let client = server.client();
    for length in 0..whole.len() {
        // A piece is a text here, and so ends with a letter.
        if !whole.is_char_boundary(length) {
            continue;
        }
        cut.store(length, Ordering::SeqCst);
        let (events, error) = all(client.session("s1").events_after(0)).await;
        assert!(error.is_none(), "cut at {length}: {error:?}");
        let expected: Vec<Option<u64>> = (1..=LAST + 1).map(Some).collect();
        assert_eq!(ids(&events), expected, "cut at {length}");
        let said: Vec<&str> = events.iter().filter_map(|event| event.body.text_delta()).collect();
        assert_eq!(said, ["ä1", "ä2", "ä3", "ä4"], "cut at {length}");
    }
}

#[tokio::test]
async fn a_gap_is_shown_and_what_is_not_known_passes_through() {
    let server = Server::start(|request| {
        assert_eq!(request.header("authorization"), Some("Bearer the-token"));
        assert_eq!(request.last_event_id(), Some(0));
        let gap = json!({"type": "replay_gap", "from": 1, "to": 7, "dropped": 7});
        let future = json!({"type": "mood_changed", "mood": "merry"});
        let stream = format!(
            "event: replay_gap\ndata: {gap}\n\n{}{}",
            frame(8, &future),
            frame(9, &closed())
        );
        Reply::events(vec![Piece::Send(stream)])
    });
    let server = server.await;
    let (events, error) = all(server.client().session("s1").events_after(0)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [None, Some(8), Some(9)]);
    let gap = ServerEvent::ReplayGap { from: Some(1), to: Some(7), dropped: Some(7) };
    assert_eq!(events[0].body, gap);
    let ServerEvent::Other { kind, raw } = &events[1].body else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), &raw["mood"]), ("mood_changed", &json!("merry")));
    assert_eq!(server.requests().len(), 1, "a session that was deleted is not looked for");
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::error(503, "shutting_down").header("retry-after: 1"),
        1 => Reply::error(502, ""),
        _ => Reply::events(vec![Piece::Send(stream_after(0))]),
    });
    let server = server.await;
    let start = Instant::now();
    let (events, error) = all(server.client().session("s1").events_after(0)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!((events.len(), server.requests().len()), (5, 3));
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_opened_again_and_a_heartbeat_keeps_it() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            assert_eq!(request.last_event_id(), Some(2));
            return Reply::events(vec![Piece::Send(stream_after(2))]);
        }
        let mut pieces = vec![Piece::Send(frame(1, &text(1)))];
        for _ in 0..6 {
            pieces.push(Piece::Wait(Duration::from_millis(100)));
            pieces.push(Piece::Send(": heartbeat\n\n".to_owned()));
        }
        pieces.push(Piece::Send(frame(2, &text(2))));
        pieces.push(Piece::Hold);
        Reply::events(pieces)
    });
    let server = server.await;
    let client = server.client_with(|options| options.silence_timeout = Duration::from_millis(400));
    let (events, error) = all(client.session("s1").events_after(0)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [1, 2, 3, 4, 5].map(Some));
    assert_eq!(server.requests().len(), 2, "heartbeats kept the first connection");
}

#[tokio::test]
async fn a_no_of_the_server_ends_the_stream() {
    for (status, code) in [(401, "unauthorized"), (404, "session_not_found"), (403, "x")] {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::events(vec![Piece::Send(frame(1, &text(1)))]),
            _ => Reply::error(status, code),
        });
        let server = server.await;
        let (events, error) = all(server.client().session("s1").events_after(0)).await;
        let error = error.unwrap();
        assert_eq!((events.len(), error.status(), error.code()), (1, Some(status), Some(code)));
        assert_eq!(server.requests().len(), 2, "{status} is not asked twice");
    }
}

#[tokio::test]
async fn a_server_that_does_not_come_back_is_given_up() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::events(vec![Piece::Send(frame(1, &text(1)))]),
        _ => Reply::nothing(),
    });
    let server = server.await;
    let client = server.client_with(|options| options.give_up_after = Duration::from_millis(200));
    let start = Instant::now();
    let (events, error) = all(client.session("s1").events_after(0)).await;
    assert_eq!(events.len(), 1);
    assert!(matches!(error, Some(ClientError::Network(_))), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(server.requests().len() > 10, "it was tried again and again");
}

#[tokio::test]
async fn what_is_no_event_stream_is_told_at_once() {
    let page = Server::start(|_| Reply::json(200, &json!({}))).await;
    let (_, error) = all(page.client().session("s1").events_after(0)).await;
    let error = error.unwrap().to_string();
    assert_eq!(error, "expected an event stream, got 'application/json'");
}

#[tokio::test]
async fn a_server_that_stops_is_waited_for() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| match count.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let mut stopping = closed();
            stopping["reason"] = json!("shutdown");
            Reply::events(vec![Piece::Send(frame(1, &stopping))])
        }
        1 => Reply::nothing(),
        _ => {
            assert_eq!(request.last_event_id(), Some(1));
            Reply::events(vec![Piece::Send(stream_after(1))])
        }
    });
    let server = server.await;
    let (events, error) = all(server.client().session("s1").events_after(0)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [1, 2, 3, 4, 5].map(Some));
}

#[tokio::test]
async fn the_end_of_a_former_life_in_a_replay_is_no_end() {
    let server = Server::start(|request| match request.last_event_id() {
        // It is the last one that is kept, and its connection stays.
        Some(0) => Reply::events(vec![
            Piece::Send(frame(1, &closed())),
            Piece::Wait(Duration::from_millis(20)),
            Piece::Send(frame(2, &text(2))),
        ]),
        last => {
            assert_eq!(last, Some(2));
            Reply::events(vec![Piece::Send(stream_after(2))])
        }
    });
    let server = server.await;
    let (events, error) = all(server.client().session("s1").events_after(0)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [1, 2, 3, 4, 5].map(Some));
}

#[tokio::test]
async fn an_event_that_is_no_json_is_asked_for_once_more() {
    for is_mended in [true, false] {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |request| {
            let broken = format!("{}id: 2\ndata: {{broken\n\n", frame(1, &text(1)));
            match count.fetch_add(1, Ordering::SeqCst) {
                0 => Reply::events(vec![Piece::Send(broken), Piece::Hold]),
                _ => {
                    assert_eq!(request.last_event_id(), Some(1), "from the event before");
                    let again = if is_mended { stream_after(1) } else { broken };
                    Reply::events(vec![Piece::Send(again), Piece::Hold])
                }
            }
        });
        let server = server.await;
        let mut feed = server.client().session("s1").events_after(0);
        let first = soon("an event", feed.next()).await.unwrap().unwrap();
        assert_eq!(first.id, Some(1));
        let second = soon("the next", feed.next()).await.unwrap();
        match is_mended {
            true => assert_eq!(second.unwrap().id, Some(2)),
            false => {
                assert!(matches!(second, Err(ClientError::Protocol(_))), "{second:?}");
                assert!(feed.next().await.is_none());
            }
        }
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn what_happens_before_the_first_connection_stands_is_not_lost() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.line().as_str() {
        "GET /sessions/s1" => Reply::json(200, &session(2, "running")),
        _ => match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::nothing(),
            _ => {
                assert_eq!(request.last_event_id(), Some(2), "as it was at the first opening");
                Reply::events(vec![Piece::Send(stream_after(2))])
            }
        },
    });
    let server = server.await;
    let (events, error) = all(server.client().session("s1").events()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [3, 4, 5].map(Some));
    let lookups = server.lines().iter().filter(|line| *line == "GET /sessions/s1").count();
    assert_eq!(lookups, 1);
}
