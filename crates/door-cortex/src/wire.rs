//! Objects as this door shows them.

use std::path::Path;

use protocol::{Block, NeuronId, Timestamp};
use runtime_api::SessionInfo;
use runtime_api::neuron::{NeuronDriver, NeuronInfo, ToolListing};
use serde::Serialize;
use serde_json::Value;

use crate::door::{Door, is_active};
use crate::frame::session_id;
use crate::preset::{effect_class, shown};
use crate::projection::Projection;

/// A neuron.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Neuron {
    agent_id: NeuronId,
    state: &'static str,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<Isolation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    owned_elsewhere: bool,
}

/// What keeps a neuron apart.
#[derive(Debug, Serialize)]
struct Isolation {
    level: &'static str,
    layers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

impl From<NeuronInfo> for Neuron {
    fn from(info: NeuronInfo) -> Self {
        let mode = |driver| match driver {
            NeuronDriver::Host => "host",
            NeuronDriver::Namespace => "process",
        };
        Self {
            agent_id: info.id,
            state: info.state.as_str(),
            created_at: info.created_at,
            mode: info.driver.map(mode),
            driver: info.driver.map(NeuronDriver::as_str),
            isolation: info.isolation.map(|it| Isolation {
                level: it.level.as_str(),
                layers: it.layers,
                reasons: it.reasons,
            }),
            pid: info.pid,
            workspace: info.workspace.as_deref().map(Path::to_string_lossy).map(Into::into),
            owned_elsewhere: info.owner_pid.is_some(),
        }
    }
}

/// A tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    name: String,
    description: String,
    input_schema: Value,
    effect_class: &'static str,
    requires_approval: bool,
}

impl Tool {
    pub(crate) fn of(door: &Door, tool: ToolListing) -> Self {
        Self {
            name: shown(&tool.name).to_owned(),
            description: tool.description,
            input_schema: tool.input_schema,
            effect_class: effect_class(tool.effect),
            requires_approval: tool.is_always_asked || door.asks_for.contains(&tool.effect),
        }
    }
}

/// What all runs of a session have used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_creation_tokens: u64,
    /// Counted among the output as well.
    reasoning_tokens: u64,
    turns: u64,
    runs: u64,
}

/// A session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    session_id: String,
    id: String,
    agent_id: Option<NeuronId>,
    name: Option<String>,
    status: &'static str,
    model: Option<String>,
    created_at: Timestamp,
    last_active_at: Timestamp,
    expires_at: Timestamp,
    usage: Usage,
    last_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<Vec<Entry>>,
}

impl Session {
    /// Makes the outside form of a session whose record was read to its end.
    pub(crate) fn of(door: &Door, info: SessionInfo, record: &Projection) -> Self {
        let id = session_id(&info.id);
        let status = if is_active(&info) { "active" } else { "idle" };
        Self {
            session_id: id.clone(),
            id,
            name: record.name.clone(),
            status,
            created_at: info.created_at,
            last_active_at: info.updated_at,
            expires_at: door.expires_at(&info),
            usage: Usage {
                input_tokens: record.usage.input_tokens,
                output_tokens: record.usage.output_tokens,
                cache_read_tokens: record.usage.cache_read_tokens,
                cache_creation_tokens: record.usage.cache_write_tokens,
                reasoning_tokens: record.usage.reasoning_tokens,
                turns: record.turns,
                runs: record.runs,
            },
            last_seq: record.count,
            model: (!info.model.is_empty()).then_some(info.model),
            agent_id: info.neuron,
            history: None,
        }
    }
}

/// A piece of a transcript.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<Piece>,
    pub(crate) created_at: Timestamp,
    pub(crate) run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_number: Option<u32>,
}

/// A block of a piece of a transcript.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Piece {
    Text {
        text: String,
    },
    Thinking {
        text: String,
    },
    ToolCall {
        tool_call_id: String,
        tool_name: String,
        tool_input: Value,
    },
    ToolResult {
        tool_call_id: String,
        output: String,
        is_error: bool,
    },
    /// Without its data.
    Image {
        mime_type: String,
        bytes: usize,
    },
}

impl Piece {
    /// Makes the outside form of what somebody said; none of what only a provider can read.
    pub(crate) fn of(block: &Block) -> Option<Self> {
        Some(match block {
            Block::Text { text, .. } => Piece::Text { text: text.clone() },
            Block::Thinking { text, .. } if text.is_empty() => return None,
            Block::Thinking { text, .. } => Piece::Thinking { text: text.clone() },
            Block::RedactedThinking { .. } | Block::ToolResult { .. } => return None,
            Block::ToolUse { id, name, input, .. } => Piece::ToolCall {
                tool_call_id: id.to_string(),
                tool_name: shown(name).to_owned(),
                tool_input: Value::Object(input.clone()),
            },
            Block::Image(image) => Piece::Image {
                mime_type: image.mime_type.clone(),
                // Four letters of base64 are three bytes, less what fills the end up.
                bytes: (image.data.len() / 4 * 3)
                    .saturating_sub(image.data.bytes().rev().take_while(|it| *it == b'=').count()),
            },
        })
    }
}
