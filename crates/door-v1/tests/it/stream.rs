//! The event stream of one session.

use std::sync::atomic::Ordering;

use axum::body::Body;
use http::Method;
use protocol::EventBody;
use protocol::event::{
    ContextSet, Notice, NoticeLevel, SessionClosed, SessionEnd, TextDelta, UsageEvent,
};
use runtime_api::Runtime;
use serde_json::json;
use testkit::fake_handle::{FakeRuntime, Play};
use tokio::time::Instant;

use crate::house::{DOCUMENT, House, ID, at, fits, names, open_session, request};

pub(crate) fn text(text: &str) -> Play {
    TextDelta { text: text.to_owned() }.into()
}

pub(crate) fn notice(message: &str) -> Play {
    Notice { level: NoticeLevel::Info, code: None, message: message.to_owned() }.into()
}

pub(crate) fn usage() -> Play {
    let body = UsageEvent {
        usage: protocol::Usage::default(),
        cost_usd: Some(0.25),
        model: Some("a/b".to_owned()),
        purpose: None,
    };
    Play::Event(EventBody::Usage(body))
}

fn house() -> House {
    let turn = vec![notice("one"), text("a"), text("b"), notice("two"), usage()];
    House::new(FakeRuntime::new().session(open_session()).turn(turn))
}

async fn prompt(house: &House) {
    assert_eq!(house.post(&at("/prompt"), &json!({"text": "hi"})).await.status, 202);
}

#[tokio::test]
async fn a_live_viewer_sees_everything_from_now_on() {
    let house = house();
    let (mut one, mut two) =
        (house.stream(&at("/events"), None).await, house.stream(&at("/events"), None).await);
    prompt(&house).await;
    let seen = one.until("usage").await;
    assert_eq!(names(&seen), ["notice", "text_delta", "text_delta", "notice", "usage"]);
    assert_eq!(seen.iter().map(|it| it.id.unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(two.until("usage").await, seen);
    let schema = json!({"$ref": "#/components/schemas/SessionEvent"});
    for frame in &seen {
        assert_eq!(frame.data["sessionId"], ID);
        fits(&schema, &frame.data).unwrap();
    }
    assert_eq!(seen[1].data.get("seq"), None, "deltas are in no log");
}

#[tokio::test]
async fn an_id_replays_what_was_recorded_after_it() {
    let house = house();
    prompt(&house).await;
    for (path, last, expected) in [
        (at("/events?last_event_id=0"), None, vec![1, 4, 5]),
        (at("/events?last_event_id=1"), None, vec![4, 5]),
        (at("/events"), Some("4"), vec![5]),
        (at(&format!("/events?last_event_id={}", u64::MAX)), Some("1"), vec![4, 5]),
        // The header wins.
        (at("/events?last_event_id=0"), Some("4"), vec![5]),
    ] {
        let mut stream = house.stream(&path, last).await;
        let ids: Vec<_> = stream.until("usage").await.iter().map(|it| it.id.unwrap()).collect();
        assert_eq!(ids, expected, "{path} {last:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_session_is_closed() {
    let closed = SessionClosed { reason: SessionEnd::Deleted };
    let turn = vec![notice("one"), closed.into(), Play::EndStreams];
    let house = House::new(FakeRuntime::new().session(open_session()).turn(turn));
    let mut stream = house.stream(&at("/events"), None).await;
    prompt(&house).await;
    let seen = stream.rest().await;
    assert_eq!(names(&seen), ["notice", "session_closed"]);
    assert_eq!(seen[1].data["reason"], "deleted");
}

#[tokio::test]
async fn what_is_the_cores_own_is_not_shown() {
    let context = ContextSet { system: "You are…".to_owned() };
    let runtime = FakeRuntime::new().session(open_session()).turn(vec![context.into(), usage()]);
    let house = House::new(runtime);
    let mut stream = house.stream(&at("/events"), None).await;
    prompt(&house).await;
    assert_eq!(names(&stream.until("usage").await), ["usage"]);
    let replayed = house.stream(&at("/events"), Some("0")).await.until("usage").await;
    assert_eq!(names(&replayed), ["usage"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_leaves_sessions_the_time_to_say_goodbye() {
    let closed = SessionClosed { reason: SessionEnd::Shutdown };
    let turn = vec![closed.into(), Play::EndStreams];
    let house = House::new(FakeRuntime::new().session(open_session()).turn(turn));
    let mut polite = house.stream(&at("/events"), None).await;
    house.stopping.cancel();
    prompt(&house).await;
    let begin = Instant::now();
    assert_eq!(names(&polite.rest().await), ["session_closed"]);
    assert_eq!(begin.elapsed().as_secs(), 0);
    // One whose session says nothing ends all the same.
    let mut silent = house.stream(&at("/events"), None).await;
    assert!(silent.rest().await.is_empty());
    assert_eq!(begin.elapsed().as_secs(), 10);
    let mut all = house.stream("/v1/events", None).await;
    assert_eq!(names(&all.rest().await)[0], "snapshot_start");
    assert_eq!(begin.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn the_stream_over_all_ends_with_the_runtime() {
    for session in [Some(open_session()), None] {
        let is_open = session.is_some();
        let mut runtime = FakeRuntime::new();
        if let Some(session) = session {
            runtime = runtime.session(session);
        }
        let house = House::new(runtime);
        let mut stream = house.stream("/v1/events?topics=usage", None).await;
        stream.until("snapshot_end").await;
        let begin = Instant::now();
        house.stopping.cancel();
        house.runtime.shutdown().await;
        let rest = stream.rest().await;
        assert_eq!(begin.elapsed().as_millis(), 0, "it waited for the farewell to be over");
        assert_eq!(names(&rest), vec!["session_state"; usize::from(is_open)]);
        assert!(rest.iter().all(|it| it.data["reason"] == "shutdown"), "{rest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_end_once_their_token_is_revoked() {
    let house = house();
    let mut streams =
        [house.stream(&at("/events"), None).await, house.stream("/v1/events", None).await];
    streams[1].until("snapshot_end").await;
    let begin = Instant::now();
    tokio::time::advance(std::time::Duration::from_secs(20)).await;
    prompt(&house).await;
    for stream in &mut streams {
        stream.until("usage").await;
    }
    house.tokens.are_revoked.store(true, Ordering::Relaxed);
    for stream in &mut streams {
        stream.rest().await;
    }
    assert!(begin.elapsed().as_secs() <= 20 + 15, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn there_are_only_so_many_viewers() {
    let house = house();
    let mut streams = Vec::new();
    for _ in 0..1_024 {
        streams.push(house.stream(&at("/events"), None).await);
    }
    let one_more = || request(Method::GET, &at("/events")).body(Body::empty()).unwrap();
    let reply = house.ask(one_more()).await;
    assert_eq!(reply.code(), (429, "too_many_viewers".to_owned()));
    streams.pop();
    streams.push(house.stream(&at("/events"), None).await);
}

#[test]
fn the_document_says_what_a_gap_is() {
    let gap = json!({"type": "replay_gap", "from": 2, "to": 99, "dropped": 98});
    fits(&json!({"$ref": "#/components/schemas/SessionEvent"}), &gap).unwrap();
    assert!(
        DOCUMENT["components"]["schemas"]["ReplayGap"]["required"].as_array().unwrap().len() == 4
    );
}
