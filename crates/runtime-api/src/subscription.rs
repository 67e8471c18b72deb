//! Watching a session.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{Event, FrameId, Seq};
use tokio::sync::{broadcast, mpsc};

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
    /// The oldest unread events of a ring of 1,024 are lost and the gap is told.
    Ring,
    /// The session waits for the viewer: for a viewer that owns the session, as the command line.
    Pace(usize),
}

/// What a viewer gets.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event. Recorded ones are durable before they come here.
    Event(Arc<Event>),
    /// This many events were left out here.
    Gap {
        /// How many events, deltas included.
        dropped: u64,
    },
}

/// A viewer's stream. Dropping it ends the watching.
#[derive(Debug)]
pub struct Subscription {
    backlog: VecDeque<Delivery>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Queue(mpsc::Receiver<Delivery>),
    Ring(broadcast::Receiver<Arc<Event>>),
}

impl Subscription {
    /// Wraps a queue that the session waits for; `backlog` comes first. For runtimes.
    pub fn queue(backlog: VecDeque<Delivery>, receiver: mpsc::Receiver<Delivery>) -> Self {
        Self { backlog, source: Source::Queue(receiver) }
    }

    /// Wraps a ring; `backlog` comes first. For runtimes.
    pub fn ring(backlog: VecDeque<Delivery>, receiver: broadcast::Receiver<Arc<Event>>) -> Self {
        Self { backlog, source: Source::Ring(receiver) }
    }

    /// Waits for the next delivery; none after the session was closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.backlog.pop_front() {
            return Some(delivery);
        }
        match &mut self.source {
            Source::Queue(receiver) => receiver.recv().await,
            Source::Ring(receiver) => match receiver.recv().await {
                Ok(event) => Some(Delivery::Event(event)),
                Err(broadcast::error::RecvError::Lagged(dropped)) => {
                    Some(Delivery::Gap { dropped })
                }
                Err(broadcast::error::RecvError::Closed) => None,
            },
        }
    }

    /// Waits for the next event and passes over gaps. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.next().await? {
                Delivery::Event(event) => return Some(event),
                Delivery::Gap { .. } => {}
            }
        }
    }
}
