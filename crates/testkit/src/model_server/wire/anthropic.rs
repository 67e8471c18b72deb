//! Anthropic Messages.

use protocol::StopReason;
use serde_json::{Value, json};

use super::{Encoder, FRAGMENTS, Spoken, SpokenCall, named, pieces, stop_word};

pub(super) struct Anthropic<'a> {
    spoken: &'a Spoken<'a>,
    /// The index of the next block.
    next: usize,
    is_text_open: bool,
}

fn word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::Interrupted => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::PauseTurn => "pause_turn",
        StopReason::Refusal => "refusal",
    }
}

fn event(mut value: Value, kind: &str) -> String {
    if let Some(object) = value.as_object_mut() {
        object.shift_insert(0, "type".into(), kind.into());
    }
    named(kind, &value)
}

impl<'a> Anthropic<'a> {
    pub(super) fn new(spoken: &'a Spoken<'a>) -> Self {
        Self { spoken, next: 0, is_text_open: false }
    }

    fn usage(&self, output_tokens: u64) -> Value {
        let usage = &self.spoken.usage;
        json!({
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": output_tokens,
        })
    }

    fn message(&self, content: &Value, stop: &Value, output_tokens: u64) -> Value {
        json!({
            "id": self.spoken.response_id, "type": "message", "role": "assistant",
            "model": self.spoken.model, "content": content, "stop_reason": stop,
            "stop_sequence": null, "usage": self.usage(output_tokens),
        })
    }

    fn open(&mut self, block: &Value) -> String {
        let closed = self.close();
        let start = json!({"index": self.next, "content_block": block});
        closed + &event(start, "content_block_start")
    }

    fn delta(&self, delta: &Value) -> String {
        event(json!({"index": self.next, "delta": delta}), "content_block_delta")
    }

    /// Ends the block that is open under the current index.
    fn end_block(&mut self) -> String {
        let out = event(json!({"index": self.next}), "content_block_stop");
        self.next += 1;
        out
    }

    fn close(&mut self) -> String {
        if !self.is_text_open {
            return String::new();
        }
        self.is_text_open = false;
        self.end_block()
    }
}

impl Encoder for Anthropic<'_> {
    fn head(&mut self) -> String {
        let message = self.message(&json!([]), &Value::Null, 1);
        event(json!({"message": message}), "message_start") + &event(json!({}), "ping")
    }

    fn thinking(&mut self) -> String {
        let mut out = String::new();
        if let Some(thinking) = self.spoken.thinking {
            out += &self.open(&json!({"type": "thinking", "thinking": "", "signature": ""}));
            for piece in pieces(thinking, FRAGMENTS) {
                out += &self.delta(&json!({"type": "thinking_delta", "thinking": piece}));
            }
            let signature = &self.spoken.signature;
            out += &self.delta(&json!({"type": "signature_delta", "signature": signature}));
            out += &self.end_block();
        }
        for sealed in self.spoken.redacted {
            out += &self.open(&json!({"type": "redacted_thinking", "data": sealed}));
            out += &self.end_block();
        }
        out
    }

    fn text(&mut self, piece: &str) -> String {
        let mut out = String::new();
        if !self.is_text_open {
            out = self.open(&json!({"type": "text", "text": ""}));
            self.is_text_open = true;
        }
        out + &self.delta(&json!({"type": "text_delta", "text": piece}))
    }

    fn call(&mut self, _index: usize, call: &SpokenCall<'_>) -> String {
        let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        let mut out = self.open(&block);
        out += &self.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in pieces(&call.args.text(), FRAGMENTS) {
            out += &self.delta(&json!({"type": "input_json_delta", "partial_json": piece}));
        }
        out + &self.end_block()
    }

    fn tail(&mut self) -> String {
        let stop = stop_word(&self.spoken.stop, word);
        let delta = json!({"stop_reason": stop, "stop_sequence": null});
        let usage = self.usage(self.spoken.usage.output_tokens);
        self.close()
            + &event(json!({"delta": delta, "usage": usage}), "message_delta")
            + &event(json!({}), "message_stop")
    }

    fn error(&mut self, kind: &str) -> String {
        event(json!({"error": {"type": kind, "message": "scripted stream error"}}), "error")
    }

    fn whole(&mut self) -> Value {
        let mut content = Vec::new();
        if let Some(thinking) = self.spoken.thinking {
            let signature = &self.spoken.signature;
            content.push(json!({
                "type": "thinking", "thinking": thinking, "signature": signature,
            }));
        }
        let sealed = self.spoken.redacted.iter();
        content.extend(sealed.map(|data| json!({"type": "redacted_thinking", "data": data})));
        if !self.spoken.text.is_empty() {
            content.push(json!({"type": "text", "text": self.spoken.text}));
        }
        content.extend(self.spoken.calls.iter().map(|call| {
            let input = call.args.value();
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
        }));
        let stop = stop_word(&self.spoken.stop, word);
        self.message(&content.into(), &stop, self.spoken.usage.output_tokens)
    }
}
