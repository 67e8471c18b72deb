//! Events about what the model says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Block, MessageId, StopReason};

/// Live text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextDelta {
    /// The piece.
    pub text: String,
}

/// Live thinking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingDelta {
    /// The piece.
    pub text: String,
}

/// What the model answered, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Its id.
    pub message_id: MessageId,
    /// What it says.
    pub content: Vec<Block>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// The provider is in trouble and is asked again. Viewers start the current block anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How many attempts have failed.
    pub attempt: u32,
    /// The limit of attempts; 0 where time is the limit.
    pub max_attempts: u32,
    /// How long until the next attempt, in milliseconds.
    pub delay_ms: u64,
    /// What the provider said, truthfully labelled.
    pub reason: String,
    /// The text that had come before the stream broke.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial_text: String,
}
