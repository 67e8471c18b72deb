//! Events about turns and steps. On the wire `turn` counts steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Block, MessageId, PromptId, TurnEnd, Usage};

/// A step begins: one model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    /// The number of the step within its prompt, from 1.
    pub turn: u32,
    /// The prompt that set it off.
    pub prompt_id: PromptId,
    /// The model that is asked.
    pub model: String,
}

/// The JSON that the last answer of a turn must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputFormat {
    /// A name for it: letters, digits, `_` and `-`, at most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The JSON Schema: at most 32 KiB.
    pub schema: serde_json::Value,
    /// Whether an answer that does not fit makes the turn fail.
    pub strict: bool,
}

/// What a prompt asks for beside its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptOptions {
    /// The model of this turn alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The JSON that the answer must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
    /// The id of the request that brought the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A prompt waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptQueued {
    /// The prompt.
    pub prompt_id: PromptId,
    /// How many are before it, itself counted.
    pub position: u32,
    /// What was said.
    pub content: Vec<Block>,
    /// The limit of steps of its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What else it asks for.
    #[serde(flatten)]
    pub options: PromptOptions,
}

/// A prompt's turn begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptStarted {
    /// The prompt.
    pub prompt_id: PromptId,
    /// The message that it becomes in the transcript.
    pub message_id: MessageId,
    /// What was said.
    pub content: Vec<Block>,
    /// The limit of steps of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The slash command that the prompt is; the runtime obeys it and no model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What else it asks for.
    #[serde(flatten)]
    pub options: PromptOptions,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// Why it ended.
    pub reason: TurnEnd,
    /// A stable code that says more about `error`, for example `context_overflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people: what went wrong and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tokens of all steps.
    pub usage: Usage,
    /// The price of all steps in US dollars; absent where one is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How many steps were taken.
    pub turns: u32,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The text of the last answer.
    pub text: String,
    /// How many calls were refused because nobody could be asked or answered in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u32,
    /// The last answer as JSON, where the prompt asked for that and it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The turn is over. Exactly one per turn, whatever happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// What came of it.
    #[serde(flatten)]
    pub result: TurnResult,
}

/// A prompt's turn is over; the last event that the prompt causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptFinished {
    /// The prompt.
    pub prompt_id: PromptId,
    /// What came of it.
    pub result: TurnResult,
}
