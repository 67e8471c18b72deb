//! One answer as it streams in: bytes to deltas, and the end to a response. No I/O in here.

use driver_api::{Delta, ModelError, ModelErrorKind, ModelResponse};
use outbound::sse::{self, Event};
use protocol::{Block, StopReason, Wire};
use serde_json::Value;

use crate::failure::short;
use crate::{json, wire};

/// Largest answer, in bytes: over it a server is broken, and memory is ours.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The end was not said yet.
    Open,
    /// The end was said; usage may still follow.
    Ended,
    /// Nothing can follow.
    Closed,
}

/// What a wire makes of its events.
pub(crate) trait Decoder: Send + std::fmt::Debug {
    /// Takes the data of one event. Unknown kinds are ignored.
    ///
    /// # Errors
    /// The error that the provider sent, or `Malformed`.
    fn event(&mut self, name: &str, data: &Value, deltas: &mut Deltas) -> Result<(), ModelError>;

    /// Tells how far the stream has come.
    fn phase(&self) -> Phase;

    /// Takes the marker `[DONE]`.
    fn done(&mut self) {}

    /// Makes the response; only called when the end was said.
    ///
    /// # Errors
    /// `Malformed`.
    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError>;
}

/// The live pieces of one push, and the text of all of them.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    fresh: Vec<Delta>,
    text: String,
}

impl Deltas {
    /// Adds a piece of text. Empty pieces are nothing.
    pub(crate) fn text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            self.fresh.push(Delta::Text(piece.to_owned()));
        }
    }

    /// Adds a piece of thinking.
    pub(crate) fn thinking(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.fresh.push(Delta::Thinking(piece.to_owned()));
        }
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    sse: sse::Decoder,
    decoder: Box<dyn Decoder>,
    deltas: Deltas,
    events: Vec<Event>,
    bytes: usize,
}

impl Answer {
    /// Starts an answer of a wire.
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            sse: sse::Decoder::default(),
            decoder: wire::decoder(wire),
            deltas: Deltas::default(),
            events: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes bytes; [`Answer::fresh`] then has the live pieces in them, after an error too.
    ///
    /// # Errors
    /// With the text so far. Nothing may be pushed after an error.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > RESPONSE_BYTES_MAX {
            return Err(self.over(RESPONSE_BYTES_MAX, "answer"));
        }
        let mut events = std::mem::take(&mut self.events);
        let pushed = self.sse.push(bytes, &mut events);
        for event in events.drain(..) {
            self.take(&event).map_err(|error| self.with_text(error))?;
        }
        self.events = events;
        pushed.map_err(|sse::TooLong| self.over(sse::LINE_BYTES_MAX, "line of the answer"))
    }

    /// Takes the live pieces that have come since the last time.
    pub(crate) fn fresh(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas.fresh)
    }

    /// Tells how far the stream has come.
    pub(crate) fn phase(&self) -> Phase {
        self.decoder.phase()
    }

    /// Takes what the end of the stream leaves.
    ///
    /// # Errors
    /// As [`Answer::push`].
    pub(crate) fn end(&mut self) -> Result<(), ModelError> {
        // The last event may lack its blank line. It may also be cut in its middle, and then it
        // is the cut that is at fault, not the event.
        match self.sse.rest() {
            Some(event) if event.data.trim() == "[DONE]" || json::parse(&event.data).is_ok() => {
                self.take(&event).map_err(|error| self.with_text(error))
            }
            _ => Ok(()),
        }
    }

    /// Makes the response of a stream that is over, cleanly or by the failure that `cut` names.
    ///
    /// # Errors
    /// `Network` where the end was not said; what the decoder says.
    pub(crate) fn finish(self, cut: Option<String>) -> Result<ModelResponse, ModelError> {
        if self.decoder.phase() == Phase::Open {
            let why = cut.unwrap_or_else(|| "the stream ended before its end was said".to_owned());
            return Err(self.with_text(ModelError::new(ModelErrorKind::Network, short(&why))));
        }
        let text = self.deltas.text;
        let finished = self.decoder.finish();
        let mut response = finished.map_err(|error| ModelError { partial_text: text, ..error })?;
        response.content.retain(|block| !block.is_blank());
        response.stop = settle(response.stop, &response.content);
        Ok(response)
    }

    /// Adds the text so far to an error.
    pub(crate) fn with_text(&self, error: ModelError) -> ModelError {
        ModelError { partial_text: self.deltas.text.clone(), ..error }
    }

    fn take(&mut self, event: &Event) -> Result<(), ModelError> {
        let data = event.data.trim();
        if data.is_empty() || self.decoder.phase() == Phase::Closed {
            return Ok(());
        }
        if data == "[DONE]" {
            self.decoder.done();
            return Ok(());
        }
        let value = json::parse(data).map_err(|error| {
            let start: String = data.chars().take(200).collect();
            malformed(&format!("an event is no JSON ({error}): {start}"))
        })?;
        self.decoder.event(&event.name, &value, &mut self.deltas)
    }

    fn over(&self, limit: usize, what: &str) -> ModelError {
        let limit = stdx::bytes(u64::try_from(limit).unwrap_or(u64::MAX));
        self.with_text(malformed(&format!("the {what} is over the limit of {limit}")))
    }
}

/// Makes a `Malformed` error.
pub(crate) fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, short(message))
}

/// Corrects stop reasons that contradict the content: many servers say `stop` with calls.
fn settle(stop: StopReason, content: &[Block]) -> StopReason {
    let calls = content.iter().any(|block| matches!(block, Block::ToolUse { .. }));
    match stop {
        StopReason::EndTurn | StopReason::StopSequence if calls => StopReason::ToolUse,
        StopReason::ToolUse if !calls => StopReason::EndTurn,
        other => other,
    }
}

#[cfg(test)]
mod tests;
