//! What came of a prompt.

use std::time::Duration;

use protocol::event::TurnResult;
use protocol::{SessionId, TurnEnd, Usage};

/// What came of a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunResult {
    /// Why it ended. Only [`TurnEnd::Completed`] means that the model finished.
    pub reason: TurnEnd,
    /// A stable code that says more where something went wrong, for example `context_overflow`.
    pub code: Option<String>,
    /// For people: what went wrong and what to do about it.
    pub message: Option<String>,
    /// The tokens of all model calls.
    pub usage: Usage,
    /// The price of all model calls in US dollars; none where one is not known.
    pub cost_usd: Option<f64>,
    /// The text of the last answer.
    pub text: String,
    /// How many model calls there were.
    pub turns: u32,
    /// How long it took.
    pub duration: Duration,
    /// How many tool calls were refused because nobody could be asked or answered in time.
    pub unanswered: u32,
    /// The session.
    pub session_id: SessionId,
}

impl RunResult {
    pub(crate) fn new(session_id: SessionId, result: TurnResult) -> Self {
        Self {
            reason: result.reason,
            code: result.code,
            message: result.message,
            usage: result.usage,
            cost_usd: result.cost_usd,
            text: result.text,
            turns: result.turns,
            duration: Duration::from_millis(result.duration_ms),
            unanswered: result.unanswered,
            session_id,
        }
    }
}
