//! What Anthropic Messages refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Findings, Issued, flat_tools, is_name, output};
use crate::model_server::request::{Request, items, text_at};

/// How many cache marks a request may carry.
const CACHE_MARKS_MAX: usize = 4;
/// The least tokens to think with, where a request sets a budget.
const BUDGET_MIN: u64 = 1024;

pub(super) fn check(request: &Request, issued: &Issued, findings: &mut Findings) {
    let body = &request.body;
    let has_version = request.headers.contains_key("anthropic-version");
    findings.when(!has_version, "headers", "anthropic-version is missing");
    let max_tokens = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
    findings.when(max_tokens == 0, "max_tokens", "missing, or no positive number");
    match body.get("system") {
        None => {}
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                findings.text(&format!("system[{index}]"), block.get("text"));
            }
        }
        system => findings.text("system", system),
    }
    findings.tools(flat_tools(body, "input_schema"));
    output::anthropic(body, findings);
    findings.when(
        cache_marks(body) > CACHE_MARKS_MAX,
        "cache_control",
        "more than 4 blocks are marked",
    );
    let thinking = body.get("thinking").unwrap_or(&Value::Null);
    if let Some(budget) = thinking.get("budget_tokens").and_then(Value::as_u64) {
        let is_wrong = budget < BUDGET_MIN || budget >= max_tokens;
        findings.when(is_wrong, "thinking", "the budget is not from 1024 to below max_tokens");
    }
    let is_thinking = matches!(text_at(thinking, "type"), "enabled" | "adaptive");
    messages(request.messages(), issued, is_thinking, findings);
}

fn messages(messages: &[Value], issued: &Issued, is_thinking: bool, findings: &mut Findings) {
    let roles: Vec<_> = messages.iter().map(|message| text_at(message, "role")).collect();
    findings.roles("messages", &roles, "assistant");
    let newest = roles.iter().rposition(|role| *role == "assistant");
    let mut seen = HashSet::new();
    let mut calls = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        let role = text_at(message, "role");
        let blocks = items(message, "content");
        if blocks.is_empty() {
            findings.text(&place, message.get("content"));
        }
        for (at, block) in blocks.iter().enumerate() {
            let place = format!("{place}.content[{at}]");
            check_block(block, role, issued, &place, findings);
            if text_at(block, "type") == "tool_use" {
                findings.call_id(&place, text_at(block, "id"), &mut seen);
            }
        }
        if role == "user" {
            results_first(blocks, &place, findings);
            let results = ids(blocks, "tool_result", "tool_use_id");
            findings.pairs(&place, &calls, &results);
            calls.clear();
        } else {
            calls = ids(blocks, "tool_use", "id");
            if is_thinking && newest == Some(index) {
                thought_kept(blocks, issued, &place, findings);
            }
        }
    }
    let end = format!("messages[{}]", messages.len());
    findings.pairs(&end, &calls, &[]);
}

fn ids<'a>(blocks: &'a [Value], kind: &str, field: &str) -> Vec<&'a str> {
    let of_kind = blocks.iter().filter(|block| text_at(block, "type") == kind);
    of_kind.map(|block| text_at(block, field)).collect()
}

fn results_first(blocks: &[Value], place: &str, findings: &mut Findings) {
    let is_result = |block: &Value| text_at(block, "type") == "tool_result";
    let is_sorted = blocks.iter().skip_while(|b| is_result(b)).all(|b| !is_result(b));
    findings.when(!is_sorted, place, "a tool result stands after other content");
}

fn check_block(block: &Value, role: &str, issued: &Issued, place: &str, findings: &mut Findings) {
    let belongs_to = |findings: &mut Findings, owner: &str, what: &str| {
        findings.when(role != owner, place, &format!("{what} in a message of the {role}"));
    };
    match text_at(block, "type") {
        "text" => findings.text(place, block.get("text")),
        "image" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            if text_at(source, "type") != "url" {
                findings.image(place, text_at(source, "media_type"), text_at(source, "data"));
            }
        }
        "document" => {}
        "tool_use" => {
            belongs_to(findings, "assistant", "a call");
            findings.when(!is_name(text_at(block, "name")), place, "no proper name of a tool");
            let is_object = block.get("input").is_some_and(Value::is_object);
            findings.when(!is_object, place, "the input is no object");
        }
        "tool_result" => {
            belongs_to(findings, "user", "a result");
            check_result(block, place, findings);
        }
        "thinking" => {
            belongs_to(findings, "assistant", "thinking");
            match issued.signatures.get(text_at(block, "signature")) {
                None => findings.add(place, "the signature is not one that was issued"),
                Some(text) => findings.when(
                    text != text_at(block, "thinking"),
                    place,
                    "the thinking is not what was signed",
                ),
            }
        }
        "redacted_thinking" => {
            belongs_to(findings, "assistant", "thinking");
            let is_known = issued.sealed.contains(text_at(block, "data"));
            findings.when(!is_known, place, "the sealed thought is not one that was issued");
        }
        kind => findings.add(place, format!("unknown block {kind:?}")),
    }
}

fn check_result(block: &Value, place: &str, findings: &mut Findings) {
    let content = block.get("content");
    let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let parts = items(block, "content");
    let is_empty = parts.is_empty() && content.and_then(Value::as_str).is_none_or(str::is_empty);
    findings.when(is_error && is_empty, place, "a failed result says nothing");
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        match text_at(part, "type") {
            "text" => findings.text(&place, part.get("text")),
            "image" => check_block(part, "user", &Issued::default(), &place, findings),
            kind => findings.add(&place, format!("unknown block {kind:?} in a result")),
        }
    }
}

/// While thinking is on, the newest message with signed calls begins with their thinking.
fn thought_kept(blocks: &[Value], issued: &Issued, place: &str, findings: &mut Findings) {
    let first = blocks.first().map_or("", |block| text_at(block, "signature"));
    let wanted = ids(blocks, "tool_use", "id").into_iter().find_map(|id| issued.calls.get(id));
    let is_lost = wanted.is_some_and(|wanted| wanted != first);
    findings.when(is_lost, place, "the thinking that came with these calls is gone");
}

fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(cache_marks).sum(),
        Value::Object(fields) => {
            let own = usize::from(fields.get("cache_control").is_some_and(|mark| !mark.is_null()));
            own + fields.values().map(cache_marks).sum::<usize>()
        }
        _ => 0,
    }
}
