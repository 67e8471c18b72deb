//! Who watches a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Event;
use runtime_api::{Delivery, Overflow, Subscription};
use tokio::sync::{broadcast, mpsc};

/// How many events a slow viewer of the ring may be behind before it loses the oldest.
const RING: usize = 1_024;

/// The viewers of one session. They outlive the task of the session, so that a fault of it does
/// not end their streams.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    /// Made for the first viewer that wants it, and gone after the last: a session that nobody
    /// watches costs nothing.
    ring: Mutex<Option<broadcast::Sender<Arc<Event>>>>,
    paced: Mutex<Vec<mpsc::Sender<Delivery>>>,
}

impl Viewers {
    /// Adds a viewer whose stream begins with `backlog`.
    pub(crate) fn add(&self, backlog: VecDeque<Delivery>, overflow: Overflow) -> Subscription {
        match overflow {
            Overflow::Ring => {
                let mut ring = self.ring();
                let sender = ring.get_or_insert_with(|| broadcast::Sender::new(RING));
                Subscription::ring(backlog, sender.subscribe())
            }
            Overflow::Pace(credit) => {
                let (sender, receiver) = mpsc::channel(credit.clamp(1, RING));
                self.paced().push(sender);
                Subscription::queue(backlog, receiver)
            }
        }
    }

    /// Shows an event. Waits for paced viewers that are behind.
    pub(crate) async fn show(&self, event: Arc<Event>) {
        let paced = self.paced().clone();
        let mut is_gone = false;
        for viewer in paced {
            is_gone |= viewer.send(Delivery::Event(Arc::clone(&event))).await.is_err();
        }
        if is_gone {
            self.paced().retain(|viewer| !viewer.is_closed());
        }
        let mut ring = self.ring();
        if ring.as_ref().is_some_and(|ring| ring.send(event).is_err()) {
            // The last viewer of the ring has gone.
            *ring = None;
        }
    }

    /// Tells whether anybody watches.
    pub(crate) fn any(&self) -> bool {
        self.ring().as_ref().is_some_and(|ring| ring.receiver_count() > 0)
            || self.paced().iter().any(|viewer| !viewer.is_closed())
    }

    fn paced(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Delivery>>> {
        self.paced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<Event>>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
