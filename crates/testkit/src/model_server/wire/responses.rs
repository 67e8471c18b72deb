//! OpenAI Responses.

use protocol::StopReason;
use serde_json::{Value, json};

use super::chat::CREATED;
use super::{Encoder, FRAGMENTS, Spoken, SpokenCall, named, pieces};
use crate::model_server::answer::Stop;

pub(super) struct Responses<'a> {
    spoken: &'a Spoken<'a>,
    sequence: u64,
    /// The items that are whole.
    output: Vec<Value>,
    /// The text of the message that is open.
    open_text: Option<String>,
}

impl<'a> Responses<'a> {
    pub(super) fn new(spoken: &'a Spoken<'a>) -> Self {
        Self { spoken, sequence: 0, output: Vec::new(), open_text: None }
    }

    /// Writes an event: `type` and `sequence_number` first, then the given fields.
    fn event(&mut self, kind: &str, fields: Value) -> String {
        let mut value = json!({"type": kind, "sequence_number": self.sequence});
        self.sequence += 1;
        if let (Some(object), Value::Object(fields)) = (value.as_object_mut(), fields) {
            object.extend(fields);
        }
        named(kind, &value)
    }

    /// Writes an event about a part of the item that is being written.
    fn part_event(&mut self, kind: &str, item: &str, fields: Value) -> String {
        let mut value = json!({"item_id": item, "output_index": self.output.len()});
        if let (Some(object), Value::Object(fields)) = (value.as_object_mut(), fields) {
            object.extend(fields);
        }
        self.event(kind, value)
    }

    fn item_added(&mut self, item: &Value) -> String {
        let index = self.output.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}))
    }

    fn item_done(&mut self, item: Value) -> String {
        let index = self.output.len();
        let fields = json!({"output_index": index, "item": item});
        self.output.push(item);
        self.event("response.output_item.done", fields)
    }

    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.spoken.response_id, self.output.len())
    }

    fn status(&self) -> (&'static str, Value) {
        match &self.spoken.stop {
            Stop::Reason(StopReason::MaxTokens) => {
                ("incomplete", json!({"reason": "max_output_tokens"}))
            }
            Stop::Reason(StopReason::Refusal) => {
                ("incomplete", json!({"reason": "content_filter"}))
            }
            Stop::Word(word) if word == "failed" => ("failed", Value::Null),
            Stop::Reason(_) | Stop::Word(_) | Stop::Absent => ("completed", Value::Null),
        }
    }

    fn response(&self, status: &str, incomplete: &Value) -> Value {
        let is_ended = status != "in_progress";
        let usage = &self.spoken.usage;
        let spent = json!({
            "input_tokens": usage.prompt_tokens(),
            "input_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.spoken.reasoning},
            "total_tokens": usage.prompt_tokens() + usage.output_tokens,
        });
        let failed = json!({"code": "server_error", "message": "scripted failure"});
        json!({
            "id": self.spoken.response_id, "object": "response", "created_at": CREATED,
            "status": status, "model": self.spoken.model,
            "output": if is_ended { self.output.as_slice() } else { &[] },
            "error": if status == "failed" { failed } else { Value::Null },
            "incomplete_details": incomplete, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "temperature": 1.0, "top_p": 1.0,
            "usage": if is_ended { spent } else { Value::Null },
        })
    }

    fn open_message(&mut self) -> String {
        if self.open_text.is_some() {
            return String::new();
        }
        self.open_text = Some(String::new());
        let id = self.item_id("msg");
        let added = self.item_added(&json!({
            "id": id, "type": "message", "role": "assistant", "status": "in_progress",
            "content": [],
        }));
        let part = json!({"type": "output_text", "text": "", "annotations": []});
        let fields = json!({"content_index": 0, "part": part});
        added + &self.part_event("response.content_part.added", &id, fields)
    }

    fn close_message(&mut self) -> String {
        let Some(text) = self.open_text.take() else { return String::new() };
        let id = self.item_id("msg");
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        let fields = json!({"content_index": 0, "text": text, "logprobs": []});
        let mut out = self.part_event("response.output_text.done", &id, fields);
        let fields = json!({"content_index": 0, "part": part});
        out += &self.part_event("response.content_part.done", &id, fields);
        out + &self.item_done(json!({
            "id": id, "type": "message", "role": "assistant", "status": "completed",
            "content": [part],
        }))
    }
}

impl Encoder for Responses<'_> {
    fn head(&mut self) -> String {
        let response = self.response("in_progress", &Value::Null);
        let created = self.event("response.created", json!({"response": response}));
        created + &self.event("response.in_progress", json!({"response": response}))
    }

    fn thinking(&mut self) -> String {
        let Some(thinking) = self.spoken.thinking else { return String::new() };
        let id = self.item_id("rs");
        let mut out = self.item_added(&json!({"id": id, "type": "reasoning", "summary": []}));
        let part = json!({"type": "summary_text", "text": ""});
        let fields = json!({"summary_index": 0, "part": part});
        out += &self.part_event("response.reasoning_summary_part.added", &id, fields);
        for piece in pieces(thinking, FRAGMENTS) {
            let fields = json!({"summary_index": 0, "delta": piece});
            out += &self.part_event("response.reasoning_summary_text.delta", &id, fields);
        }
        let fields = json!({"summary_index": 0, "text": thinking});
        out += &self.part_event("response.reasoning_summary_text.done", &id, fields);
        let part = json!({"type": "summary_text", "text": thinking});
        let fields = json!({"summary_index": 0, "part": part});
        out += &self.part_event("response.reasoning_summary_part.done", &id, fields);
        out + &self.item_done(json!({
            "id": id, "type": "reasoning", "summary": [part],
            "encrypted_content": self.spoken.signature,
        }))
    }

    fn text(&mut self, piece: &str) -> String {
        let out = self.open_message();
        if let Some(text) = &mut self.open_text {
            text.push_str(piece);
        }
        let id = self.item_id("msg");
        let fields = json!({"content_index": 0, "delta": piece, "logprobs": []});
        out + &self.part_event("response.output_text.delta", &id, fields)
    }

    fn call(&mut self, _index: usize, call: &SpokenCall<'_>) -> String {
        let mut out = self.close_message();
        let id = self.item_id("fc");
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "call_id": call.id,
                "name": call.name, "arguments": arguments,
            })
        };
        out += &self.item_added(&item("in_progress", ""));
        let arguments = call.args.text();
        for piece in pieces(&arguments, FRAGMENTS) {
            let fields = json!({"delta": piece});
            out += &self.part_event("response.function_call_arguments.delta", &id, fields);
        }
        let fields = json!({"name": call.name, "arguments": arguments});
        out += &self.part_event("response.function_call_arguments.done", &id, fields);
        out + &self.item_done(item("completed", &arguments))
    }

    fn tail(&mut self) -> String {
        let out = self.close_message();
        let (status, incomplete) = self.status();
        let response = self.response(status, &incomplete);
        out + &self.event(&format!("response.{status}"), json!({"response": response}))
    }

    fn error(&mut self, kind: &str) -> String {
        let message = "scripted stream error";
        self.event("error", json!({"code": kind, "message": message, "param": null}))
    }

    fn whole(&mut self) -> Value {
        // The events are thrown away: what counts is the list of items that they build.
        drop(self.thinking());
        if !self.spoken.text.is_empty() {
            drop(self.text(self.spoken.text));
            drop(self.close_message());
        }
        for (index, call) in self.spoken.calls.iter().enumerate() {
            drop(self.call(index, call));
        }
        let (status, incomplete) = self.status();
        self.response(status, &incomplete)
    }
}
