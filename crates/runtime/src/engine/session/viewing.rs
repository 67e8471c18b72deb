//! What others see of a session: numbers of frames, viewers, observers.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use driver_api::StoreError;
use protocol::event::{EventClass, SessionClosed, SessionEnd};
use protocol::{Event, EventBody, EventKind, FrameId, Seq};
use runtime_api::{Delivery, Overflow, Position, Shown, Subscription};

use super::Session;
use crate::engine::replay::Replay;
use crate::engine::viewers::Begin;
use crate::kernel::is_shown;

/// How many of the newest events are at hand for viewers that come a little late.
const RECENT_MAX: usize = 32;

/// How many bytes they may have together: a live session stays small.
const RECENT_BYTES_MAX: usize = 32 * 1024;

/// The newest recorded events that doors show, without a hole.
#[derive(Debug)]
pub(super) struct Recent {
    events: VecDeque<Arc<Shown>>,
    bytes: usize,
    /// Every shown event from this position on is there.
    from: Seq,
}

impl Recent {
    pub(super) fn new(from: Seq) -> Self {
        Self { events: VecDeque::new(), bytes: 0, from }
    }

    fn push(&mut self, event: Arc<Shown>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        while self.events.len() > RECENT_MAX || self.bytes > RECENT_BYTES_MAX {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= event.weight();
            self.from = event.seq.unwrap_or_default().next();
        }
    }

    fn all(&self, is_wanted: impl Fn(&Event) -> bool) -> VecDeque<Delivery> {
        let wanted = self.events.iter().filter(|event| is_wanted(event));
        wanted.map(|event| Delivery::Event(Arc::clone(event))).collect()
    }
}

impl Session {
    /// Adds a viewer. What it wants of the log it reads by itself: the task waits for nothing.
    pub(super) async fn subscribe(
        &mut self,
        position: Position,
        overflow: Overflow,
    ) -> Result<Subscription, StoreError> {
        self.flush().await?;
        let at_hand = self.at_hand(position);
        let begin = at_hand.map_or(Begin::Reading(position), Begin::With);
        let replay = || {
            let store = Arc::clone(&self.services.options.store);
            Replay::new(store, self.id.clone(), self.state.marks.clone())
        };
        Ok(self.viewers.add(begin, overflow, self.state.seq, replay))
    }

    /// Returns what a viewer gets first, where it need not be read.
    fn at_hand(&self, position: Position) -> Option<VecDeque<Delivery>> {
        let recent = &self.live.recent;
        let from = match position {
            Position::Live => return Some(VecDeque::new()),
            Position::After(seq) => seq.next(),
            Position::From(seq) => seq,
            Position::AfterFrame(seen) => {
                let is_seen = |event: &Arc<Shown>| event.frame <= seen;
                let is_there = seen >= self.last_frame()
                    || recent.from <= Seq(1)
                    || recent.events.front().is_some_and(is_seen);
                return is_there.then(|| recent.all(|event| event.frame > seen));
            }
        };
        (from >= recent.from).then(|| recent.all(|event| event.seq >= Some(from)))
    }

    /// Says that the session was created with this event.
    pub(crate) fn begins_with(&mut self, event: Shown) {
        let event = Arc::new(event);
        self.live.recent = Recent::new(event.seq.unwrap_or_default());
        self.live.recent.push(Arc::clone(&event));
        self.viewers.found(event.frame, &self.state.marks);
        self.observe(&event);
        self.services.watchers.show(&event);
    }

    /// Shows a recorded event to whoever watches.
    pub(super) async fn show_recorded(&mut self, event: Arc<Shown>) {
        self.observe(&event);
        if !is_shown(event.body.kind()) {
            return;
        }
        self.live.recent.push(Arc::clone(&event));
        self.services.watchers.show(&event);
        self.viewers.show(event).await;
    }

    /// Shows something live: it is not recorded. What was recorded before it is shown before it.
    /// When nobody watches, it is as if it had not been.
    pub(super) async fn show_live(&mut self, body: EventBody) -> Result<(), StoreError> {
        self.flush().await?;
        if self.services.options.observers.is_empty() && !self.viewers.any() {
            return Ok(());
        }
        let frame = self.next_frame();
        self.show_unrecorded(body, frame).await;
        Ok(())
    }

    /// Tells viewers that the session is closed here though its turn goes on later: the log says
    /// nothing of it.
    pub(super) async fn show_closed(&mut self, reason: SessionEnd) {
        // The next opening begins a new life, whatever was recorded in this one.
        let frame = self.next_frame();
        self.show_unrecorded(SessionClosed { reason }.into(), frame).await;
    }

    /// Shows something that no log tells of, under a frame.
    pub(super) async fn show_unrecorded(&self, body: EventBody, frame: FrameId) {
        let ts = self.services.options.clock.now();
        let session_id = self.id.clone();
        let event = Arc::new(Shown::new(Event { body, session_id, seq: None, frame, ts }));
        self.observe(&event);
        self.viewers.show(event).await;
    }

    /// Tells the observers. One that breaks breaks nothing else.
    fn observe(&self, event: &Event) {
        for observer in &self.services.options.observers {
            let telling = AssertUnwindSafe(|| observer.saw(event));
            if std::panic::catch_unwind(telling).is_err() {
                tracing::error!(session = %self.id, ?observer, "an observer broke");
            }
        }
    }

    /// Returns the frame of an event that is recorded next: what no door shows takes none, so that
    /// doors count without holes.
    pub(super) fn frame_of(&mut self, kind: EventKind) -> FrameId {
        match kind.class() {
            EventClass::Internal => self.last_frame(),
            EventClass::Public | EventClass::Server | EventClass::Delta => self.next_frame(),
        }
    }

    fn next_frame(&mut self) -> FrameId {
        let frame = self.frame;
        self.frame = frame.next();
        frame
    }

    /// Returns the last frame that was handed out; at the begin of a life the number before its
    /// first.
    pub(crate) fn last_frame(&self) -> FrameId {
        FrameId(self.frame.0.saturating_sub(1))
    }
}
