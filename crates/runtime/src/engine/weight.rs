//! How large requests are, estimated from their bytes.
//!
//! Nobody but the provider can count tokens, so three prices are used: a low one to refuse what
//! surely does not fit, a middle one to decide when to summarise, a high one to stay within a
//! limit.

use std::sync::Arc;

use driver_api::{ModelRequest, ToolSpec};
use protocol::{Block, Message};

use crate::kernel::{BYTES_PER_TOKEN, IMAGE_BYTES};

/// Bytes of text per token at the most: an estimate with it is too low.
const BYTES_PER_TOKEN_MOST: u64 = 8;

/// Bytes of text per token at the least, outside of rare scripts: an estimate with it is too high.
const BYTES_PER_TOKEN_LEAST: u64 = 3;

/// What the frame of a message counts for.
const MESSAGE_BYTES: u64 = 16;

/// Returns about how many tokens that many bytes are.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// Returns how many tokens that many bytes are at the least.
pub(crate) fn tokens_least(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN_MOST
}

/// Returns how many tokens that many bytes are at the most.
pub(crate) fn tokens_most(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN_LEAST
}

/// Returns how many bytes surely fit so many tokens.
pub(crate) fn bytes_within(tokens: u64) -> u64 {
    tokens.saturating_mul(BYTES_PER_TOKEN_LEAST)
}

/// Returns the bytes of a block as a provider reads it.
pub(crate) fn block(block: &Block) -> u64 {
    let bytes = match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::RedactedThinking { signed } => signed.signature.len(),
        Block::ToolUse { name, input, malformed, .. } => {
            let input = serde_json::to_string(input).map_or(0, |text| text.len());
            name.len() + input + malformed.as_ref().map_or(0, String::len)
        }
        Block::ToolResult { content, .. } => return blocks(content),
        Block::Image(_) => return IMAGE_BYTES,
    };
    bytes as u64
}

/// Returns the bytes of the content of one message.
pub(crate) fn blocks(content: &[Block]) -> u64 {
    content.iter().map(block).sum::<u64>() + MESSAGE_BYTES
}

/// Returns the bytes of messages.
pub(crate) fn messages(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| blocks(&message.content)).sum()
}

/// Returns the bytes of tools.
pub(crate) fn tools(tools: &[ToolSpec]) -> u64 {
    let sizes = tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len());
    sizes.sum::<usize>() as u64
}

/// Returns the bytes of what stands before every transcript: instructions, tools, and the format of
/// the answer.
pub(crate) fn fixed(request: &ModelRequest) -> u64 {
    let output = request.output.as_ref().map_or(0, |output| output.schema.to_string().len());
    request.system.len() as u64 + tools(&request.tools) + output as u64
}

/// Returns the bytes of a request.
pub(crate) fn request(request: &ModelRequest) -> u64 {
    fixed(request) + messages(&request.messages)
}
