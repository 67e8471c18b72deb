//! What servers of Chat Completions refuse, the strict ones among the compatible included.

use std::collections::HashSet;

use serde_json::Value;

use super::{Findings, is_name, output};
use crate::model_server::request::{Request, items, text_at};

pub(super) fn check(request: &Request, findings: &mut Findings) {
    let functions = items(&request.body, "tools").iter().filter_map(|tool| tool.get("function"));
    findings.tools(functions.map(|tool| (text_at(tool, "name"), tool.get("parameters"))));
    let format = request.body.pointer("/response_format/json_schema");
    output::openai(format, "response_format.json_schema", findings);
    for field in ["max_tokens", "max_completion_tokens"] {
        let is_wrong = request.body.get(field).is_some_and(|v| v.as_u64().unwrap_or(0) == 0);
        findings.when(is_wrong, field, "no positive number");
    }
    let messages = request.messages();
    findings.when(messages.is_empty(), "messages", "empty");
    let mut seen = HashSet::new();
    let mut calls: Vec<&str> = Vec::new();
    let mut results: Vec<&str> = Vec::new();
    let mut roles = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        let role = text_at(message, "role");
        if role == "tool" {
            results.push(text_at(message, "tool_call_id"));
            let is_missing = message.get("content").is_none_or(Value::is_null);
            findings.when(is_missing, &place, "the result has no content");
            continue;
        }
        // Between a call and the next message of another kind stand all its results.
        findings.pairs(&place, &calls, &results);
        let is_answered = !results.is_empty();
        calls.clear();
        results.clear();
        match role {
            "system" | "developer" => {
                findings.when(index != 0, &place, "a system message that is not the first");
                content(message, &place, findings);
            }
            "user" => {
                // A user's word after results continues the user's side.
                let is_twice = roles.last() == Some(&"user") && !is_answered;
                findings.when(is_twice, &place, "two messages of the user in a row");
                content(message, &place, findings);
                roles.push(role);
            }
            "assistant" => {
                let is_twice = roles.last() == Some(&"assistant") && !is_answered;
                findings.when(is_twice, &place, "two messages of the model in a row");
                findings.when(roles.is_empty(), &place, "the first message is not the user's");
                calls = assistant(message, &place, &mut seen, findings);
                roles.push(role);
            }
            other => findings.add(&place, format!("unknown role {other:?}")),
        }
    }
    findings.pairs("messages (end)", &calls, &results);
    let is_own = messages.last().is_some_and(|message| text_at(message, "role") == "assistant");
    findings.when(is_own, "messages", "the last message is the model's own");
}

/// Checks a message of the model; returns the ids of its calls.
fn assistant<'a>(
    message: &'a Value,
    place: &str,
    seen: &mut HashSet<&'a str>,
    findings: &mut Findings,
) -> Vec<&'a str> {
    let calls = items(message, "tool_calls");
    let has_list = message.get("tool_calls").is_some_and(|calls| !calls.is_null());
    findings.when(has_list && calls.is_empty(), place, "an empty list of calls");
    let has_content = message.get("content").is_some_and(|content| !content.is_null());
    if has_content || calls.is_empty() {
        content(message, place, findings);
    }
    for (index, call) in calls.iter().enumerate() {
        let place = format!("{place}.tool_calls[{index}]");
        findings.call_id(&place, text_at(call, "id"), seen);
        findings.when(text_at(call, "type") != "function", &place, "the type is not function");
        let function = call.get("function").unwrap_or(&Value::Null);
        findings.when(!is_name(text_at(function, "name")), &place, "no proper name of a tool");
        findings.arguments(&place, function.get("arguments"));
    }
    calls.iter().map(|call| text_at(call, "id")).collect()
}

fn content(message: &Value, place: &str, findings: &mut Findings) {
    let parts = items(message, "content");
    if parts.is_empty() {
        findings.text(place, message.get("content"));
    }
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        match text_at(part, "type") {
            "text" => findings.text(&place, part.get("text")),
            "image_url" => {
                let image = part.get("image_url").unwrap_or(&Value::Null);
                findings.data_address(&place, text_at(image, "url"));
            }
            kind => findings.add(&place, format!("unknown part {kind:?}")),
        }
    }
}
