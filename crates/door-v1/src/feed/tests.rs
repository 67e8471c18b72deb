//! A multiplexed stream that lost events, or saw them out of step with a snapshot.

use std::collections::VecDeque;

use protocol::event::{
    DecidedBy, InteractionKind, Outcome, PlanRequest, RequestResolved, SessionClosed,
};
use protocol::{FrameId, Seq, ToolCallId};
use runtime_api::{AgentSettings, Handle, Pending};
use serde_json::Value;
use testkit::fake_handle::{FakeRuntime, session_info};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::door::{Door, Options};

fn plan(id: &str) -> PlanRequest {
    PlanRequest {
        request_id: RequestId::new(id),
        tool_call_id: ToolCallId::new("t"),
        plan: "# Plan".to_owned(),
        expires_at: None,
    }
}

fn resolved(id: &str) -> RequestResolved {
    RequestResolved {
        request_id: RequestId::new(id),
        kind: InteractionKind::Plan,
        outcome: Outcome::Rejected,
        by: DecidedBy::Client,
        rule: None,
        persist: None,
        answers: Vec::new(),
        words: None,
        mode: None,
    }
}

fn event(seq: u64, body: impl Into<EventBody>) -> Delivery {
    let (session_id, ts) = (SessionId::new("s"), Timestamp(0));
    let (seq, frame) = (Some(Seq(seq)), FrameId(seq));
    Delivery::Event(Arc::new(Event { body: body.into(), session_id, seq, frame, ts }.into()))
}

/// Returns what a stream tells of a session whose log had 12 events when it was read, with one
/// request that waited, and of these deliveries. Ends where nothing more comes.
async fn told(deliveries: Vec<Delivery>) -> Vec<Value> {
    let mut feed = feed(deliveries);
    let mut told = Vec::new();
    while let Some(frame) = feed.next().await {
        let text = String::from_utf8(frame.to_vec()).unwrap();
        assert!(!text.contains("id: "), "{text}");
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        told.push(serde_json::from_str(data).unwrap());
    }
    told
}

fn feed(deliveries: Vec<Delivery>) -> Feed {
    let waiting = Pending {
        session: SessionId::new("s"),
        cwd: "/".to_owned(),
        title: None,
        since: Timestamp(0),
        owner_pid: None,
        request: plan("old").into(),
    };
    let elsewhere = Pending { session: SessionId::new("stored"), ..waiting.clone() };
    let runtime = FakeRuntime::new().session(session_info("s", "/"));
    let door = Arc::new(Door::new(Options {
        handle: Handle::new(Arc::new(runtime.pending(vec![waiting, elsewhere]))),
        roots: Vec::new(),
        agent: AgentSettings::default(),
        mode: Some(Mode::Ask),
        model: None,
        version: "1",
        stopping: CancellationToken::new(),
    }));
    let (_, receiver) = mpsc::channel(1);
    let watch = Subscription::queue(VecDeque::from(deliveries), receiver);
    Feed::new(&door, Topics::parse(None).unwrap(), watch).unwrap()
}

fn names(told: &[Value]) -> Vec<String> {
    let name = |it: &Value| match (it["requestId"].as_str(), it["reason"].as_str()) {
        (Some(id), _) => format!("{} {id}", it["type"].as_str().unwrap()),
        (None, Some(reason)) => format!("{} {reason}", it["type"].as_str().unwrap()),
        (None, None) => it["type"].as_str().unwrap().to_owned(),
    };
    told.iter().map(name).collect()
}

const SNAPSHOT: [&str; 4] =
    ["snapshot_start connected", "session_state", "plan_request old", "snapshot_end"];

#[tokio::test]
async fn a_gap_leads_to_a_new_snapshot() {
    let told = told(vec![Delivery::Gap { dropped: 3 }, event(13, plan("new"))]).await;
    let mut expected = SNAPSHOT.to_vec();
    expected.push("snapshot_start gap");
    expected.extend(&SNAPSHOT[1..]);
    expected.extend(["plan_request new", "session_state shutdown"]);
    assert_eq!(names(&told), expected);
}

#[tokio::test]
async fn what_the_snapshot_told_is_not_told_again() {
    let told = told(vec![event(12, plan("old")), event(13, resolved("old"))]).await;
    assert_eq!(names(&told)[4..], ["request_resolved old", "session_state shutdown"]);
}

#[tokio::test]
async fn a_session_that_was_resumed_since_its_end_is_open() {
    let closed = || SessionClosed { reason: SessionEnd::Deleted };
    let stale = told(vec![event(12, closed())]).await;
    assert_eq!(names(&stale)[4..], ["session_state shutdown"], "that is the runtime's end");
    let fresh = told(vec![event(13, closed())]).await;
    assert_eq!(names(&fresh)[4..], ["session_state deleted"]);
    assert_eq!((&fresh[4]["state"], &fresh[4]["queued"]), (&"closed".into(), &0.into()));
}

#[tokio::test]
async fn the_position_counts_also_where_nothing_changed() {
    let mut feed = feed(Vec::new());
    feed.snapshot(SnapshotReason::Connected).await.unwrap();
    let told = feed.out.len();
    feed.tell(SessionInfo { last_seq: 20, ..session_info("s", "/") });
    assert_eq!(feed.out.len(), told, "nothing is new");
    let Delivery::Event(end) = event(15, SessionClosed { reason: SessionEnd::Deleted }) else {
        panic!("an event");
    };
    feed.take(&end).await;
    assert_eq!(feed.out.len(), told, "it was resumed since");
}
