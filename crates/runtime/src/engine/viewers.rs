//! Who watches a session.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::{FrameId, Seq};
use runtime_api::{Delivery, Overflow, Position, Ring, Shown, Subscription};
use tokio::sync::mpsc;

use super::replay::Replay;
use crate::kernel::{Marks, is_shown};

/// Events that a viewer may lend credit for at once: beyond that nothing gets faster.
const CREDIT_MAX: usize = 1_024;

/// The viewers of one session. They outlive the task of the session, so that a fault of it does
/// not end their streams.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    watched: Mutex<Watched>,
    paced: Mutex<Vec<mpsc::Sender<Delivery>>>,
    /// The last frame that the session has handed out.
    frame: AtomicU64,
}

/// Made for the first viewer, and gone after the last: a session that nobody watches costs
/// nothing.
#[derive(Debug, Default)]
struct Watched {
    ring: Option<Ring>,
    /// The viewers hold it.
    replay: Weak<Replay>,
}

/// Where a viewer begins.
#[derive(Debug)]
pub(crate) enum Begin {
    /// With these events, which are at hand.
    With(VecDeque<Delivery>),
    /// With what the log has from a position on.
    Reading(Position),
}

impl Viewers {
    /// Adds a viewer of a session whose last recorded event is `last`; all up to it was shown.
    /// `replay` makes the way back to what was.
    pub(crate) fn add(
        &self,
        begin: Begin,
        overflow: Overflow,
        last: Seq,
        replay: impl FnOnce() -> Replay,
    ) -> Subscription {
        let mut watched = self.watched();
        let replay = watched.replay.upgrade().unwrap_or_else(|| {
            let replay = Arc::new(replay());
            watched.replay = Arc::downgrade(&replay);
            replay
        });
        let (backlog, position) = match begin {
            Begin::With(backlog) => (backlog, None),
            Begin::Reading(position) => (VecDeque::new(), Some(position)),
        };
        let subscription = match overflow {
            Overflow::Ring => {
                let ring = watched.ring.get_or_insert_default();
                Subscription::ring(backlog, ring.reader())
            }
            Overflow::Pace(credit) => {
                let (sender, receiver) = mpsc::channel(credit.clamp(1, CREDIT_MAX));
                self.paced().push(sender);
                Subscription::queue(backlog, receiver)
            }
        };
        let subscription = subscription.with_log(replay, last);
        match position {
            Some(position) => subscription.replaying(position),
            None => subscription,
        }
    }

    /// Shows an event that doors show. Waits for paced viewers that are behind.
    pub(crate) async fn show(&self, event: Arc<Shown>) {
        self.frame.fetch_max(event.frame.0, Ordering::Relaxed);
        self.put_in_the_ring(&event);
        let paced = self.paced().clone();
        let mut is_gone = false;
        for viewer in paced {
            is_gone |= viewer.send(Delivery::Event(Arc::clone(&event))).await.is_err();
        }
        if is_gone {
            self.paced().retain(|viewer| !viewer.is_closed());
        }
    }

    fn put_in_the_ring(&self, event: &Arc<Shown>) {
        let mut watched = self.watched();
        if let Some(seq) = event.seq
            && let Some(replay) = watched.replay.upgrade()
        {
            replay.note(seq, event.body.kind());
        }
        let Some(ring) = &watched.ring else { return };
        if ring.readers() > 0 {
            ring.push(Arc::clone(event));
        } else {
            watched.ring = None;
        }
    }

    /// Takes what the session was found to be when it was opened: the last frame that was handed
    /// out, and the index of its log.
    pub(crate) fn found(&self, frame: FrameId, marks: &Marks) {
        self.frame.fetch_max(frame.0, Ordering::Relaxed);
        if let Some(replay) = self.watched().replay.upgrade() {
            replay.found(marks);
        }
    }

    /// Returns the last frame that was handed out while these viewers are known.
    pub(crate) fn last_frame(&self) -> FrameId {
        FrameId(self.frame.load(Ordering::Relaxed))
    }

    /// Tells whether anybody watches.
    pub(crate) fn any(&self) -> bool {
        self.watched().ring.as_ref().is_some_and(|ring| ring.readers() > 0)
            || self.paced().iter().any(|viewer| !viewer.is_closed())
    }

    fn paced(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Delivery>>> {
        self.paced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those who watch all sessions of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Ring);

impl Watchers {
    /// Adds one.
    pub(crate) fn add(&self) -> Subscription {
        Subscription::ring(VecDeque::new(), self.0.reader())
    }

    /// Shows a recorded event that doors show; others are left out.
    pub(crate) fn show(&self, event: &Arc<Shown>) {
        if event.seq.is_some() && is_shown(event.body.kind()) {
            self.0.push(Arc::clone(event));
        }
    }

    /// Ends their streams: nothing more comes.
    pub(crate) fn end(&self) {
        self.0.close();
    }
}
