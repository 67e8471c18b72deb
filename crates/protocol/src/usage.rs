//! What a model call used, and how calls and turns end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one model call or a sum of them, normalised over providers.
///
/// `input_tokens` counts what was read neither from nor into a cache; the two cache fields count
/// the rest of the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Prompt tokens outside any cache.
    pub input_tokens: u64,
    /// Tokens that the model wrote, thinking included.
    pub output_tokens: u64,
    /// Those of `output_tokens` that the model thought with, where its provider says so; they are
    /// counted there as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Prompt tokens read from a cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written into a cache.
    pub cache_write_tokens: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Returns everything that the model read: the size of the prompt in tokens.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

/// Why a model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said what it wanted.
    EndTurn,
    /// The model wants tools to run.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// A stop sequence was met.
    StopSequence,
    /// The provider paused a long turn; sending it back goes on.
    PauseTurn,
    /// The model or the provider's filter declined.
    Refusal,
    /// The turn was stopped while the model wrote; the text is what had come so far.
    Interrupted,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model finished.
    Completed,
    /// Somebody stopped it, or the program died.
    Interrupted,
    /// The limit of steps was reached.
    MaxTurns,
    /// The money or token limit was reached.
    Budget,
    /// The time limit was reached.
    Time,
    /// The model went round in circles.
    Repetition,
    /// The provider or Narthex failed.
    Error,
    /// Policy refused the turn itself.
    Denied,
}

impl TurnEnd {
    /// Returns the reason as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnEnd::Completed => "completed",
            TurnEnd::Interrupted => "interrupted",
            TurnEnd::MaxTurns => "max_turns",
            TurnEnd::Budget => "budget",
            TurnEnd::Time => "time",
            TurnEnd::Repetition => "repetition",
            TurnEnd::Error => "error",
            TurnEnd::Denied => "denied",
        }
    }
}
