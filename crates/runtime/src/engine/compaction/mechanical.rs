//! A summary without a model: what can be told from the record alone.

use std::collections::HashMap;

use protocol::event::{Display, ToolResult};
use protocol::{Block, EventBody, ToolCallId};
use serde_json::{Map, Value};

use super::Plan;
use super::record::{plain, shorten};

/// How many of the newest calls are told.
const CALLS_MAX: usize = 20;

/// How much of a call's arguments is told, in bytes.
const CALL_BYTES: usize = 200;

/// How much of the newest answer is told, in bytes.
const ANSWER_BYTES: usize = 4_000;

/// How much of the earlier summary is told, in bytes.
const EARLIER_BYTES: usize = 12_000;

/// Puts a summary together, at most about so many bytes long.
pub(crate) fn put_together(plan: &Plan, bytes_max: u64) -> String {
    let mut parts = Vec::new();
    if let Some(earlier) = &plan.earlier {
        parts.push(format!("## What was summarised before\n{}", shorten(earlier, EARLIER_BYTES)));
    }
    let calls = calls(plan);
    if !calls.is_empty() {
        parts.push(format!("## The newest calls, oldest first\n{}", calls.join("\n")));
    }
    if let Some(answer) = newest_answer(plan) {
        parts.push(format!("## The newest answer\n{}", shorten(&answer, ANSWER_BYTES)));
    }
    if parts.is_empty() {
        parts.push("Nothing of it can be told shortly.".to_owned());
    }
    shorten(&parts.join("\n\n"), usize::try_from(bytes_max).unwrap_or(usize::MAX))
}

fn newest_answer(plan: &Plan) -> Option<String> {
    plan.older.iter().rev().find_map(|(_, body)| match body {
        EventBody::AssistantMessage(message) => {
            Some(plain(&message.content)).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    })
}

/// Says what the newest calls were and how each ended.
fn calls(plan: &Plan) -> Vec<String> {
    let mut ends: HashMap<&ToolCallId, String> = HashMap::new();
    for (_, body) in &plan.older {
        match body {
            EventBody::ToolResult(result) => {
                ends.insert(&result.tool_call_id, end_of(result));
            }
            EventBody::ToolDenied(denied) => {
                ends.insert(&denied.tool_call_id, "refused".to_owned());
            }
            _ => {}
        }
    }
    let mut lines = Vec::new();
    for (_, body) in plan.older.iter().rev() {
        let EventBody::AssistantMessage(message) = body else { continue };
        for block in message.content.iter().rev() {
            let Block::ToolUse { id, name, input, .. } = block else { continue };
            if lines.len() == CALLS_MAX {
                break;
            }
            let end = ends.get(id).map_or("without a result", String::as_str);
            lines.push(format!("- {name} {}: {end}", about(input)));
        }
    }
    lines.reverse();
    lines
}

fn end_of(result: &ToolResult) -> String {
    match &result.display {
        Some(Display::Exit { code: Some(code), .. }) => format!("exit code {code}"),
        Some(Display::Exit { signal: Some(signal), .. }) => format!("ended by signal {signal}"),
        _ if result.is_error => {
            let text = plain(&result.output);
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("failed: {}", shorten(line.trim(), CALL_BYTES))
        }
        _ => "done".to_owned(),
    }
}

/// Writes arguments in one short line: a lone command or path as it is.
fn about(input: &Map<String, Value>) -> String {
    let lone = ["command", "path", "pattern", "url"]
        .iter()
        .find_map(|name| input.get(*name).and_then(Value::as_str).map(str::to_owned));
    let text = lone.unwrap_or_else(|| serde_json::to_string(input).unwrap_or_default());
    let line: Vec<&str> = text.split_whitespace().collect();
    shorten(&line.join(" "), CALL_BYTES).replace('\n', " ")
}
