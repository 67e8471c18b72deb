//! The record as a stream.

use std::time::Duration;

use protocol::{RefusalCode, RequestId, SessionId, TurnEnd};
use runtime_api::{Runtime, SessionInfo};
use serde_json::json;
use testkit::fake_handle::{FakeRuntime, Play};
use testkit::fake_neurons::{FakeNeurons, neuron_info};

use crate::house::{CORE, House, ID, Setting, names, numbers, open_session, refused};
use crate::play;

fn two_runs() -> House {
    let runtime = FakeRuntime::new().session(open_session());
    House::new(runtime.turn(play::plain(1, "one")).turn(play::plain(2, "two")))
}

async fn run(house: &House) {
    let path = format!("/sessions/{ID}/message");
    assert_eq!(house.post(&path, &json!({"message": "hi"})).await.status, 200);
}

#[tokio::test]
async fn a_replay_begins_where_it_is_asked_to() {
    let house = two_runs();
    let live = house.run("hi").await.rest().await;
    for (query, last, expected) in [
        ("?after=0", None, vec![1, 2, 3, 4]),
        ("?after=3", None, vec![4]),
        ("", Some("2"), vec![3, 4]),
        // The header wins: a client that connects anew keeps its address.
        ("?after=0", Some("3"), vec![4]),
    ] {
        let seen = house.events(query, last).await.until("run_complete").await;
        assert_eq!(numbers(&seen), expected, "{query} {last:?}");
        let recorded: Vec<_> = live.iter().filter(|it| it.id >= Some(expected[0])).collect();
        assert_eq!(seen.iter().collect::<Vec<_>>(), recorded, "as it was live, without deltas");
    }
}

#[tokio::test]
async fn without_a_place_a_stream_is_live_only() {
    let house = two_runs();
    run(&house).await;
    let mut far = house.events("?after=99", None).await;
    let mut viewer = house.events("", None).await;
    run(&house).await;
    for stream in [&mut viewer, &mut far] {
        let seen = stream.until("run_complete").await;
        let expected = ["run_start", "turn_start", "text_delta", "text", "run_complete"];
        assert_eq!(names(&seen), expected);
        assert_eq!(numbers(&seen), [5, 6, 7, 8]);
    }
}

#[tokio::test]
async fn a_replay_meets_what_is_live_without_gap_or_repeat() {
    let mut turn = play::begin(1, "hi");
    turn.push(play::delta("one "));
    turn.push(Play::UntilAnswer(RequestId::new("r")));
    turn.extend(play::says("one two"));
    turn.extend(play::ends(1, &play::result(TurnEnd::Completed, "one two")));
    let runtime = FakeRuntime::new().session(open_session()).turn(turn);
    let house = House::new(runtime.turn(play::plain(2, "x")));
    let mut own = house.run("hi").await;
    own.until("text_delta").await;
    let mut early = house.events("?after=0", None).await;
    let seen = early.until("turn_start").await;
    assert_eq!(numbers(&seen), [1, 2], "what is recorded of the run that goes on");
    let late = house.events("?after=1", None).await;
    let path = format!("/sessions/{ID}/approvals/apr-r");
    assert_eq!(house.post(&path, &json!({"decision": "allow"})).await.status, 200);
    assert_eq!(numbers(&own.rest().await), [3, 4]);
    run(&house).await;
    for (mut stream, first) in [(early, 3), (late, 2)] {
        let mut seen = stream.until("run_complete").await;
        seen.extend(stream.until("run_complete").await);
        assert_eq!(numbers(&seen), (first..=8).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_deleted_session_ends_every_viewer() {
    let house = House::plain();
    let streams = [house.events("", None).await, house.events("?after=0", None).await];
    assert_eq!(house.delete(&format!("/sessions/{ID}")).await.status, 200);
    for mut stream in streams {
        let seen = stream.rest().await;
        assert_eq!(names(&seen), ["end"]);
        assert_eq!((seen[0].id, &seen[0].data["sessionId"]), (None, &json!(ID)));
    }
}

#[tokio::test]
async fn a_viewer_that_does_not_read_is_told_what_it_missed() {
    let mut turn = play::begin(1, "hi");
    turn.extend((0..3_000).map(|_| play::delta("x")));
    turn.extend(play::says("xs"));
    turn.extend(play::ends(1, &play::result(TurnEnd::Completed, "xs")));
    let runtime = FakeRuntime::new().session(open_session()).turn(turn);
    let house = House::new(runtime.turn(play::plain(2, "after the gap")));
    let mut slow = house.events("?after=0", None).await;
    run(&house).await;
    house.breathe().await;
    let seen = slow.until("lagged").await;
    assert_eq!(seen.len(), 1_001, "a thousand frames wait");
    let lagged = seen.last().unwrap();
    assert_eq!((lagged.id, &lagged.data["dropped"]), (None, &json!(2_004)));
    run(&house).await;
    let seen = slow.until("run_complete").await;
    assert_eq!(numbers(&seen), [5, 6, 7, 8]);
    let all = house.events("?after=0", None).await.until("run_complete").await;
    assert_eq!(numbers(&all), [1, 2, 3, 4], "the gap is in the record");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive() {
    let house = House::plain();
    let mut stream = house.events("", None).await;
    let begin = tokio::time::Instant::now();
    assert_eq!(stream.piece().await, ": keepalive\n\n");
    assert_eq!(begin.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_streams_that_nobody_ends() {
    let house = House::new(FakeRuntime::new().session(open_session()).turn(play::stalled(1)));
    let mut viewer = house.events("", None).await;
    let mut run = house.run("hi").await;
    run.until("text_delta").await;
    let begin = tokio::time::Instant::now();
    house.stopping.cancel();
    tokio::join!(run.rest(), viewer.rest());
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_record_can_be_watched_of_a_session_that_is_not_open_here() {
    let stored = SessionInfo { is_open: false, owner_pid: Some(7), ..open_session() };
    let runtime = FakeRuntime::new()
        .session(stored)
        .turn(play::plain(1, "one"))
        .refuse("subscribe", RefusalCode::SessionNotFound, "not open here")
        .refuse("subscribe", RefusalCode::SessionNotFound, "not open here");
    let runtime = runtime.refuse("open", RefusalCode::OwnedElsewhere, "there");
    let house = House::new(runtime);
    // The fake plays at once what another process would have recorded.
    let core = SessionId::new(CORE);
    house.runtime.prompt(&core, "hi".into()).await.unwrap();
    let mut stream = house.events("?after=0", None).await;
    let seen = stream.until("run_complete").await;
    assert_eq!(numbers(&seen), [1, 2, 3, 4]);
    assert_eq!(house.delete(&format!("/sessions/{ID}")).await.status, 200);
    assert_eq!(names(&stream.rest().await), ["end"]);
}

#[tokio::test]
async fn there_are_only_so_many_viewers() {
    let runtime = FakeRuntime::new().session(open_session());
    let neurons = FakeNeurons::new().neuron(neuron_info("worker"));
    let house = House::with(Setting::new().with_limits(0, 0), runtime, neurons);
    let mut streams = Vec::new();
    for _ in 0..1_024 {
        streams.push(house.events("", None).await);
    }
    let reply = house.get(&format!("/sessions/{ID}/events")).await;
    assert_eq!(reply.code(), refused(503, "CAPACITY"));
    streams.pop();
    streams.push(house.events("", None).await);
}
