//! What OpenAI Responses refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Findings, Issued, flat_tools, is_name, output};
use crate::model_server::request::{Request, items, text_at};

pub(super) fn check(request: &Request, issued: &Issued, findings: &mut Findings) {
    let body = &request.body;
    findings.tools(flat_tools(body, "parameters"));
    output::openai(body.pointer("/text/format"), "text.format", findings);
    if let Some(text) = body.get("instructions").filter(|text| !text.is_null()) {
        findings.text("instructions", Some(text));
    }
    if let Some(Value::String(_)) = body.get("input") {
        return findings.text("input", body.get("input"));
    }
    let list = request.messages();
    findings.when(list.is_empty(), "input", "empty");
    let before = issued.open.get(text_at(body, "previous_response_id"));
    let open = before.into_iter().flatten().map(String::as_str).collect();
    let mut round = Round { calls: open, results: Vec::new() };
    let mut seen: HashSet<&str> = round.calls.iter().copied().collect();
    let mut last_user = None;
    for (index, item) in list.iter().enumerate() {
        let place = format!("input[{index}]");
        let kind = text_at(item, "type");
        let is_thought = list.get(index.wrapping_sub(1)).is_some_and(is_reasoning);
        let is_models =
            matches!(kind, "function_call" | "reasoning") || text_at(item, "role") == "assistant";
        findings.when(is_thought && !is_models, &place, "a thought without what followed it");
        match kind {
            "" | "message" => {
                round.close(&place, findings);
                let is_user = text_at(item, "role") == "user";
                let is_twice = is_user && index > 0 && last_user == Some(index - 1);
                findings.when(is_twice, &place, "two messages of the user in a row");
                last_user = if is_user { Some(index) } else { last_user };
                message(item, &place, findings);
            }
            "function_call" => {
                if !round.results.is_empty() {
                    round.close(&place, findings);
                }
                let id = text_at(item, "call_id");
                findings.call_id(&place, id, &mut seen);
                round.calls.push(id);
                let is_named = is_name(text_at(item, "name"));
                findings.when(!is_named, &place, "no proper name of a tool");
                findings.arguments(&place, item.get("arguments"));
            }
            "function_call_output" => {
                round.results.push(text_at(item, "call_id"));
                let is_missing = item.get("output").is_none_or(Value::is_null);
                findings.when(is_missing, &place, "the result has no output");
            }
            "reasoning" => {
                if !round.results.is_empty() {
                    round.close(&place, findings);
                }
                reasoning(item, issued, &place, findings);
            }
            "item_reference" => {}
            kind => findings.add(&place, format!("unknown item {kind:?}")),
        }
    }
    round.close("input (end)", findings);
    let is_own =
        list.last().is_some_and(|item| is_reasoning(item) || text_at(item, "role") == "assistant");
    findings.when(is_own, "input", "the last item is the model's own");
}

/// The calls of one answer and the results that have come for them.
struct Round<'a> {
    calls: Vec<&'a str>,
    results: Vec<&'a str>,
}

impl Round<'_> {
    fn close(&mut self, place: &str, findings: &mut Findings) {
        findings.pairs(place, &self.calls, &self.results);
        self.calls.clear();
        self.results.clear();
    }
}

fn is_reasoning(item: &Value) -> bool {
    text_at(item, "type") == "reasoning"
}

fn reasoning(item: &Value, issued: &Issued, place: &str, findings: &mut Findings) {
    findings.when(text_at(item, "id").is_empty(), place, "a thought without its id");
    let is_list = item.get("summary").is_some_and(Value::is_array);
    findings.when(!is_list, place, "a thought without a summary list");
    let Some(sealed) = item.get("encrypted_content").and_then(Value::as_str) else { return };
    match issued.signatures.get(sealed) {
        None => findings.add(place, "the encrypted content is not what was issued"),
        Some(text) => {
            let summary: String =
                items(item, "summary").iter().map(|part| text_at(part, "text")).collect();
            findings.when(summary != *text, place, "the summary is not what was issued");
        }
    }
}

fn message(item: &Value, place: &str, findings: &mut Findings) {
    let role = text_at(item, "role");
    let is_known = matches!(role, "user" | "assistant" | "system" | "developer");
    findings.when(!is_known, place, &format!("unknown role {role:?}"));
    let parts = items(item, "content");
    if parts.is_empty() {
        findings.text(place, item.get("content"));
    }
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        let kind = text_at(part, "type");
        let is_output = kind == "output_text" || kind == "refusal";
        match kind {
            "input_text" | "output_text" => findings.text(&place, part.get("text")),
            "input_image" => findings.data_address(&place, text_at(part, "image_url")),
            "refusal" => findings.text(&place, part.get("refusal")),
            kind => findings.add(&place, format!("unknown part {kind:?}")),
        }
        let is_swapped = is_output != (role == "assistant");
        findings.when(is_swapped, &place, &format!("{kind} in a message of the {role}"));
    }
}
