//! Who watches a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Event;
use runtime_api::{Delivery, Overflow, Subscription};
use tokio::sync::{broadcast, mpsc};

/// How many events a slow viewer of the ring may be behind before it loses the oldest.
const RING: usize = 1_024;

/// The viewers of one session. They outlive the task of the session, so that a fault of it does
/// not end their streams.
#[derive(Debug)]
pub(crate) struct Viewers {
    ring: broadcast::Sender<Arc<Event>>,
    paced: Mutex<Vec<mpsc::Sender<Delivery>>>,
}

impl Default for Viewers {
    fn default() -> Self {
        Self { ring: broadcast::Sender::new(RING), paced: Mutex::default() }
    }
}

impl Viewers {
    /// Adds a viewer whose stream begins with `backlog`.
    pub(crate) fn add(&self, backlog: VecDeque<Delivery>, overflow: Overflow) -> Subscription {
        match overflow {
            Overflow::Ring => Subscription::ring(backlog, self.ring.subscribe()),
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
        // Without viewers of the ring there is nobody to tell, which is no error.
        let _unwatched = self.ring.send(event);
    }

    /// Tells whether anybody watches.
    pub(crate) fn any(&self) -> bool {
        self.ring.receiver_count() > 0 || self.paced().iter().any(|viewer| !viewer.is_closed())
    }

    fn paced(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<Delivery>>> {
        self.paced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
