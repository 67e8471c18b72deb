//! The answers of the scripted model, in the wire of Anthropic Messages.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The tool that is called.
const TOOL: &str = "run_shell";

/// Returns the command of a step: it does nothing, and differs from step to step so that nobody
/// takes it for going round in circles.
pub(crate) fn command(step: usize) -> String {
    format!("true {step}")
}

/// Returns the answer that calls the tool.
pub(crate) fn tool_call(step: usize) -> Vec<u8> {
    let block = json!({"type": "tool_use", "id": format!("toolu_bench_{step:06}"), "name": TOOL,
                       "input": {}});
    let input = json!({"command": command(step)}).to_string();
    let delta = json!({"type": "input_json_delta", "partial_json": input});
    answer(step, &block, &delta, "tool_use")
}

/// Returns the answer that ends the turn.
pub(crate) fn text(step: usize) -> Vec<u8> {
    let block = json!({"type": "text", "text": ""});
    let delta = json!({"type": "text_delta", "text": "All steps are done."});
    answer(step, &block, &delta, "end_turn")
}

fn answer(step: usize, block: &Value, delta: &Value, stop: &str) -> Vec<u8> {
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let mut bytes = opening(step, block).into_bytes();
    bytes.extend_from_slice(event(&delta).as_bytes());
    bytes.extend_from_slice(closing(stop).as_bytes());
    bytes
}

fn opening(step: usize, block: &Value) -> String {
    let message = json!({"id": format!("msg_bench_{step:06}"), "type": "message",
        "role": "assistant", "model": "bench-model", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 1}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    event(&json!({"type": "message_start", "message": message})) + &event(&start)
}

fn closing(stop: &str) -> String {
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
                     "usage": {"output_tokens": 20}});
    let stops = event(&json!({"type": "content_block_stop", "index": 0}));
    stops + &event(&end) + &event(&json!({"type": "message_stop"}))
}

fn event(event: &Value) -> String {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {kind}\ndata: {event}\n\n")
}

/// Returns how an answer in many deltas begins, before the first.
pub(crate) fn text_opening() -> String {
    opening(0, &json!({"type": "text", "text": ""}))
}

/// Returns one delta of it.
pub(crate) fn text_delta(text: &str) -> String {
    let delta = json!({"type": "text_delta", "text": text});
    event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

/// Returns how it ends.
pub(crate) fn text_closing() -> String {
    closing("end_turn")
}

/// Finds the command in an answer, as a client does; none in one that ends the turn.
///
/// # Errors
/// When the answer is not of this wire.
pub(crate) fn command_of(answer: &str) -> Result<Option<String>> {
    let mut input = String::new();
    for line in answer.lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data).context("read an event of the answer")?;
        let part = event.pointer("/delta/partial_json").and_then(Value::as_str);
        input.push_str(part.unwrap_or_default());
    }
    if input.is_empty() {
        return Ok(None);
    }
    let input: Value = serde_json::from_str(&input).context("read the arguments of the call")?;
    Ok(input.get("command").and_then(Value::as_str).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_finds_the_command() {
        let call = String::from_utf8(tool_call(7)).unwrap();
        assert_eq!(command_of(&call).unwrap(), Some("true 7".into()));
        let end = String::from_utf8(text(8)).unwrap();
        assert_eq!(command_of(&end).unwrap(), None);
    }
}
