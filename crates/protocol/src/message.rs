//! Messages: the transcript as a model or a person reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Block, MessageId, Timestamp};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or the results of tools in a request for the model.
    User,
    /// The model.
    Assistant,
    /// A tool; only in transcripts for people.
    Tool,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
    /// When it was recorded.
    pub created_at: Timestamp,
}
