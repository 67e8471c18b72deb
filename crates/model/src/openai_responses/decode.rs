//! An answer as this wire streams it.

use std::collections::BTreeMap;

use driver_api::{ModelError, ModelResponse};
use protocol::{Block, Signed, StopReason, Usage, Wire};
use serde_json::{Map, Value};

use crate::arguments::{self, Call};
use crate::stream::{Decoder, Deltas, Phase};
use crate::{failure, json};

/// The stream machine.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    items: BTreeMap<u64, Item>,
    end: Option<StopReason>,
    refused: bool,
    usage: Usage,
}

/// An output item that grows. When the provider says that it is done, its own copy of the whole
/// item takes the place of what was gathered.
#[derive(Debug, Default)]
struct Item {
    text: String,
    thinking: String,
    call: Option<Call>,
    whole: Option<Value>,
}

impl Decoder for Answer {
    fn event(&mut self, name: &str, data: &Value, deltas: &mut Deltas) -> Result<(), ModelError> {
        let kind = match json::text(data, "type") {
            "" => name,
            kind => kind,
        };
        match kind {
            "response.output_item.added" => self.add(data),
            "response.output_item.done" => self.complete(data, deltas),
            "response.completed" | "response.incomplete" | "response.done" => {
                self.end(data, deltas)
            }
            "response.failed" | "response.cancelled" => {
                let response = data.get("response").unwrap_or(data);
                return Err(failure::of_event(response));
            }
            "error" => return Err(failure::of_event(data)),
            _ => self.grow(kind, data, deltas),
        }
        Ok(())
    }

    fn phase(&self) -> Phase {
        if self.end.is_some() { Phase::Closed } else { Phase::Open }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, ModelError> {
        let mut stop = self.end.unwrap_or(StopReason::EndTurn);
        if self.refused && stop == StopReason::EndTurn {
            stop = StopReason::Refusal;
        }
        let content = self.items.into_values().flat_map(Item::into_blocks).collect();
        Ok(ModelResponse { content, stop, usage: self.usage })
    }
}

impl Answer {
    fn item(&mut self, data: &Value) -> &mut Item {
        self.items.entry(json::count(data, "output_index")).or_default()
    }

    fn add(&mut self, data: &Value) {
        let added = data.get("item").unwrap_or(&Value::Null);
        let item = self.item(data);
        if json::text(added, "type") == "function_call" {
            let arguments = added.get("arguments").map(arguments::from_value).unwrap_or_default();
            let (id, name) = (json::text(added, "call_id"), json::text(added, "name"));
            item.call = Some(Call { id: id.to_owned(), name: name.to_owned(), arguments });
        }
    }

    fn grow(&mut self, kind: &str, data: &Value, deltas: &mut Deltas) {
        let piece = json::text(data, "delta");
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.refused |= kind == "response.refusal.delta";
                self.item(data).text.push_str(piece);
                deltas.text(piece);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.item(data).thinking.push_str(piece);
                deltas.thinking(piece);
            }
            "response.reasoning_summary_part.added" => {
                // Summaries come in parts that are paragraphs.
                let thinking = &mut self.item(data).thinking;
                if !thinking.is_empty() {
                    thinking.push_str("\n\n");
                    deltas.thinking("\n\n");
                }
            }
            "response.function_call_arguments.delta" => {
                if let Some(call) = &mut self.item(data).call {
                    call.arguments.push_str(piece);
                }
            }
            "response.function_call_arguments.done" => {
                let arguments = data.get("arguments").map(arguments::from_value);
                if let (Some(call), Some(arguments)) = (&mut self.item(data).call, arguments) {
                    call.arguments = arguments;
                }
            }
            // Everything else repeats what deltas or whole items say, or is unknown.
            _ => {}
        }
    }

    fn complete(&mut self, data: &Value, deltas: &mut Deltas) {
        let Some(whole) = data.get("item").filter(|item| item.is_object()) else { return };
        let item = self.item(data);
        // A server that sends no deltas is shown when it is done.
        if item.text.is_empty() {
            deltas.text(&text_of(whole).0);
        }
        if item.thinking.is_empty() {
            deltas.thinking(&thinking_of(whole));
        }
        self.refused |= text_of(whole).1;
        self.item(data).whole = Some(whole.clone());
    }

    fn end(&mut self, data: &Value, deltas: &mut Deltas) {
        let response = data.get("response").unwrap_or(data);
        if self.items.is_empty() {
            // A server that streams no items gives them all at the end.
            for (index, item) in json::list(response, "output").iter().enumerate() {
                self.complete(&serde_json::json!({ "output_index": index, "item": item }), deltas);
            }
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.usage = count(usage);
        }
        let details = response.get("incomplete_details").unwrap_or(&Value::Null);
        self.end = Some(match (json::text(response, "status"), json::text(details, "reason")) {
            (_, "content_filter") => StopReason::Refusal,
            ("incomplete", _) | (_, "max_output_tokens") => StopReason::MaxTokens,
            _ => StopReason::EndTurn,
        });
    }
}

impl Item {
    fn into_blocks(self) -> Vec<Block> {
        match &self.whole {
            Some(whole) => blocks_of(whole),
            None => self.gathered(),
        }
    }

    /// What stands for an item of which the provider never said that it was done.
    fn gathered(self) -> Vec<Block> {
        let mut blocks =
            vec![Block::Thinking { text: self.thinking, signed: None }, Block::text(self.text)];
        blocks.extend(self.call.map(|call| call.into_block(None)));
        blocks
    }
}

fn blocks_of(item: &Value) -> Vec<Block> {
    match json::text(item, "type") {
        "message" => {
            // The phase of a message goes back with it; the wire has no seal for texts.
            let fields = item.get("phase").filter(|phase| phase.is_string());
            let extra: Map<_, _> =
                fields.map(|phase| ("phase".to_owned(), phase.clone())).into_iter().collect();
            let text = text_of(item).0;
            let signed = (!extra.is_empty() && !text.trim().is_empty()).then(|| sealed("", extra));
            vec![Block::Text { text, signed }]
        }
        "reasoning" => {
            let encrypted = json::text(item, "encrypted_content");
            let known = ["type", "encrypted_content", "status"];
            let fields = item.as_object().into_iter().flatten();
            let extra = fields
                .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let signed = (!encrypted.is_empty()).then(|| sealed(encrypted, extra));
            vec![Block::Thinking { text: thinking_of(item), signed }]
        }
        "function_call" => {
            let field = |name: &str| json::text(item, name).to_owned();
            let arguments = item.get("arguments").map(arguments::from_value).unwrap_or_default();
            let call = Call { id: field("call_id"), name: field("name"), arguments };
            vec![call.into_block(None)]
        }
        _ => Vec::new(),
    }
}

fn sealed(signature: &str, extra: Map<String, Value>) -> Signed {
    Signed { wire: Wire::OpenaiResponses, signature: signature.to_owned(), extra }
}

/// Returns a message's text, and whether it is a refusal.
fn text_of(item: &Value) -> (String, bool) {
    let mut text = String::new();
    let mut refused = false;
    if json::text(item, "type") == "message" {
        for part in json::list(item, "content") {
            text.push_str(json::text(part, "text"));
            let refusal = json::text(part, "refusal");
            refused |= !refusal.is_empty();
            text.push_str(refusal);
        }
    }
    (text, refused)
}

/// Returns what may be shown of a thought: its summary, or all of it where the server is open.
fn thinking_of(item: &Value) -> String {
    if json::text(item, "type") != "reasoning" {
        return String::new();
    }
    let texts = |field: &str| -> Vec<String> {
        json::list(item, field).iter().map(|part| json::text(part, "text").to_owned()).collect()
    };
    let summary = texts("summary").join("\n\n");
    if summary.is_empty() { texts("content").concat() } else { summary }
}

/// Counts as this wire does: cached tokens are part of the prompt's, thoughts of the answer's.
fn count(usage: &Value) -> Usage {
    let details = usage.get("input_tokens_details").unwrap_or(&Value::Null);
    let read = json::count(details, "cached_tokens");
    let written = json::count(details, "cache_write_tokens");
    let answer = usage.get("output_tokens_details").unwrap_or(&Value::Null);
    let output = json::count(usage, "output_tokens");
    Usage {
        input_tokens: json::count(usage, "input_tokens").saturating_sub(read + written),
        output_tokens: output,
        reasoning_tokens: json::count(answer, "reasoning_tokens").min(output),
        cache_read_tokens: read,
        cache_write_tokens: written,
    }
}
