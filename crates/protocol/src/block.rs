//! Content blocks: what messages are made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolCallId;

/// The language of a provider. Signed blocks go back only to the wire that made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenaiResponses,
    /// OpenAI Chat Completions and all that speak it.
    OpenaiChat,
    /// Gemini.
    Gemini,
    /// A scenario file.
    Scripted,
}

/// A provider's seal on a block. It is sent back byte for byte, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// The wire that made the seal.
    pub wire: Wire,
    /// The seal: a signature, encrypted content, a thought signature. Opaque.
    pub signature: String,
    /// Further fields of the provider's block that must go back with it (for example its id).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// An image, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: String,
    /// The bytes in standard base64.
    pub data: String,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// The provider's seal, where it signs text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<Signed>,
    },
    /// What the model thought. Without a seal it is shown to people and never sent back.
    Thinking {
        /// The thought, or its summary; may be empty where the provider keeps it.
        text: String,
        /// The provider's seal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<Signed>,
    },
    /// A thought that the provider keeps to itself.
    RedactedThinking {
        /// The provider's sealed data.
        signed: Signed,
    },
    /// A call that the model asks for.
    ToolUse {
        /// Unique within the session.
        id: ToolCallId,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments; empty where `malformed` says that they could not be read.
        input: Map<String, Value>,
        /// The arguments as written, where they were not a JSON object. Such a call never runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        malformed: Option<String>,
        /// The provider's seal, where it signs calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signed: Option<Signed>,
    },
    /// What a call brought; only in messages for the model.
    ToolResult {
        /// The call.
        id: ToolCallId,
        /// The tool's name.
        name: String,
        /// Text and images.
        content: Vec<Block>,
        /// Whether the call failed.
        is_error: bool,
    },
    /// An image.
    Image(Image),
}

impl Block {
    /// Makes a plain text block.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text { text: text.into(), signed: None }
    }

    /// Tells whether a provider would refuse the block as empty: blank and unsigned.
    pub fn is_blank(&self) -> bool {
        match self {
            Block::Text { text, signed } => text.trim().is_empty() && signed.is_none(),
            Block::Thinking { text, signed } => text.is_empty() && signed.is_none(),
            Block::RedactedThinking { .. }
            | Block::ToolUse { .. }
            | Block::ToolResult { .. }
            | Block::Image(_) => false,
        }
    }
}
