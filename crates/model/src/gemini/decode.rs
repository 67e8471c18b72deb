//! An answer as this wire streams it: each event is a whole response with the next parts.

use driver_api::{ModelError, ModelResponse};
use protocol::{Block, Signed, StopReason, Usage, Wire};
use serde_json::{Map, Value};

use crate::arguments::{self, Call};
use crate::stream::{Decoder, Deltas, Phase, malformed};
use crate::{failure, json};

/// The stream machine.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    blocks: Vec<Block>,
    stop: Option<StopReason>,
    usage: Usage,
}

impl Decoder for Answer {
    fn event(&mut self, _name: &str, data: &Value, deltas: &mut Deltas) -> Result<(), ModelError> {
        // Some gateways wrap each event into a list of one.
        let data = data.get(0).unwrap_or(data);
        if data.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::of_event(data));
        }
        if let Some(usage) = data.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = count(usage);
        }
        if let Some(candidate) = json::list(data, "candidates").first() {
            let content = candidate.get("content").unwrap_or(&Value::Null);
            for part in json::list(content, "parts") {
                self.part(part, deltas);
            }
            self.end(json::text(candidate, "finishReason"), candidate)?;
        }
        let feedback = data.get("promptFeedback").unwrap_or(&Value::Null);
        if !json::text(feedback, "blockReason").is_empty() {
            self.stop = Some(StopReason::Refusal);
        }
        Ok(())
    }

    fn phase(&self) -> Phase {
        // No marker closes the stream, and some servers name the reason in every event.
        if self.stop.is_some() { Phase::Ended } else { Phase::Open }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let stop = self.stop.unwrap_or(StopReason::EndTurn);
        Ok(ModelResponse { content: self.blocks, stop, usage: self.usage })
    }
}

impl Answer {
    fn part(&mut self, part: &Value, deltas: &mut Deltas) {
        let signature = json::text(part, "thoughtSignature");
        let signed = (!signature.is_empty()).then(|| Signed {
            wire: Wire::Gemini,
            signature: signature.to_owned(),
            extra: Map::new(),
        });
        if let Some(function) = part.get("functionCall").filter(|call| call.is_object()) {
            let field = |name: &str| json::text(function, name).to_owned();
            let arguments = function.get("args").map(arguments::from_value).unwrap_or_default();
            let call = Call { id: field("id"), name: field("name"), arguments };
            self.blocks.push(call.into_block(signed));
            return;
        }
        let Some(text) = part.get("text").and_then(Value::as_str) else { return };
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            deltas.thinking(text);
            self.think(text, signed);
        } else {
            deltas.text(text);
            self.say(text, signed);
        }
    }

    /// A part with a signature stays a part of its own; those without grow together.
    fn say(&mut self, piece: &str, seal: Option<Signed>) {
        match self.blocks.last_mut() {
            Some(Block::Text { text, signed: None }) if seal.is_none() => text.push_str(piece),
            _ => self.blocks.push(Block::Text { text: piece.to_owned(), signed: seal }),
        }
    }

    fn think(&mut self, piece: &str, seal: Option<Signed>) {
        match self.blocks.last_mut() {
            Some(Block::Thinking { text, signed: None }) if seal.is_none() => text.push_str(piece),
            _ => self.blocks.push(Block::Thinking { text: piece.to_owned(), signed: seal }),
        }
    }

    fn end(&mut self, reason: &str, candidate: &Value) -> Result<(), ModelError> {
        match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => {}
            "MAX_TOKENS" => self.stop = Some(StopReason::MaxTokens),
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" => self.stop = Some(StopReason::Refusal),
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
                let said = json::text(candidate, "finishMessage");
                return Err(malformed(&format!("the model broke off with {reason}: {said}")));
            }
            _ => self.stop = Some(StopReason::EndTurn),
        }
        Ok(())
    }
}

/// Counts as this wire does: cached tokens are part of the prompt's, thoughts are apart.
fn count(usage: &Value) -> Usage {
    let read = json::count(usage, "cachedContentTokenCount");
    let prompt = json::count(usage, "promptTokenCount");
    let tools = json::count(usage, "toolUsePromptTokenCount");
    let written = json::count(usage, "candidatesTokenCount");
    let thoughts = json::count(usage, "thoughtsTokenCount");
    Usage {
        input_tokens: prompt.saturating_add(tools).saturating_sub(read),
        output_tokens: written.saturating_add(thoughts),
        reasoning_tokens: thoughts,
        cache_read_tokens: read,
        cache_write_tokens: 0,
    }
}
