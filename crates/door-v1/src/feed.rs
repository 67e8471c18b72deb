//! The multiplexed stream: what all sessions that are open here do, for user interfaces.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_kit::{Admitted, Problem, sse};
use protocol::event::SessionEnd;
use protocol::{Event, EventBody, Mode, RequestId, SessionId, Timestamp};
use runtime_api::{Delivery, SessionInfo, Shown, Subscription};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast;

use crate::door::Shared;
use crate::error::{Code, refused};
use crate::event::{frame_without_id, is_public, passing};
use crate::operation::{Operation, Tag};
use crate::query::{Query, shown};
use crate::seat::Seat;
use crate::stream::{Farewell, is_over};
use crate::wire::{Request, State as Doing};

pub(crate) fn operations() -> Vec<Operation> {
    let topics = json!({
        "type": "array", "items": {"type": "string", "enum": ["state", "interactions", "usage"]},
        "uniqueItems": true, "minItems": 1
    });
    vec![
        Operation::get("/v1/events", events)
            .named("streamAll", Tag::Events, "Streams what all open sessions do")
            .says(
                "Server-sent events over every session that is open here: `event` is the type, \
                 `data` is the JSON of one `FeedEvent`.\n\n\
                 It begins with a snapshot: `snapshot_start`, a `session_state` per session, the \
                 requests that wait, `snapshot_end`. Then come changes: `session_state` whenever \
                 state, queue, requests, mode, model or title of a session change (`closed` with \
                 a reason is its last, comes under every topic, and takes its requests with it); \
                 requests and `request_resolved` as in the session's own stream; `usage` per \
                 model call.\n\n\
                 Frames have no ids and the stream cannot be resumed: a client that reconnects, \
                 or reads so slowly that events are lost, gets a new snapshot. What a snapshot \
                 does not name is not open any more. Usage that was lost is in the sessions' sums.",
            )
            .query("topics", topics, "What to tell, separated by commas; everything by default.")
            .refuses(&[Code::TooManyViewers])
            .sends(
                "text/event-stream",
                |schemas| schemas.feed_event(),
                "Frames, until the server stops, or the token is revoked or over.",
            ),
    ]
}

/// What a stream tells of.
#[derive(Clone, Copy, Debug)]
struct Topics {
    state: bool,
    interactions: bool,
    usage: bool,
}

impl Topics {
    fn parse(text: Option<&str>) -> Result<Self, Problem> {
        let Some(text) = text else {
            return Ok(Self { state: true, interactions: true, usage: true });
        };
        let mut topics = Self { state: false, interactions: false, usage: false };
        for topic in text.split(',') {
            match topic {
                "state" => topics.state = true,
                "interactions" => topics.interactions = true,
                "usage" => topics.usage = true,
                other => {
                    let right = "expected state, interactions, usage, separated by commas";
                    let what = format!("topics: {} is unknown, {right}", shown(other));
                    return Err(Problem::validation(what));
                }
            }
        }
        Ok(topics)
    }
}

/// What a session does, or that it is not open any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FeedState {
    /// Waits for a prompt.
    Idle,
    /// Works on a prompt.
    Running,
    /// Waits for an answer to a request.
    Waiting,
    /// Is not open here any more.
    Closed,
}

/// How a session is now; whole, not only what changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "session_state"))]
    kind: &'static str,
    /// The session.
    session_id: SessionId,
    /// What it is doing.
    state: FeedState,
    /// How many prompts wait for their turn.
    queued: u32,
    /// How many requests wait for an answer.
    pending_requests: u32,
    /// Its permission mode.
    mode: Mode,
    /// Its model.
    model: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Its working folder.
    cwd: String,
    /// When its log last grew.
    updated_at: Timestamp,
    /// Why it was closed; with `closed` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<SessionEnd>,
}

impl SessionState {
    fn is_like(&self, other: &Self) -> bool {
        let words = |it: &Self| (it.title.clone(), it.model.clone(), it.cwd.clone());
        (self.state, self.queued, self.pending_requests, self.mode)
            == (other.state, other.queued, other.pending_requests, other.mode)
            && words(self) == words(other)
    }
}

impl From<SessionInfo> for SessionState {
    fn from(info: SessionInfo) -> Self {
        let state = match info.state.into() {
            Doing::Idle => FeedState::Idle,
            Doing::Running => FeedState::Running,
            Doing::Waiting => FeedState::Waiting,
        };
        Self {
            kind: "session_state",
            session_id: info.id,
            state,
            queued: info.queued,
            pending_requests: info.pending,
            mode: info.mode,
            model: info.model,
            title: info.title,
            cwd: info.cwd,
            updated_at: info.updated_at,
            reason: None,
        }
    }
}

/// A snapshot begins: what it does not name is not open any more.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SnapshotStart {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "snapshot_start"))]
    kind: &'static str,
    /// Why there is one.
    reason: SnapshotReason,
}

/// Why there is a snapshot.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SnapshotReason {
    /// The stream begins.
    Connected,
    /// The client read too slowly and events were lost.
    Gap,
}

/// A snapshot is whole.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SnapshotEnd {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "snapshot_end"))]
    kind: &'static str,
}

/// One viewer of everything.
struct Feed {
    door: Shared,
    topics: Topics,
    watch: Subscription,
    opened: broadcast::Receiver<SessionId>,
    farewell: Farewell,
    /// Why a snapshot is due.
    due: Option<SnapshotReason>,
    /// The runtime is down: what is on its way out is the last.
    is_over: bool,
    /// The sessions as they were last told, with the position of their logs then.
    told: HashMap<SessionId, (SessionState, u64)>,
    /// The requests that were told and are not decided.
    announced: HashSet<(SessionId, RequestId)>,
    /// Frames on their way out; at most a snapshot, or what one event sets off.
    out: VecDeque<Bytes>,
    #[expect(dead_code, reason = "held until the stream is dropped")]
    seat: Seat,
}

/// What a feed waits for.
enum News {
    Delivery(Option<Delivery>),
    Opened(Result<SessionId, broadcast::error::RecvError>),
}

impl Feed {
    fn new(door: &Shared, topics: Topics, watch: Subscription) -> Result<Self, Problem> {
        Ok(Self {
            seat: door.seats.take(None)?,
            topics,
            watch,
            opened: door.opened.subscribe(),
            farewell: Farewell::new(door.stopping.clone()),
            due: Some(SnapshotReason::Connected),
            is_over: false,
            told: HashMap::new(),
            announced: HashSet::new(),
            out: VecDeque::new(),
            door: Shared::clone(door),
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.out.pop_front() {
                return Some(frame);
            }
            if self.is_over {
                return None;
            }
            if let Some(reason) = self.due.take() {
                if let Err(problem) = self.snapshot(reason).await {
                    // The client reconnects and tries again; the log says why.
                    tracing::warn!(message = problem.message, "no snapshot for a stream");
                    return None;
                }
                continue;
            }
            let (watch, opened) = (&mut self.watch, &mut self.opened);
            let news = self.farewell.wait(async {
                tokio::select! {
                    biased;
                    id = opened.recv() => News::Opened(id),
                    delivery = watch.next() => News::Delivery(delivery),
                }
            });
            match news.await? {
                News::Delivery(None) => {
                    self.is_over = true;
                    self.close_all();
                }
                News::Delivery(Some(Delivery::Event(event))) => self.take(&event).await,
                News::Opened(Ok(id)) => self.refresh(&id).await,
                News::Delivery(Some(Delivery::Gap { .. })) | News::Opened(Err(_)) => {
                    self.due = Some(SnapshotReason::Gap);
                }
            }
        }
    }

    /// Tells everything anew. Sessions are read before requests: an event that comes in between
    /// is told after the snapshot, and a request that both know is told once.
    async fn snapshot(&mut self, reason: SnapshotReason) -> Result<(), Problem> {
        let handle = &self.door.handle;
        let sessions = handle.opened().await.map_err(refused)?;
        let pending = handle.pending(None).await.map_err(refused)?;
        self.told.clear();
        self.announced.clear();
        let start = SnapshotStart { kind: "snapshot_start", reason };
        self.out.push_back(passing("snapshot_start", &start));
        for info in sessions {
            self.tell(info);
        }
        for request in pending {
            let place = request_of(&request.request).map(|id| (request.session.clone(), id));
            let Some(place) = place.filter(|(id, _)| self.told.contains_key(id)) else { continue };
            if self.topics.interactions {
                let name = request.request.kind().as_str();
                self.out.push_back(passing(name, &Request::from(request)));
            }
            self.announced.insert(place);
        }
        let end = SnapshotEnd { kind: "snapshot_end" };
        self.out.push_back(passing("snapshot_end", &end));
        Ok(())
    }

    async fn take(&mut self, event: &Arc<Shown>) {
        if !is_public(event) {
            return;
        }
        let session = &event.session_id;
        match &event.body {
            EventBody::Usage(_) => {
                if self.topics.usage {
                    self.out.push_back(frame_without_id(event));
                }
                return;
            }
            EventBody::PermissionRequest(_)
            | EventBody::QuestionRequest(_)
            | EventBody::PlanRequest(_) => self.announce(event),
            EventBody::RequestResolved(resolved) => {
                let place = (session.clone(), resolved.request_id.clone());
                if self.announced.remove(&place) && self.topics.interactions {
                    self.out.push_back(frame_without_id(event));
                }
            }
            EventBody::SessionClosed(closed) => return self.close(event, closed.reason),
            EventBody::SessionStart(_)
            | EventBody::PromptQueued(_)
            | EventBody::PromptStarted(_)
            | EventBody::PromptFinished(_)
            | EventBody::ModeChanged(_)
            | EventBody::ModelChanged(_)
            | EventBody::SessionUpdated(_) => {}
            _ if self.told.contains_key(session) => return,
            // Whatever comes from a session that is not known yet makes it known.
            _ => {}
        }
        self.refresh(session).await;
    }

    fn announce(&mut self, event: &Arc<Shown>) {
        let Some(request) = request_of(&event.body) else { return };
        let is_new = self.announced.insert((event.session_id.clone(), request));
        if is_new && self.topics.interactions {
            self.out.push_back(frame_without_id(event));
        }
    }

    /// Asks the runtime how a session is. It may be further than the event that made us ask: then
    /// the events in between find nothing that changed.
    async fn refresh(&mut self, session: &SessionId) {
        match self.door.handle.info(session).await {
            Ok(info) if info.is_open => self.tell(info),
            // Its `session_closed` is on its way.
            Ok(_) => {}
            Err(error) => {
                let problem = refused(error);
                tracing::debug!(%session, message = problem.message, "a session cannot be told");
            }
        }
    }

    fn tell(&mut self, info: SessionInfo) {
        let (seq, state) = (info.last_seq, SessionState::from(info));
        let known = self.told.get(&state.session_id);
        let is_news = !known.is_some_and(|(known, _)| known.is_like(&state));
        if is_news && self.topics.state {
            self.out.push_back(passing("session_state", &state));
        }
        // The position counts also where nothing changed: an end before it is an old one.
        self.told.insert(state.session_id.clone(), (state, seq));
    }

    fn close(&mut self, event: &Event, reason: SessionEnd) {
        let session = &event.session_id;
        // One that was resumed before we heard of its end is open.
        let is_over = |(_, told): &(SessionState, u64)| event.seq.is_none_or(|seq| seq.0 > *told);
        if !self.told.get(session).is_some_and(is_over) {
            return;
        }
        self.announced.retain(|(of, _)| of != session);
        if let Some((known, _)) = self.told.remove(session) {
            self.tell_closed(known, reason);
        }
    }

    /// The runtime is down: what was told and has not said goodbye is closed all the same.
    fn close_all(&mut self) {
        self.announced.clear();
        let mut left: Vec<_> = self.told.drain().map(|(_, (known, _))| known).collect();
        left.sort_by(|a, b| b.session_id.cmp(&a.session_id));
        left.into_iter().for_each(|known| self.tell_closed(known, SessionEnd::Shutdown));
    }

    /// Tells under every topic: requests of the session are gone with it.
    fn tell_closed(&mut self, known: SessionState, reason: SessionEnd) {
        let closed = SessionState {
            state: FeedState::Closed,
            queued: 0,
            pending_requests: 0,
            reason: Some(reason),
            ..known
        };
        self.out.push_back(passing("session_state", &closed));
    }
}

fn request_of(body: &EventBody) -> Option<RequestId> {
    match body {
        EventBody::PermissionRequest(request) => Some(request.request_id.clone()),
        EventBody::QuestionRequest(request) => Some(request.request_id.clone()),
        EventBody::PlanRequest(request) => Some(request.request_id.clone()),
        _ => None,
    }
}

async fn events(
    State(door): State<Shared>,
    mut query: Query,
    admitted: Admitted,
) -> Result<Response, Problem> {
    let topics = query.take("topics")?;
    let topics = Topics::parse(topics.as_deref())?;
    // Watched before the snapshot is read: nothing falls in between.
    let feed = Feed::new(&door, topics, door.handle.watch())?;
    let frames =
        stream::unfold(
            feed,
            |mut feed| async move { feed.next().await.map(|frame| (frame, feed)) },
        );
    Ok(sse::response(frames.take_until(is_over(admitted))))
}

#[cfg(test)]
mod tests;
