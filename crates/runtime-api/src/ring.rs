//! A ring: the newest events of a session, shared by all who watch it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Seq;
use tokio::sync::Notify;

use crate::Shown;

/// Events that may wait in a ring for its slowest viewer: a viewer may lag for about two answers
/// of a fast model before it reads the log instead.
const RING_EVENTS_MAX: usize = 1_024;

/// Bytes that they may have together, so that large results do not make a slow viewer expensive.
const RING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Places that an empty ring keeps; those of a burst are given back.
const PLACES_KEPT: usize = 16;

/// Where a runtime puts events for viewers that nobody waits for. For runtimes.
///
/// An event is kept until all readers have read it, at most 1,024 events and 4 MiB; then the
/// oldest are left out for the readers that are behind. A push costs the same for any number of
/// readers, apart from waking those that wait. Dropping the ring ends their streams.
#[derive(Debug)]
pub struct Ring {
    shared: Arc<Shared>,
}

/// A reader of a [`Ring`]: it sees what is pushed after it was made.
#[derive(Debug)]
pub struct RingReader {
    shared: Arc<Shared>,
    /// The position of the next event to read.
    next: u64,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// The next event.
    Event(Arc<Shown>),
    /// This many events were left out; recorded ones among them reach up to `through`.
    Lagged { dropped: u64, through: Seq },
    /// The ring is gone, and everything was read.
    Closed,
}

#[derive(Debug)]
struct Shared {
    entries: Mutex<Entries>,
    changed: Notify,
}

#[derive(Debug)]
struct Entries {
    queue: VecDeque<Entry>,
    /// The position of the first of them.
    first: u64,
    bytes: usize,
    readers: u32,
    /// The newest recorded event that has left the ring.
    left_through: Seq,
    is_closed: bool,
    events_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    event: Arc<Shown>,
    /// How many readers have not read it. Whoever waits for an event waits for all behind it, so
    /// this never falls from front to back.
    unread: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self::bounded(RING_EVENTS_MAX, RING_BYTES_MAX)
    }
}

impl Ring {
    /// Makes an empty ring. It costs next to nothing until somebody is behind.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn bounded(events_max: usize, bytes_max: usize) -> Self {
        let entries = Entries {
            queue: VecDeque::new(),
            first: 0,
            bytes: 0,
            readers: 0,
            left_through: Seq(0),
            is_closed: false,
            events_max,
            bytes_max,
        };
        Self { shared: Arc::new(Shared { entries: Mutex::new(entries), changed: Notify::new() }) }
    }

    /// Adds a reader.
    pub fn reader(&self) -> RingReader {
        let mut entries = self.shared.entries();
        entries.readers += 1;
        let next = entries.end();
        RingReader { shared: Arc::clone(&self.shared), next }
    }

    /// Returns how many readers there are.
    pub fn readers(&self) -> usize {
        usize::try_from(self.shared.entries().readers).unwrap_or(usize::MAX)
    }

    /// Puts an event in for every reader; without readers it is let go of.
    pub fn push(&self, event: Arc<Shown>) {
        {
            let mut entries = self.shared.entries();
            if entries.readers == 0 {
                return;
            }
            entries.push(event);
        }
        self.shared.changed.notify_waiters();
    }

    /// Ends the streams of its readers, also of those that come later, once they have read what
    /// is there.
    pub fn close(&self) {
        self.shared.entries().is_closed = true;
        self.shared.changed.notify_waiters();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
    }
}

impl RingReader {
    /// Returns what is there now, if anything is.
    pub(crate) fn try_next(&mut self) -> Option<Found> {
        let mut entries = self.shared.entries();
        if self.next < entries.first {
            let dropped = entries.first - self.next;
            self.next = entries.first;
            return Some(Found::Lagged { dropped, through: entries.left_through });
        }
        match entries.read(self.next) {
            Some(event) => {
                self.next += 1;
                Some(Found::Event(event))
            }
            None => entries.is_closed.then_some(Found::Closed),
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Found {
        loop {
            if let Some(found) = self.try_next() {
                return found;
            }
            let shared = Arc::clone(&self.shared);
            // Made before the second look: what is pushed in between wakes it.
            let changed = shared.changed.notified();
            if let Some(found) = self.try_next() {
                return found;
            }
            changed.await;
        }
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.shared.entries().leave(self.next);
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Returns the position behind the last event.
    fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    fn push(&mut self, event: Arc<Shown>) {
        let weight = event.weight();
        // One that is larger than all may be together is kept alone.
        while self.queue.len() >= self.events_max
            || (!self.queue.is_empty() && self.bytes + weight > self.bytes_max)
        {
            drop(self.pop());
        }
        self.bytes += weight;
        self.queue.push_back(Entry { event, unread: self.readers });
    }

    /// Takes note that one reader has read the event at a position.
    fn read(&mut self, position: u64) -> Option<Arc<Shown>> {
        let place = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let entry = self.queue.get_mut(place)?;
        entry.unread = entry.unread.saturating_sub(1);
        let event = Arc::clone(&entry.event);
        self.drop_read();
        Some(event)
    }

    /// Takes note that a reader goes that would have read from a position on.
    fn leave(&mut self, position: u64) {
        self.readers = self.readers.saturating_sub(1);
        let place = usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for entry in self.queue.iter_mut().skip(place) {
            entry.unread = entry.unread.saturating_sub(1);
        }
        self.drop_read();
    }

    fn drop_read(&mut self) {
        while self.queue.front().is_some_and(|entry| entry.unread == 0) {
            drop(self.pop());
        }
        if self.queue.is_empty() && self.queue.capacity() > PLACES_KEPT {
            self.queue = VecDeque::new();
        }
    }

    fn pop(&mut self) -> Option<Arc<Shown>> {
        let Entry { event, .. } = self.queue.pop_front()?;
        self.first += 1;
        self.bytes -= event.weight();
        self.left_through = event.seq.map_or(self.left_through, |seq| seq.max(self.left_through));
        Some(event)
    }
}

#[cfg(test)]
mod tests;
