//! OpenAI Chat Completions, and what the servers around it add (`reasoning_content`).

use protocol::StopReason;
use serde_json::{Value, json};

use super::{Encoder, FRAGMENTS, Spoken, SpokenCall, data, pieces, stop_word};

/// When all answers were "created", in seconds; a fixed number keeps them equal over runs.
pub(super) const CREATED: u64 = 1_790_000_000;

pub(super) struct Chat<'a> {
    spoken: &'a Spoken<'a>,
}

fn word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::EndTurn
        | StopReason::StopSequence
        | StopReason::PauseTurn
        | StopReason::Interrupted => "stop",
    }
}

impl<'a> Chat<'a> {
    pub(super) fn new(spoken: &'a Spoken<'a>) -> Self {
        Self { spoken }
    }

    fn usage(&self) -> Value {
        let usage = &self.spoken.usage;
        let prompt = usage.prompt_tokens();
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompt + usage.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "completion_tokens_details": {"reasoning_tokens": self.spoken.reasoning},
        })
    }

    fn object(&self, object: &str, choices: &Value) -> Value {
        json!({
            "id": self.spoken.response_id, "object": object, "created": CREATED,
            "model": self.spoken.model, "choices": choices,
        })
    }

    fn chunk(&self, delta: &Value, finish: &Value) -> String {
        let choice = json!([{
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish,
        }]);
        data(&self.object("chat.completion.chunk", &choice))
    }

    fn piece(&self, delta: &Value) -> String {
        self.chunk(delta, &Value::Null)
    }
}

impl Encoder for Chat<'_> {
    fn head(&mut self) -> String {
        self.piece(&json!({"role": "assistant", "content": ""}))
    }

    fn thinking(&mut self) -> String {
        let thought = pieces(self.spoken.thinking.unwrap_or_default(), FRAGMENTS);
        thought.iter().map(|piece| self.piece(&json!({"reasoning_content": piece}))).collect()
    }

    fn text(&mut self, piece: &str) -> String {
        self.piece(&json!({"content": piece}))
    }

    fn call(&mut self, index: usize, call: &SpokenCall<'_>) -> String {
        let function = json!({"name": call.name, "arguments": ""});
        let first = json!({
            "index": index, "id": call.id, "type": "function", "function": function,
        });
        let mut out = self.piece(&json!({"tool_calls": [first]}));
        for piece in pieces(&call.args.text(), FRAGMENTS) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            out += &self.piece(&json!({"tool_calls": [more]}));
        }
        out
    }

    fn tail(&mut self) -> String {
        let mut out = self.chunk(&json!({}), &stop_word(&self.spoken.stop, word));
        if self.spoken.with_usage {
            let mut last = self.object("chat.completion.chunk", &json!([]));
            if let Some(object) = last.as_object_mut() {
                object.insert("usage".into(), self.usage());
            }
            out += &data(&last);
        }
        out + "data: [DONE]\n\n"
    }

    fn error(&mut self, kind: &str) -> String {
        let message = "scripted stream error";
        data(&json!({"error": {"message": message, "type": kind, "param": null, "code": null}}))
    }

    fn whole(&mut self) -> Value {
        let text = Some(self.spoken.text).filter(|text| !text.is_empty());
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        let calls: Vec<_> = (self.spoken.calls.iter())
            .map(|call| {
                let function = json!({"name": call.name, "arguments": call.args.text()});
                json!({"id": call.id, "type": "function", "function": function})
            })
            .collect();
        if let Some(object) = message.as_object_mut() {
            if let Some(thinking) = self.spoken.thinking {
                object.insert("reasoning_content".into(), thinking.into());
            }
            if !calls.is_empty() {
                object.insert("tool_calls".into(), calls.into());
            }
        }
        let finish = stop_word(&self.spoken.stop, word);
        let choices = json!([{
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish,
        }]);
        let mut out = self.object("chat.completion", &choices);
        if let Some(object) = out.as_object_mut() {
            object.insert("usage".into(), self.usage());
        }
        out
    }
}
