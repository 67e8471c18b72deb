//! The event stream of one session.

use std::future::Future;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::HeaderMap;
use http_kit::{Admitted, Problem, sse};
use protocol::FrameId;
use runtime_api::{Delivery, Overflow, Position, Subscription};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::door::Shared;
use crate::error::{Code, refused};
use crate::event::{frame, is_public, passing};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::query::{Query, number};
use crate::seat::Seat;

/// How long a stream goes on after the program began to stop: as long as turns have to end.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// The header that a client resumes with.
const LAST_EVENT_ID: &str = "last-event-id";

pub(crate) fn operations() -> Vec<Operation> {
    let id = json!({"type": "integer", "format": "int64", "minimum": 0});
    vec![
        Operation::get("/v1/sessions/{sessionId}/events", events)
            .named("streamSession", Tag::Events, "Streams the events of a session")
            .says(
                "Server-sent events: `id` counts up per session, `event` is the type, `data` is \
                 the JSON of one `SessionEvent`. A `: heartbeat` comment comes every 15 \
                 seconds.\n\n\
                 Without an id the stream is live only. With one it first replays the recorded \
                 events after it, out of the last 1,000; deltas are not recorded, the event that \
                 ends them holds the whole. `replay_gap` stands where recorded events are left \
                 out: first of all, or in the middle for a client that reads very slowly (one that \
                 reads slowly loses deltas alone). It has no id and is \
                 no place to resume from. The stream ends after `session_closed`, and once its \
                 token is revoked or over.",
            )
            .query("last_event_id", id.clone(), "The id to go on after; the header wins.")
            .header("Last-Event-ID", id, "The id to go on after.")
            .of_session()
            .refuses(&[Code::TooManyViewers])
            .sends(
                "text/event-stream",
                |schemas| schemas.session_event(),
                "Frames, until the session is closed.",
            ),
    ]
}

/// Events were left out. No point to resume from.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReplayGap {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "replay_gap"))]
    kind: &'static str,
    /// The first id that is left out.
    from: u64,
    /// The last id that is left out.
    to: u64,
    /// How many recorded events are left out.
    dropped: u64,
}

/// Lets a stream go on for a while after the program began to stop.
#[derive(Debug)]
pub(crate) struct Farewell {
    stopping: CancellationToken,
    until: Option<Instant>,
}

impl Farewell {
    pub(crate) fn new(stopping: CancellationToken) -> Self {
        Self { stopping, until: None }
    }

    /// Waits for something; none once the time after the stop is over.
    pub(crate) async fn wait<F: Future>(&mut self, next: F) -> Option<F::Output> {
        tokio::pin!(next);
        if self.until.is_none() {
            tokio::select! {
                biased;
                found = &mut next => return Some(found),
                () = self.stopping.cancelled() => {}
            }
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + FAREWELL_MAX);
        tokio::time::timeout_at(until, next).await.ok()
    }
}

/// One viewer of a session.
#[derive(Debug)]
struct Viewer {
    subscription: Subscription,
    farewell: Farewell,
    /// The last id that was sent or asked for.
    last: Option<FrameId>,
    /// What is known to be left out before the next event.
    gap: Option<u64>,
    /// The event after a gap that was told.
    held: Option<Bytes>,
    #[expect(dead_code, reason = "held until the stream is dropped")]
    seat: Seat,
}

impl Viewer {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            match self.farewell.wait(self.subscription.next()).await?? {
                Delivery::Gap { dropped } => {
                    self.gap = Some(self.gap.unwrap_or(0).saturating_add(dropped));
                }
                Delivery::Event(event) if is_public(&event) => {
                    let told = self.gap.take().map(|dropped| self.tell(dropped, event.frame));
                    self.last = Some(event.frame);
                    let frame = frame(&event);
                    let Some(told) = told else { return Some(frame) };
                    self.held = Some(frame);
                    return Some(told);
                }
                Delivery::Event(_) => {}
            }
        }
    }

    /// Makes the frame that tells of events before `next` that are left out.
    fn tell(&self, dropped: u64, next: FrameId) -> Bytes {
        let to = next.0.saturating_sub(1);
        let from = self
            .last
            .map_or_else(|| next.0.saturating_sub(dropped), |last| last.0.saturating_add(1));
        let gap = ReplayGap { kind: "replay_gap", from: from.min(to), to, dropped };
        passing("replay_gap", &gap)
    }
}

async fn events(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    mut query: Query,
    headers: HeaderMap,
    admitted: Admitted,
) -> Result<Response, Problem> {
    let asked = query.take_number("last_event_id", 0..=u64::MAX)?;
    let resumed = match headers.get(LAST_EVENT_ID) {
        None => asked,
        Some(value) => {
            let text = value.to_str().unwrap_or("\u{fffd}");
            Some(number("Last-Event-ID", text, 0..=u64::MAX)?)
        }
    };
    door.session(&id).await?;
    let seat = door.seats.take(Some(&id))?;
    let last = resumed.map(FrameId);
    let position = last.map_or(Position::Live, Position::AfterFrame);
    let subscription = door.handle.subscribe(&id, position, Overflow::Ring).await;
    let viewer = Viewer {
        subscription: subscription.map_err(refused)?,
        farewell: Farewell::new(door.stopping.clone()),
        last,
        gap: None,
        held: None,
        seat,
    };
    let frames = stream::unfold(viewer, |mut viewer| async move {
        viewer.next().await.map(|frame| (frame, viewer))
    });
    Ok(sse::response(frames.take_until(is_over(admitted))))
}

/// Waits until a caller is not let in any more: its token was revoked, or is over. Looks as often
/// as a stream shows that it is alive.
pub(crate) async fn is_over(admitted: Admitted) {
    while admitted.holds() {
        tokio::time::sleep(sse::HEARTBEAT_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
