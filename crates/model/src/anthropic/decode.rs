//! An answer as this wire streams it.

use driver_api::{ModelError, ModelResponse};
use protocol::{Block, Signed, StopReason, Usage, Wire};
use serde_json::{Map, Value};

use crate::arguments::{self, Call};
use crate::stream::{Decoder, Deltas, Phase};
use crate::{failure, json};

/// The stream machine.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    blocks: Vec<Open>,
    stop: Option<StopReason>,
    usage: Usage,
    is_over: bool,
}

/// A block that grows. Indexes may have gaps and may be used again after a block has ended.
#[derive(Debug)]
struct Open {
    index: u64,
    is_open: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Text(String),
    Thinking {
        text: String,
        signature: String,
        extra: Map<String, Value>,
    },
    Redacted {
        data: String,
        extra: Map<String, Value>,
    },
    Call(Call),
    /// A kind that we do not know; its pieces are dropped with it.
    Unknown,
}

impl Decoder for Answer {
    fn event(&mut self, name: &str, data: &Value, deltas: &mut Deltas) -> Result<(), ModelError> {
        let kind = match json::text(data, "type") {
            "" => name,
            kind => kind,
        };
        match kind {
            "message_start" => {
                let message = data.get("message").unwrap_or(&Value::Null);
                self.count(message.get("usage"));
            }
            "content_block_start" => self.start(data, deltas),
            "content_block_delta" => self.grow(data, deltas),
            "content_block_stop" => {
                if let Some(block) = self.open(json::count(data, "index")) {
                    block.is_open = false;
                }
            }
            "message_delta" => {
                let delta = data.get("delta").unwrap_or(&Value::Null);
                self.stop = stop(json::text(delta, "stop_reason")).or(self.stop);
                self.count(data.get("usage"));
            }
            "message_stop" => self.is_over = true,
            "error" => return Err(failure::of_event(data)),
            // `ping`, and whatever comes to the wire later.
            _ => {}
        }
        Ok(())
    }

    fn phase(&self) -> Phase {
        if self.is_over { Phase::Closed } else { Phase::Open }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let content = self.blocks.into_iter().filter_map(|block| block.body.into_block()).collect();
        let stop = self.stop.unwrap_or(StopReason::EndTurn);
        Ok(ModelResponse { content, stop, usage: self.usage })
    }
}

impl Answer {
    fn open(&mut self, index: u64) -> Option<&mut Open> {
        self.blocks.iter_mut().rev().find(|block| block.is_open && block.index == index)
    }

    fn start(&mut self, data: &Value, deltas: &mut Deltas) {
        let index = json::count(data, "index");
        let block = data.get("content_block").unwrap_or(&Value::Null);
        let owned = |field: &str| json::text(block, field).to_owned();
        let body = match json::text(block, "type") {
            "text" => {
                deltas.text(json::text(block, "text"));
                Body::Text(owned("text"))
            }
            "thinking" => {
                deltas.thinking(json::text(block, "thinking"));
                Body::Thinking {
                    text: owned("thinking"),
                    signature: owned("signature"),
                    extra: extra(block, &["type", "thinking", "signature"]),
                }
            }
            "redacted_thinking" => {
                Body::Redacted { data: owned("data"), extra: extra(block, &["type", "data"]) }
            }
            "tool_use" => {
                // The start holds an empty object; servers that do not stream arguments put all
                // of them here.
                let input = block
                    .get("input")
                    .filter(|input| input.as_object().is_none_or(|fields| !fields.is_empty()));
                let arguments = input.map(arguments::from_value).unwrap_or_default();
                Body::Call(Call { id: owned("id"), name: owned("name"), arguments })
            }
            _ => Body::Unknown,
        };
        self.blocks.push(Open { index, is_open: true, body });
    }

    fn grow(&mut self, data: &Value, deltas: &mut Deltas) {
        let index = json::count(data, "index");
        let delta = data.get("delta").unwrap_or(&Value::Null);
        let kind = json::text(delta, "type");
        if self.open(index).is_none() {
            // Some servers leave the start of a text block out.
            let body = match kind {
                "text_delta" => Body::Text(String::new()),
                "thinking_delta" | "signature_delta" => Body::Thinking {
                    text: String::new(),
                    signature: String::new(),
                    extra: Map::new(),
                },
                _ => return,
            };
            self.blocks.push(Open { index, is_open: true, body });
        }
        let Some(block) = self.open(index) else { return };
        match (&mut block.body, kind) {
            (Body::Text(text), "text_delta") => {
                let piece = json::text(delta, "text");
                text.push_str(piece);
                deltas.text(piece);
            }
            (Body::Thinking { text, .. }, "thinking_delta") => {
                let piece = json::text(delta, "thinking");
                text.push_str(piece);
                deltas.thinking(piece);
            }
            (Body::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(json::text(delta, "signature"));
            }
            (Body::Call(call), "input_json_delta") => {
                call.arguments.push_str(json::text(delta, "partial_json"));
            }
            _ => {}
        }
    }

    /// Counts are cumulative, and some servers repeat only part of them: the greatest is right.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let count = |field, before: u64| json::count(usage, field).max(before);
        self.usage = Usage {
            input_tokens: count("input_tokens", self.usage.input_tokens),
            output_tokens: count("output_tokens", self.usage.output_tokens),
            // This wire does not count thoughts.
            reasoning_tokens: 0,
            cache_read_tokens: count("cache_read_input_tokens", self.usage.cache_read_tokens),
            cache_write_tokens: count("cache_creation_input_tokens", self.usage.cache_write_tokens),
        };
    }
}

impl Body {
    fn into_block(self) -> Option<Block> {
        let seal = |signature, extra| Signed { wire: Wire::Anthropic, signature, extra };
        match self {
            Body::Text(text) => Some(Block::text(text)),
            Body::Thinking { text, signature, extra } => {
                let signed = (!signature.is_empty()).then(|| seal(signature, extra));
                Some(Block::Thinking { text, signed })
            }
            Body::Redacted { data, extra } => {
                Some(Block::RedactedThinking { signed: seal(data, extra) })
            }
            Body::Call(call) => Some(call.into_block(None)),
            Body::Unknown => None,
        }
    }
}

/// Keeps the fields that we do not know, so that a sealed block goes back as it came.
fn extra(block: &Value, known: &[&str]) -> Map<String, Value> {
    let fields = block.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn stop(reason: &str) -> Option<StopReason> {
    Some(match reason {
        "" => return None,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "pause_turn" => StopReason::PauseTurn,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    })
}
