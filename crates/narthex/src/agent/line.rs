//! The line in which prompts wait, and what lifts a slow reader's hold on the session.

use std::sync::Arc;

use protocol::{Refusal, RefusalCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Error;

/// How many prompts wait behind the one that runs: as many as the runtime itself lets wait.
const WAITING_MAX: usize = 16;

/// The line of an agent's prompts. It stands before the runtime's own queue, so that a prompt that
/// is given up while it waits was never begun, and a stop meets no other prompt than its own.
#[derive(Debug)]
pub(super) struct Line {
    places: Arc<Semaphore>,
    front: Arc<Semaphore>,
    lifts: watch::Sender<usize>,
}

/// A place in the line.
#[derive(Debug)]
pub(super) struct Place {
    front: Arc<Semaphore>,
    _place: OwnedSemaphorePermit,
}

/// While it lives, readers that are behind do not hold up the session.
#[derive(Debug)]
pub(super) struct Lift<'a>(&'a watch::Sender<usize>);

impl Line {
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(WAITING_MAX + 1)),
            front: Arc::new(Semaphore::new(1)),
            lifts: watch::Sender::new(0),
        }
    }

    /// Takes a place.
    pub(super) fn place(&self) -> Result<Place, Error> {
        if self.places.is_closed() {
            return Err(Error::Closed);
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!("{WAITING_MAX} prompts wait already: wait for one of them");
            Refusal::new(RefusalCode::QueueFull, message)
        })?;
        Ok(Place { front: Arc::clone(&self.front), _place: place })
    }

    /// Lets readers that are behind not hold up the session for a while: what asks for an answer
    /// of the session would else wait for its own caller to read on.
    pub(super) fn lift(&self) -> Lift<'_> {
        self.lifts.send_modify(|count| *count += 1);
        Lift(&self.lifts)
    }

    /// Watches how many lifts there are.
    pub(super) fn lifts(&self) -> watch::Receiver<usize> {
        self.lifts.subscribe()
    }

    /// Sends everybody away who waits.
    pub(super) fn close(&self) {
        self.places.close();
        self.front.close();
    }
}

impl Place {
    /// Waits until everybody before has gone. What is returned keeps those behind waiting.
    pub(super) async fn front(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.front).acquire_owned().await.map_err(|_| Error::Closed)
    }
}

impl Drop for Lift<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
