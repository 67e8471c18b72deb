//! Gemini.

use protocol::StopReason;
use serde_json::{Map, Value, json};

use super::{Encoder, FRAGMENTS, Spoken, SpokenCall, data, pieces, stop_word};

pub(super) struct Gemini<'a> {
    spoken: &'a Spoken<'a>,
}

fn word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence
        | StopReason::PauseTurn
        | StopReason::Interrupted => "STOP",
    }
}

impl<'a> Gemini<'a> {
    pub(super) fn new(spoken: &'a Spoken<'a>) -> Self {
        Self { spoken }
    }

    fn usage(&self) -> Value {
        let usage = &self.spoken.usage;
        let mut out = json!({
            "promptTokenCount": usage.prompt_tokens(),
            "candidatesTokenCount": usage.output_tokens.saturating_sub(self.spoken.reasoning),
            "totalTokenCount": usage.prompt_tokens() + usage.output_tokens,
        });
        if let Some(object) = out.as_object_mut() {
            if usage.cache_read_tokens > 0 {
                object.insert("cachedContentTokenCount".into(), usage.cache_read_tokens.into());
            }
            if self.spoken.reasoning > 0 {
                object.insert("thoughtsTokenCount".into(), self.spoken.reasoning.into());
            }
        }
        out
    }

    fn object(&self, parts: &[Value], finish: &Value) -> Value {
        let mut candidate = Map::new();
        candidate.insert("content".into(), json!({"role": "model", "parts": parts}));
        candidate.insert("index".into(), 0.into());
        if !finish.is_null() {
            candidate.insert("finishReason".into(), finish.clone());
        }
        json!({
            "candidates": [candidate], "usageMetadata": self.usage(),
            "modelVersion": self.spoken.model, "responseId": self.spoken.response_id,
        })
    }

    fn part(&self, part: Value) -> String {
        data(&self.object(&[part], &Value::Null))
    }

    fn call_part(&self, index: usize, call: &SpokenCall<'_>) -> Value {
        let args = call.args.value();
        let mut function = json!({"name": call.name, "args": args});
        if let (Some(object), Some(id)) = (function.as_object_mut(), &call.id) {
            object.shift_insert(0, "id".into(), id.as_str().into());
        }
        let mut part = json!({"functionCall": function});
        if let (Some(object), Some(signature), 0) =
            (part.as_object_mut(), &self.spoken.signature, index)
        {
            object.insert("thoughtSignature".into(), signature.as_str().into());
        }
        part
    }

    /// Returns the part that closes an answer: it carries the signature where no call does.
    fn last_part(&self) -> Value {
        match &self.spoken.signature {
            Some(signature) if self.spoken.calls.is_empty() => {
                json!({"text": "", "thoughtSignature": signature})
            }
            _ => json!({"text": ""}),
        }
    }
}

impl Encoder for Gemini<'_> {
    fn head(&mut self) -> String {
        String::new()
    }

    fn thinking(&mut self) -> String {
        let thought = pieces(self.spoken.thinking.unwrap_or_default(), FRAGMENTS);
        thought.iter().map(|piece| self.part(json!({"text": piece, "thought": true}))).collect()
    }

    fn text(&mut self, piece: &str) -> String {
        self.part(json!({"text": piece}))
    }

    fn call(&mut self, index: usize, call: &SpokenCall<'_>) -> String {
        self.part(self.call_part(index, call))
    }

    fn tail(&mut self) -> String {
        data(&self.object(&[self.last_part()], &stop_word(&self.spoken.stop, word)))
    }

    fn error(&mut self, kind: &str) -> String {
        data(&json!({"error": {"code": 503, "message": "scripted stream error", "status": kind}}))
    }

    fn whole(&mut self) -> Value {
        let mut parts = Vec::new();
        if let Some(thinking) = self.spoken.thinking {
            parts.push(json!({"text": thinking, "thought": true}));
        }
        if !self.spoken.text.is_empty() {
            parts.push(json!({"text": self.spoken.text}));
        }
        let calls = self.spoken.calls.iter().enumerate();
        parts.extend(calls.map(|(index, call)| self.call_part(index, call)));
        let last = self.last_part();
        if parts.is_empty() || last.get("thoughtSignature").is_some() {
            parts.push(last);
        }
        self.object(&parts, &stop_word(&self.spoken.stop, word))
    }
}
