//! How the core says no.

use serde::{Deserialize, Serialize};

/// An expected no: part of the contract and safe to show to the caller.
///
/// A *fault* (a bug, a lost disk) is something else: each crate has its own `Error` for those, and
/// a caller sees only that there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind of no.
    pub code: RefusalCode,
    /// One sentence for the caller: what was wrong and what would be right.
    pub message: String,
}

impl Refusal {
    /// Makes a refusal.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// Every kind of no. Closed on purpose: a new one does not compile until every door has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// A field of the request is wrong; the message names it.
    Invalid,
    /// No such session.
    SessionNotFound,
    /// The session is in the middle of a turn.
    SessionBusy,
    /// Another living process owns the session.
    OwnedElsewhere,
    /// No such interaction.
    RequestNotFound,
    /// The interaction was decided before.
    RequestResolved,
    /// No such point to go back to, or its files are not kept any more.
    CheckpointNotFound,
    /// Too many prompts wait.
    QueueFull,
    /// As many sessions are open as may be.
    TooManySessions,
    /// Policy locks the setting.
    LockedByPolicy,
    /// Policy does not allow the model.
    ModelNotAllowed,
    /// The model's name resolves to nothing.
    InvalidModel,
    /// A request, body or file is over its limit.
    TooLarge,
    /// The program is about to stop.
    ShuttingDown,
    /// No such neuron.
    NeuronNotFound,
    /// A neuron of that id exists, or is being created.
    NeuronExists,
    /// The neuron's first process is gone.
    NeuronNotRunning,
    /// As many as may be are there; later there may be room.
    NoCapacity,
    /// This machine, or this driver, cannot do it.
    NotSupported,
}

impl RefusalCode {
    /// Returns the code in the native spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalCode::Invalid => "invalid",
            RefusalCode::SessionNotFound => "session_not_found",
            RefusalCode::SessionBusy => "session_busy",
            RefusalCode::OwnedElsewhere => "owned_elsewhere",
            RefusalCode::RequestNotFound => "request_not_found",
            RefusalCode::RequestResolved => "request_resolved",
            RefusalCode::CheckpointNotFound => "checkpoint_not_found",
            RefusalCode::QueueFull => "queue_full",
            RefusalCode::TooManySessions => "too_many_sessions",
            RefusalCode::LockedByPolicy => "locked_by_policy",
            RefusalCode::ModelNotAllowed => "model_not_allowed",
            RefusalCode::InvalidModel => "invalid_model",
            RefusalCode::TooLarge => "too_large",
            RefusalCode::ShuttingDown => "shutting_down",
            RefusalCode::NeuronNotFound => "neuron_not_found",
            RefusalCode::NeuronExists => "neuron_exists",
            RefusalCode::NeuronNotRunning => "neuron_not_running",
            RefusalCode::NoCapacity => "no_capacity",
            RefusalCode::NotSupported => "not_supported",
        }
    }
}
