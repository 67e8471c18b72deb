//! An event as viewers share it.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use protocol::{Event, EventBody};

/// The languages that doors encode events in. One more for each door that streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Frames of the v1 door's event stream.
    V1,
    /// Frames of the cortex door, of all that an event becomes there.
    Cortex,
}

/// What an event counts for beside its text: its ids, its place, its handles.
const EVENT_BYTES: usize = 256;

/// What an event counts for whose size nobody said.
const UNSAID_BYTES: usize = 1024;

/// An event on its way to viewers. Each language encodes it at most once, however many watch.
#[derive(Debug)]
pub struct Shown {
    event: Event,
    weight: usize,
    v1: OnceLock<Bytes>,
    cortex: OnceLock<Bytes>,
}

impl Shown {
    /// Wraps an event that is durable, or live only. A delta weighs what its text does, anything
    /// else a flat kilobyte: whoever has encoded it knows better, see [`Shown::sized`].
    pub fn new(event: Event) -> Self {
        let bytes = match &event.body {
            EventBody::TextDelta(delta) => delta.text.len(),
            EventBody::ThinkingDelta(delta) => delta.text.len(),
            EventBody::ToolProgress(progress) => progress.text.len(),
            _ => UNSAID_BYTES,
        };
        Self::sized(event, bytes)
    }

    /// Wraps an event whose body has this many bytes when it is encoded.
    pub fn sized(event: Event, bytes: usize) -> Self {
        let (v1, cortex) = Default::default();
        Self { event, weight: bytes.saturating_add(EVENT_BYTES), v1, cortex }
    }

    /// Returns about how many bytes the event takes. What a language makes of it is about as much
    /// once more.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the event's bytes in a language; the first caller encodes them.
    pub fn encoded(&self, language: Language, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        let slot = match language {
            Language::V1 => &self.v1,
            Language::Cortex => &self.cortex,
        };
        slot.get_or_init(|| encode(&self.event)).clone()
    }

    /// Returns the event alone.
    pub fn into_event(self) -> Event {
        self.event
    }
}

impl Deref for Shown {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl From<Event> for Shown {
    fn from(event: Event) -> Self {
        Self::new(event)
    }
}
