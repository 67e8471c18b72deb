//! A viewer that lost events: what its subscription tells it, it tells on.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::event::{ContextSet, TextDelta};
use protocol::{Event, EventBody, Seq, SessionId, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::seat::Seats;

fn event(frame: u64, body: impl Into<EventBody>) -> Delivery {
    let session_id = SessionId::new("s");
    let (seq, frame, ts) = (Some(Seq(frame)), FrameId(frame), Timestamp(0));
    Delivery::Event(Arc::new(Event { body: body.into(), session_id, seq, frame, ts }.into()))
}

fn text(frame: u64) -> Delivery {
    event(frame, TextDelta { text: frame.to_string() })
}

/// Returns the ids that a viewer gets of these deliveries, and what it is told of gaps.
async fn seen(last: Option<u64>, deliveries: Vec<Delivery>) -> Vec<Value> {
    let (_, receiver) = mpsc::channel(1);
    let mut viewer = Viewer {
        subscription: Subscription::queue(VecDeque::from(deliveries), receiver),
        farewell: Farewell::new(CancellationToken::new()),
        last: last.map(FrameId),
        gap: None,
        held: None,
        seat: Arc::new(Seats::default()).take(None).unwrap(),
    };
    let mut seen = Vec::new();
    while let Some(frame) = viewer.next().await {
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        seen.push(match line("id: ") {
            Some(id) => json!(id.parse::<u64>().unwrap()),
            None => serde_json::from_str(line("data: ").unwrap()).unwrap(),
        });
    }
    seen
}

fn gap(from: u64, to: u64, dropped: u64) -> Value {
    json!({"type": "replay_gap", "from": from, "to": to, "dropped": dropped})
}

#[tokio::test]
async fn a_gap_is_told_where_it_is() {
    let lost = |dropped: u64| Delivery::Gap { dropped };
    assert_eq!(
        seen(Some(1), vec![lost(98), text(100), text(101)]).await,
        [gap(2, 99, 98), json!(100), json!(101)]
    );
    // In the middle, from what was seen last; two in a row are one.
    assert_eq!(
        seen(Some(4), vec![text(5), lost(2), lost(3), text(11), text(12)]).await,
        [json!(5), gap(6, 10, 5), json!(11), json!(12)]
    );
    // A live viewer that has seen nothing knows only how many.
    assert_eq!(seen(None, vec![lost(3), text(9)]).await, [gap(6, 8, 3), json!(9)]);
    // Nothing follows: there is nothing to resume into.
    assert_eq!(seen(Some(1), vec![text(2), lost(3)]).await, [json!(2)]);
}

#[tokio::test]
async fn what_is_the_cores_own_is_not_shown() {
    let own = event(2, ContextSet { system: "secret".to_owned() });
    assert_eq!(seen(None, vec![text(1), own, text(3)]).await, [json!(1), json!(3)]);
}

#[tokio::test]
async fn the_greatest_id_there_is_does_no_harm() {
    let lost = Delivery::Gap { dropped: 2 };
    assert_eq!(seen(Some(u64::MAX), vec![lost, text(9)]).await, [gap(8, 8, 2), json!(9)]);
}
