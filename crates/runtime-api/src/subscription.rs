//! Watching a session.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::Fault;
use protocol::{FrameId, Seq};
use tokio::sync::mpsc;

use crate::Shown;
use crate::ring::{Found, RingReader};

/// Where a viewer begins. Positions are types: `After` leaves its event out, `From` includes it.
/// A position in the future is the same as `Live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Only what happens from now on.
    Live,
    /// Recorded events after this one, then live.
    After(Seq),
    /// Recorded events from this one on, then live.
    From(Seq),
    /// Recorded events whose frame is greater, then live.
    AfterFrame(FrameId),
}

/// What happens to a viewer that reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Nobody waits for it. Up to 1,024 events or 4 MiB wait for the slowest viewer of a session;
    /// one that is further behind loses deltas, and reads the recorded events that it missed from
    /// the log, without a hole. Only recorded events that have left the window of a replay are
    /// lost to it, and their number is told by [`Delivery::Gap`]. A stream that ends without
    /// `session_closed` is taken up with [`Position::AfterFrame`] of the last frame that was seen.
    Ring,
    /// The session waits for the viewer: for a viewer that owns the session, as the command line.
    Pace(usize),
}

/// What a viewer gets.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event. Recorded ones are durable before they come here; those that are recorded for the
    /// core alone never do.
    Event(Arc<Shown>),
    /// This many events were left out here.
    Gap {
        /// How many recorded events that doors show. Where there is no log to read, as in
        /// `watch`: how many events.
        dropped: u64,
    },
}

/// Where recorded events are read again. For runtimes.
#[async_trait]
pub trait Log: Send + Sync + Debug {
    /// Finds where a replay up to `until` begins that is wanted from a position on.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn find(&self, position: Position, until: Seq) -> Result<Start, Fault>;

    /// Reads some of the events that doors show, those at `from` first. Reads not much beyond
    /// what a page holds, and nothing that was recorded after `until`; several viewers may get
    /// the same page.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn page(&self, from: Seq, until: Seq) -> Result<Arc<LogPage>, Fault>;
}

/// Where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// With this event.
    pub from: Seq,
    /// How many recorded events that doors show were wanted and are too old.
    pub dropped: u64,
}

/// A part of a log.
#[derive(Debug)]
pub struct LogPage {
    /// The first position that was looked at.
    pub from: Seq,
    /// The last position that was looked at; not before `from`.
    pub through: Seq,
    /// The events between them that doors show, in order.
    pub events: Vec<Arc<Shown>>,
    /// How many events between them could not be read.
    pub lost: u64,
}

/// A viewer's stream. Dropping it ends the watching.
#[derive(Debug)]
pub struct Subscription {
    /// What comes first and is at hand.
    backlog: VecDeque<Delivery>,
    log: Option<Arc<dyn Log>>,
    /// What is still to be read of the log before the source goes on.
    replay: Option<Replay>,
    source: Source,
    /// The last recorded event that was delivered or passed over.
    seen: Seq,
    is_over: bool,
}

#[derive(Debug)]
enum Source {
    Queue(mpsc::Receiver<Delivery>),
    Ring(RingReader),
}

/// A part of the log that is being read.
#[derive(Debug)]
struct Replay {
    step: Step,
    /// The last position of it; what comes after is in the source.
    until: Seq,
    /// Frames that the viewer has seen.
    after: FrameId,
}

#[derive(Debug)]
enum Step {
    Find(Position),
    Read(Seq),
    /// The next place of a page.
    Page(Arc<LogPage>, usize),
}

impl Subscription {
    /// Wraps a queue that the session waits for; `backlog` comes first. For runtimes.
    pub fn queue(backlog: VecDeque<Delivery>, receiver: mpsc::Receiver<Delivery>) -> Self {
        Self::new(backlog, Source::Queue(receiver))
    }

    /// Wraps a ring; `backlog` comes first. For runtimes.
    pub fn ring(backlog: VecDeque<Delivery>, reader: RingReader) -> Self {
        Self::new(backlog, Source::Ring(reader))
    }

    fn new(backlog: VecDeque<Delivery>, source: Source) -> Self {
        Self { backlog, log: None, replay: None, source, seen: Seq(0), is_over: false }
    }

    /// Lets the viewer read in the log what it fell behind of. Its source holds everything that
    /// was recorded after `last`. For runtimes.
    #[must_use]
    pub fn with_log(mut self, log: Arc<dyn Log>, last: Seq) -> Self {
        (self.log, self.seen) = (Some(log), last);
        self
    }

    /// Lets the viewer read the log from a position up to where its source begins, page by page,
    /// as fast as it takes the events. Needs [`Subscription::with_log`]. For runtimes.
    #[must_use]
    pub fn replaying(mut self, position: Position) -> Self {
        let after = match position {
            Position::AfterFrame(frame) => frame,
            Position::Live | Position::After(_) | Position::From(_) => FrameId(0),
        };
        self.replay = Some(Replay { step: Step::Find(position), until: self.seen, after });
        self
    }

    /// Waits for the next delivery; none after the session was closed, or when the log cannot be
    /// read any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.at_hand() {
                return Some(delivery);
            }
            if self.is_over {
                return None;
            }
            if self.replay.is_some() {
                if self.read_on().await.is_err() {
                    self.end();
                }
                continue;
            }
            match &mut self.source {
                Source::Queue(receiver) => return receiver.recv().await,
                Source::Ring(reader) => {
                    let found = reader.next().await;
                    if let Some(delivery) = self.take(found) {
                        return Some(delivery);
                    }
                }
            }
        }
    }

    /// Returns a delivery that is there now, without waiting: for doors that put several into one
    /// write. None says nothing about what comes.
    pub fn try_next(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.at_hand() {
            return Some(delivery);
        }
        if self.is_over || self.replay.is_some() {
            return None;
        }
        match &mut self.source {
            Source::Queue(receiver) => receiver.try_recv().ok(),
            Source::Ring(reader) => {
                let found = reader.try_next()?;
                self.take(found)
            }
        }
    }

    /// Waits for the next event and passes over gaps. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Arc<Shown>> {
        loop {
            match self.next().await? {
                Delivery::Event(event) => return Some(event),
                Delivery::Gap { .. } => {}
            }
        }
    }

    /// Returns the next delivery of the backlog or of the page that was read.
    fn at_hand(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.backlog.pop_front() {
            return Some(delivery);
        }
        let replay = self.replay.as_mut()?;
        let Step::Page(page, place) = &mut replay.step else { return None };
        while let Some(event) = page.events.get(*place) {
            *place += 1;
            let seq = event.seq.unwrap_or_default();
            if seq <= replay.until && event.frame > replay.after {
                return Some(Delivery::Event(Arc::clone(event)));
            }
        }
        if page.through < replay.until {
            replay.step = Step::Read(page.through.next());
        } else {
            self.seen = self.seen.max(replay.until);
            self.replay = None;
        }
        None
    }

    /// Does the next step of reading the log. Nothing is lost when it is dropped on the way.
    async fn read_on(&mut self) -> Result<(), Fault> {
        let (Some(replay), Some(log)) = (&mut self.replay, &self.log) else {
            self.replay = None;
            return Ok(());
        };
        match replay.step {
            Step::Find(position) => {
                let Start { from, dropped } = log.find(position, replay.until).await?;
                replay.step = Step::Read(from);
                if dropped > 0 {
                    self.backlog.push_back(Delivery::Gap { dropped });
                }
            }
            Step::Read(from) if from > replay.until => {
                self.seen = self.seen.max(replay.until);
                self.replay = None;
            }
            Step::Read(from) => {
                let page = log.page(from, replay.until).await?;
                if page.lost > 0 && page.from == from {
                    self.backlog.push_back(Delivery::Gap { dropped: page.lost });
                }
                let is_before = |event: &Arc<Shown>| event.seq.unwrap_or_default() < from;
                let place = page.events.partition_point(is_before);
                replay.step = Step::Page(page, place);
            }
            Step::Page(..) => {}
        }
        Ok(())
    }

    /// Takes what was found in the ring.
    fn take(&mut self, found: Found) -> Option<Delivery> {
        match found {
            Found::Event(event) => {
                self.seen = event.seq.unwrap_or(self.seen);
                Some(Delivery::Event(event))
            }
            Found::Lagged { dropped, .. } if self.log.is_none() => Some(Delivery::Gap { dropped }),
            // Where nothing recorded is missing, only deltas are.
            Found::Lagged { through, .. } if through <= self.seen => None,
            Found::Lagged { through, .. } => {
                let step = Step::Find(Position::After(self.seen));
                self.replay = Some(Replay { step, until: through, after: FrameId(0) });
                None
            }
            Found::Closed => {
                self.end();
                None
            }
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.replay = None;
    }
}

#[cfg(test)]
mod tests;
