//! Events of a session on their way to a host.

use std::sync::{Arc, PoisonError};

use jsonrpc::{CallError, ErrorObject};
use native_wire::trimmed;
use protocol::event::EventClass;
use protocol::{Event, EventBody, FrameId, SessionId};
use runtime_api::{Delivery, Overflow, Position, SessionInfo, Shown, Subscription};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::door::{Host, Inner};
use crate::error::{invalid, refused};
use crate::fields::put;
use crate::replay::{self, Replay};

/// Events of one page of a replay that is sent.
const PAGE: usize = 200;

/// Bytes of the events of one pull: an answer is one line, and those have a limit.
const PULL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A stream that is about to begin: the answer to the host comes first.
pub(crate) struct Stream {
    session: SessionId,
    replay: Option<Replay>,
    subscription: Subscription,
    /// The last number that the host has, as far as is known.
    last: Option<FrameId>,
    until: CancellationToken,
}

/// Begins to watch a session; what was watched of it before on this connection ends.
///
/// # Errors
/// Those of the runtime.
pub(crate) async fn subscribe(
    door: &Inner,
    host: &Host,
    info: &SessionInfo,
    after: Option<u64>,
) -> Result<(Value, Stream), ErrorObject> {
    let handle = &door.options.handle;
    let (replay, position) = match after.map(FrameId) {
        None => (None, Position::Live),
        Some(after) if after >= info.last_frame => (None, Position::AfterFrame(after)),
        Some(after) => {
            let replay = replay::find(handle, info, after, door.options.event_buffer).await?;
            (Some(replay), Position::AfterFrame(info.last_frame))
        }
    };
    let subscribed = handle.subscribe(&info.id, position, Overflow::Ring).await;
    let subscription = subscribed.map_err(refused)?;
    let until = CancellationToken::new();
    let mut watched = host.watched.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = watched.insert(info.id.clone(), until.clone()) {
        before.cancel();
    }
    drop(watched);
    let gap = replay.and_then(|replay| replay.gap);
    let mut answer = json!({"lastSeq": info.last_frame.0});
    if let Some((from, to)) = gap {
        put(&mut answer, "gap", json!({"from": from, "to": to}));
    }
    let last = after.map(FrameId);
    let session = info.id.clone();
    Ok((answer, Stream { session, replay, subscription, last, until }))
}

impl Stream {
    /// Sends events until the session is closed, the host has gone, or the stream is replaced.
    pub(crate) async fn run(mut self, door: Arc<Inner>, host: Arc<Host>) {
        let until = self.until.clone();
        tokio::select! {
            () = until.cancelled() => {}
            () = self.send_all(&door, &host) => {}
        }
    }

    async fn send_all(&mut self, door: &Inner, host: &Host) {
        if let Some(mut replay) = self.replay.take() {
            loop {
                match replay.page(&door.options.handle, &self.session, PAGE).await {
                    Ok(Some(page)) => {
                        for event in page {
                            if self.send(host, &event).await.is_err() {
                                return;
                            }
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(session = %self.session, error = error.message, "replay");
                        return;
                    }
                }
            }
        }
        let mut dropped = 0_u64;
        while let Some(delivery) = self.subscription.next().await {
            let event = match delivery {
                Delivery::Event(event) if is_public(&event) => event,
                Delivery::Event(_) => continue,
                Delivery::Gap { dropped: more } => {
                    dropped = dropped.saturating_add(more);
                    continue;
                }
            };
            if dropped > 0 && self.tell_gap(host, event.frame, dropped).await.is_err() {
                return;
            }
            dropped = 0;
            if self.send(host, &event).await.is_err() {
                return;
            }
        }
    }

    async fn send(&mut self, host: &Host, event: &Arc<Shown>) -> Result<(), CallError> {
        self.last = Some(event.frame);
        let params = json!({
            "sessionId": self.session, "seq": event.frame.0, "event": wire(event)
        });
        host.peer.notify("session/event", &params).await
    }

    /// Tells that events before the next one are left out. Resuming after it leaves them out too.
    async fn tell_gap(&self, host: &Host, next: FrameId, dropped: u64) -> Result<(), CallError> {
        let to = next.0.saturating_sub(1);
        let from = self.last.map_or(next.0.saturating_sub(dropped), |last| last.0 + 1).min(to);
        let event = json!({"type": "replay_gap", "from": from, "to": to, "dropped": dropped});
        let params = json!({"sessionId": self.session, "seq": to, "event": event});
        host.peer.notify("session/event", &params).await
    }
}

/// Reads recorded events.
///
/// # Errors
/// Those of the runtime.
pub(crate) async fn pull(
    door: &Inner,
    info: &SessionInfo,
    after: u64,
    limit: usize,
) -> Result<Value, ErrorObject> {
    let mut answer = json!({"events": [], "lastSeq": info.last_frame.0});
    if FrameId(after) >= info.last_frame {
        return Ok(answer);
    }
    let handle = &door.options.handle;
    let kept = door.options.event_buffer;
    let mut replay = replay::find(handle, info, FrameId(after), kept).await?;
    if let Some((from, to)) = replay.gap {
        put(&mut answer, "gap", json!({"from": from, "to": to}));
    }
    let (mut events, mut bytes) = (Vec::new(), 0_usize);
    'pages: while events.len() < limit {
        let page = replay.page(handle, &info.id, limit - events.len()).await?;
        let Some(page) = page else { break };
        for event in page {
            bytes = bytes.saturating_add(event.weight());
            if bytes > PULL_BYTES_MAX && !events.is_empty() {
                break 'pages;
            }
            events.push(json!({"seq": event.frame.0, "event": wire(&event)}));
        }
    }
    put(&mut answer, "events", Value::Array(events));
    Ok(answer)
}

fn is_public(event: &Event) -> bool {
    event.body.kind().class() != EventClass::Internal
}

/// Words an event as all doors of this family do.
fn wire(event: &Event) -> Value {
    let short = match &event.body {
        EventBody::ToolResult(result) => trimmed(result).map(EventBody::ToolResult),
        _ => None,
    };
    let event = match short {
        Some(body) => {
            let session_id = event.session_id.clone();
            serde_json::to_value(Event { body, session_id, ..*event })
        }
        None => serde_json::to_value(event),
    };
    event.unwrap_or_else(|error| {
        tracing::error!(%error, "an event has no JSON form");
        json!({})
    })
}

/// Reads a number of an event.
///
/// # Errors
/// -32602 for one that no event can have.
pub(crate) fn after(given: Option<u64>) -> Result<Option<u64>, ErrorObject> {
    match given {
        Some(u64::MAX) => Err(invalid("afterSeq: no event has this number")),
        given => Ok(given),
    }
}
