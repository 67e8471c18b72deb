//! Recorded streams and golden requests of this wire.

#![allow(clippy::needless_pass_by_value, reason = "json literals read best as arguments")]

use driver_api::{Effort, ModelErrorKind};
use protocol::{Block, StopReason, ToolCallId, Wire};
use serde_json::{Value, json};

use crate::recorded::*;
use crate::table::Thinking;

const WIRE: Wire = Wire::OpenaiResponses;

fn item(kind: &str, index: u64, item: Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta})
}

fn end(kind: &str, extra: Value) -> Value {
    let mut response = json!({"id": "resp_1", "status": kind, "error": null,
        "incomplete_details": null,
        "output": [], "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 26}});
    for (name, value) in extra.as_object().unwrap() {
        response[name] = value.clone();
    }
    json!({"type": format!("response.{kind}"), "response": response})
}

fn stream(events: &[Value]) -> String {
    let head =
        json!({"type": "response.created", "response": {"status": "in_progress", "usage": null}});
    let events: Vec<Value> = [head]
        .into_iter()
        .chain(events.iter().cloned())
        .chain([end("completed", json!({}))])
        .collect();
    named(&events)
}

const USED: [u64; 5] = [8, 6, 12, 0, 2];

fn reasoning() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [
        {"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
        "encrypted_content": "Enc+/a==", "status": "completed", "later": null})
}

#[test]
fn text_reasoning_and_parallel_calls() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Szia 🦀", "annotations": []}]});
    let function = |status: &str, arguments: &str, n: u64| {
        json!({"id": format!("fc_{n}"), "type": "function_call", "status": status,
            "call_id": format!("call_{n}"), "name": "grep", "arguments": arguments})
    };
    let events = [
        item("added", 0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0}),
        delta("reasoning_summary_text", 0, "First."),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0}),
        delta("reasoning_summary_text", 0, "Then."),
        item("done", 0, reasoning()),
        item("added", 1, json!({"id": "msg_1", "type": "message", "content": []})),
        json!({"type": "response.content_part.added", "output_index": 1}),
        delta("output_text", 1, "Szia "),
        delta("output_text", 1, "🦀"),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Szia 🦀"}),
        item("done", 1, message),
        item("added", 2, function("in_progress", "", 1)),
        item("added", 3, function("in_progress", "", 2)),
        delta("function_call_arguments", 3, "{\"a\""),
        delta("function_call_arguments", 2, "{}"),
        delta("function_call_arguments", 3, ":1}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 3,
            "arguments": "{\"a\":1}"}),
        item("done", 3, function("completed", "{\"a\":1}", 2)),
        item("done", 2, function("completed", "", 1)),
        json!({"type": "response.something_new", "output_index": 9}),
    ];
    let summary = reasoning()["summary"].clone();
    let content = vec![
        thinking(
            "First.\n\nThen.",
            Some(seal(WIRE, "Enc+/a==", json!({"id": "rs_1", "summary": summary}))),
        ),
        Block::text("Szia 🦀"),
        call("call_1", "grep", json!({})),
        call("call_2", "grep", json!({"a": 1})),
    ];
    check_ok(WIRE, &stream(&events), &response(content, StopReason::ToolUse, USED));
}

#[test]
fn a_server_that_sends_whole_items_only() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "whole"}]});
    let call_item =
        json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": null});
    let content = vec![Block::text("whole"), call("c", "f", json!({}))];
    let expected = response(content, StopReason::ToolUse, USED);
    check_ok(
        WIRE,
        &stream(&[item("done", 0, message.clone()), item("done", 1, call_item.clone())]),
        &expected,
    );
    let last = end("completed", json!({"output": [message, call_item]}));
    check_ok(WIRE, &named(&[last]), &expected);
}

#[test]
fn a_server_that_says_no_item_done() {
    let events = [
        item("added", 0, json!({"type": "message"})),
        delta("output_text", 0, "gathered"),
        item(
            "added",
            4,
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}),
        ),
        delta("function_call_arguments", 4, "{\"x\": tru"),
    ];
    let content = vec![Block::text("gathered"), malformed_call("c", "f", "{\"x\": tru")];
    check_ok(WIRE, &stream(&events), &response(content, StopReason::ToolUse, USED));
}

#[test]
fn ends_of_every_kind() {
    let text = delta("output_text", 0, "x");
    let stopped = |reason: &str| {
        let details = json!({"incomplete_details": {"reason": reason}});
        check(WIRE, &named(&[text.clone(), end("incomplete", details)])).unwrap().stop
    };
    assert_eq!(stopped("max_output_tokens"), StopReason::MaxTokens);
    assert_eq!(stopped("content_filter"), StopReason::Refusal);
    let refusal = check(WIRE, &stream(&[delta("refusal", 0, "I will not.")])).unwrap();
    assert_eq!(refusal.stop, StopReason::Refusal);

    let failed = end("failed", json!({"error": {"code": "server_error", "message": "oops"}}));
    let error = check(WIRE, &named(&[text.clone(), failed])).unwrap_err();
    assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Unavailable, "x"));
    let event =
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null});
    let error = check(WIRE, &named(&[text.clone(), event])).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert!(error.message.contains("slow"), "{error}");
    let error = check(WIRE, &named(&[text])).unwrap_err();
    assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Network, "x"));
}

#[test]
fn a_request_as_bytes() {
    let summary = json!([{"type": "summary_text", "text": "S"}]);
    let mut request = request(vec![
        user(vec![Block::text("look"), image()]),
        assistant(vec![
            thinking("S", Some(seal(WIRE, "Enc==", json!({"id": "rs_1", "summary": summary})))),
            thinking("foreign", Some(seal(Wire::Anthropic, "A==", json!({})))),
            Block::Text {
                text: "so".into(),
                signed: Some(seal(WIRE, "", json!({"phase": "commentary"}))),
            },
            call("c1", "grep", json!({"a": 1})),
        ]),
        user(vec![
            Block::ToolResult {
                id: ToolCallId::new("c1"),
                name: "grep".into(),
                content: vec![Block::text("seen"), image()],
                is_error: true,
            },
            Block::text("and?"),
        ]),
    ]);
    request.tools = request.tools[..1].into();
    request.max_output = Some(50);
    request.effort = Some(Effort::Medium);
    let bytes = crate::wire::encode(WIRE, &target(Thinking::Effort), &request).unwrap();
    check_golden(bytes, include_str!("../../tests/data/openai_responses_request.json"));
}

#[test]
fn sealed_reasoning_goes_back_byte_for_byte() {
    let mut whole = reasoning();
    whole["content"] = json!([{"type": "reasoning_text", "text": "in \"full\" é"}]);
    let function =
        json!({"type": "function_call", "call_id": "c", "name": "grep", "arguments": "{}"});
    let answer =
        check(WIRE, &stream(&[item("done", 0, whole.clone()), item("done", 1, function)])).unwrap();
    let blocks = through_log(&answer.content);
    let messages =
        vec![user(vec![Block::text("x")]), assistant(blocks), user(vec![result("c", "grep", "y")])];
    let body = body(WIRE, &request(messages));
    let sent = &body["input"][1];
    for field in ["id", "type", "summary", "content", "encrypted_content"] {
        assert_eq!(sent[field].to_string(), whole[field].to_string(), "{field}");
    }
    assert!(sent.get("status").is_none() && sent.get("later").is_none());
}

#[test]
fn reasoning_that_led_to_nothing_is_left_out() {
    let sealed = thinking("t", Some(seal(WIRE, "E", json!({"id": "rs", "summary": []}))));
    let messages =
        vec![user(vec![Block::text("a")]), assistant(vec![sealed]), user(vec![Block::text("b")])];
    let body = body(WIRE, &request(messages));
    assert_eq!(body["input"].as_array().unwrap().len(), 3);
    assert_eq!(body["input"][1]["content"][0]["text"], "(no text)");
    assert!(body.get("include").is_none(), "a model that does not reason is not asked to");
}

#[test]
fn the_prefix_is_stable() {
    check_prefix(WIRE, &|step| {
        let extra = json!({"id": format!("rs_{step}"), "summary": []});
        vec![
            thinking("", Some(seal(WIRE, &format!("E{step}+/="), extra))),
            call(&format!("call_{step}"), "grep", json!({"step": step})),
        ]
    });
}
