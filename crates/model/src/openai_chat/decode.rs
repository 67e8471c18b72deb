//! An answer as this wire streams it, by all the servers that speak it in their own way.

use driver_api::{ModelError, ModelResponse};
use protocol::{Block, StopReason, Usage};
use serde_json::Value;

use crate::arguments::{self, Call};
use crate::stream::{Decoder, Deltas, Phase};
use crate::{failure, json};

/// The stream machine.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    thinking: String,
    calls: Vec<Open>,
    stop: Option<StopReason>,
    usage: Usage,
    is_done: bool,
}

#[derive(Debug)]
struct Open {
    /// The server's index; absent where it gives none.
    index: Option<u64>,
    call: Call,
}

impl Decoder for Answer {
    fn event(&mut self, _name: &str, data: &Value, deltas: &mut Deltas) -> Result<(), ModelError> {
        if data.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::of_event(data));
        }
        if let Some(choice) = json::list(data, "choices").first() {
            // A server that does not stream gives the message whole.
            let parts = ["delta", "message"];
            if let Some(delta) = parts.iter().find_map(|part| choice.get(part)) {
                self.grow(delta, deltas);
            }
            let reason = json::text(choice, "finish_reason");
            if !reason.is_empty() {
                self.stop = Some(stop(reason));
            }
        }
        if let Some(usage) = data.get("usage").filter(|usage| usage.is_object()) {
            self.usage = count(usage);
        }
        Ok(())
    }

    fn phase(&self) -> Phase {
        match (self.is_done, self.stop) {
            (true, _) => Phase::Closed,
            (false, Some(_)) => Phase::Ended,
            (false, None) => Phase::Open,
        }
    }

    fn done(&mut self) {
        self.is_done = true;
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            content.push(Block::Thinking { text: self.thinking, signed: None });
        }
        content.push(Block::text(self.text));
        let calls = self.calls.into_iter().map(|open| open.call);
        // Some servers announce a call and then make none.
        let real = calls.filter(|call| {
            !call.id.is_empty() || !call.name.is_empty() || !call.arguments.is_empty()
        });
        content.extend(real.map(|call| call.into_block(None)));
        let stop = self.stop.unwrap_or(StopReason::EndTurn);
        Ok(ModelResponse { content, stop, usage: self.usage })
    }
}

impl Answer {
    fn grow(&mut self, delta: &Value, deltas: &mut Deltas) {
        for field in ["reasoning_content", "reasoning"] {
            let piece = json::text(delta, field);
            if !piece.is_empty() {
                self.think(piece, deltas);
                break;
            }
        }
        match delta.get("content") {
            Some(Value::String(piece)) => self.say(piece, deltas),
            Some(Value::Array(parts)) => self.parts(parts, deltas),
            _ => {}
        }
        self.say(json::text(delta, "refusal"), deltas);
        for fragment in json::list(delta, "tool_calls") {
            self.call(fragment);
        }
        if let Some(function) = delta.get("function_call").filter(|call| call.is_object()) {
            // The form of before there were several calls.
            self.call(&serde_json::json!({ "index": 0, "function": function }));
        }
    }

    fn say(&mut self, piece: &str, deltas: &mut Deltas) {
        self.text.push_str(piece);
        deltas.text(piece);
    }

    fn think(&mut self, piece: &str, deltas: &mut Deltas) {
        self.thinking.push_str(piece);
        deltas.thinking(piece);
    }

    /// Some servers give content in parts, with thoughts among them.
    fn parts(&mut self, parts: &[Value], deltas: &mut Deltas) {
        for part in parts {
            self.say(json::text(part, "text"), deltas);
            for thought in json::list(part, "thinking") {
                self.think(json::text(thought, "text"), deltas);
            }
        }
    }

    fn call(&mut self, fragment: &Value) {
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let id = json::text(fragment, "id");
        let name = json::text(function, "name");
        let index = fragment.get("index").and_then(Value::as_u64);
        let position = self.place(index, id, name);
        let Some(Open { call, .. }) = self.calls.get_mut(position) else { return };
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // Most give the name once, some with every fragment, a few in pieces.
        if call.name != name && call.arguments.is_empty() {
            call.name.push_str(name);
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => call.arguments.push_str(piece),
            Some(value @ (Value::Object(_) | Value::Array(_))) => {
                call.arguments.push_str(&arguments::from_value(value));
            }
            _ => {}
        }
    }

    /// Returns the position of the call that a fragment belongs to. The index says it; but some
    /// servers count every call as 0, or not at all, and then a new id begins a new call.
    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let found = match index {
            Some(_) => self.calls.iter().rposition(|open| open.index == index),
            None => self.calls.len().checked_sub(1),
        };
        let is_new = |open: &Open| {
            !id.is_empty() && !name.is_empty() && !open.call.id.is_empty() && open.call.id != id
        };
        match found {
            Some(position) if !self.calls.get(position).is_some_and(is_new) => position,
            _ => {
                self.calls.push(Open { index, call: Call::default() });
                self.calls.len() - 1
            }
        }
    }
}

/// Counts as this wire does: cached tokens are part of the prompt's, thoughts of the answer's.
fn count(usage: &Value) -> Usage {
    let details = usage.get("prompt_tokens_details").unwrap_or(&Value::Null);
    let read =
        json::count(details, "cached_tokens").max(json::count(usage, "prompt_cache_hit_tokens"));
    let written = json::count(details, "cache_write_tokens");
    let answer = usage.get("completion_tokens_details").unwrap_or(&Value::Null);
    let output = json::count(usage, "completion_tokens");
    Usage {
        input_tokens: json::count(usage, "prompt_tokens").saturating_sub(read + written),
        output_tokens: output,
        // Some servers count thoughts apart, and then there may be more of them.
        reasoning_tokens: json::count(answer, "reasoning_tokens").min(output),
        cache_read_tokens: read,
        cache_write_tokens: written,
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "length" | "max_tokens" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
