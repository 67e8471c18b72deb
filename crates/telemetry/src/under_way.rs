//! What is under way in each session, so that its end can be timed.

use std::collections::HashMap;

use protocol::event::InteractionKind;
use protocol::{RequestId, SessionId, Timestamp, ToolCallId};

/// A span that has begun, where traces are made.
pub(crate) type Span = Option<opentelemetry_sdk::trace::Span>;

/// A model call.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) model: String,
    pub(crate) began: Timestamp,
    pub(crate) first_piece: Option<Timestamp>,
    /// When the answer was whole. What it used is told right after.
    pub(crate) answered: Option<Timestamp>,
    pub(crate) span: Span,
}

/// A tool call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) span: Span,
}

/// One session's affairs.
#[derive(Debug, Default)]
pub(crate) struct Affairs {
    /// The span of the turn.
    pub(crate) turn: Span,
    pub(crate) model: String,
    pub(crate) step: Option<Step>,
    pub(crate) calls: HashMap<ToolCallId, Call>,
    pub(crate) requests: HashMap<RequestId, (InteractionKind, Timestamp)>,
}

/// All sessions that do something. Nothing is kept of one that rests.
pub(crate) type UnderWay = HashMap<SessionId, Affairs>;
