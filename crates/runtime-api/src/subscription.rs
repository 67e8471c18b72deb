//! Watching a session.

use std::sync::Arc;

use protocol::{Event, FrameId, Seq};
use tokio::sync::mpsc;

/// Where a viewer begins. Positions are types: `After` leaves its event out, `From` includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Only what happens from now on.
    Live,
    /// Recorded events after this one, then live.
    After(Seq),
    /// Recorded events from this one on, then live.
    From(Seq),
    /// Events whose frame is greater, then live.
    AfterFrame(FrameId),
}

/// What happens to a viewer that reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest unread events are lost and the gap is told.
    Ring(usize),
    /// The session waits for the viewer: for a viewer that owns the session, as the command line.
    Pace(usize),
}

/// What a viewer gets.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event. Recorded ones are durable before they come here.
    Event(Arc<Event>),
    /// This many recorded events were left out here.
    Gap {
        /// How many.
        dropped: u64,
    },
}

/// A viewer's stream. Dropping it ends the watching.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::Receiver<Delivery>,
}

impl Subscription {
    /// Wraps a queue; for runtimes.
    pub fn new(receiver: mpsc::Receiver<Delivery>) -> Self {
        Self { receiver }
    }

    /// Waits for the next delivery; none after the session was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.receiver.recv().await
    }

    /// Waits for the next event and passes over gaps. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.receiver.recv().await? {
                Delivery::Event(event) => return Some(event),
                Delivery::Gap { .. } => {}
            }
        }
    }
}
