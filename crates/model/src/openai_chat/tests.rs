//! Recorded streams and golden requests of this wire, and the quirks of its many servers.

#![allow(clippy::needless_pass_by_value, reason = "json literals read best as arguments")]

use driver_api::{Effort, ModelErrorKind};
use protocol::{Block, StopReason, ToolCallId, Wire};
use serde_json::{Value, json};

use crate::recorded::*;
use crate::table::Thinking;
use crate::wire::Target;

const WIRE: Wire = Wire::OpenaiChat;

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn part(delta: Value) -> Value {
    chunk(delta, Value::Null)
}

fn used() -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 3}}})
}

fn stream(deltas: &[Value], finish: &str) -> String {
    let mut events: Vec<Value> = deltas.iter().cloned().map(part).collect();
    events.push(chunk(json!({}), finish.into()));
    events.push(used());
    plain(&events) + "data: [DONE]\n\n"
}

fn fragment(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}}]})
}

const USED: [u64; 5] = [5, 5, 4, 1, 3];

#[test]
fn text_and_reasoning() {
    let deltas = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "Let me "}),
        json!({"reasoning": "think."}),
        json!({"content": "Jó "}),
        json!({"content": null, "tool_calls": []}),
        json!({"content": [{"type": "text", "text": "napot"}]}),
    ];
    let content = vec![thinking("Let me think.", None), Block::text("Jó napot")];
    let expected = response(content, StopReason::EndTurn, USED);
    check_ok(WIRE, &stream(&deltas, "stop"), &expected);
    check_ok(WIRE, &stream(&deltas, "stop").replace("\n", "\r\n"), &expected);
}

#[test]
fn parallel_calls_in_fragments() {
    let deltas = [
        fragment(json!(0), json!("call_1"), json!("read_file"), json!("")),
        fragment(json!(0), Value::Null, Value::Null, json!("{\"path\"")),
        fragment(json!(2), json!("call_2"), json!("grep"), json!("{}")),
        fragment(json!(0), json!(""), json!(""), json!(":\"ű\"}")),
    ];
    let calls =
        vec![call("call_1", "read_file", json!({"path": "ű"})), call("call_2", "grep", json!({}))];
    // Whatever the server says of the end, calls are calls.
    for finish in ["tool_calls", "stop", "function_call"] {
        let expected = response(calls.clone(), StopReason::ToolUse, USED);
        check_ok(WIRE, &stream(&deltas, finish), &expected);
    }
}

#[test]
fn quirks_of_arguments_ids_and_indexes() {
    let deltas = [
        // No index at all: a new id begins a new call.
        fragment(Value::Null, json!("a"), json!("one"), Value::Null),
        fragment(Value::Null, json!("b"), json!("two"), json!("null")),
        fragment(Value::Null, Value::Null, Value::Null, json!("")),
        // Every call counted as 0.
        fragment(json!(0), json!("c"), json!("three"), json!({"x": 1})),
        fragment(json!(0), json!("d"), json!("four"), json!("{\"y\": 2")),
        // An id used before, an empty id, an empty name.
        fragment(json!(7), json!("a"), json!("five"), json!("[]")),
        fragment(json!(8), json!(""), json!("six"), json!("  ")),
        fragment(json!(9), json!("e"), json!(""), json!("{}")),
        // Announced and never made.
        fragment(json!(10), Value::Null, Value::Null, Value::Null),
    ];
    let expected = response(
        vec![
            call("a", "one", json!({})),
            call("b", "two", json!({})),
            call("c", "three", json!({"x": 1})),
            malformed_call("d", "four", "{\"y\": 2"),
            malformed_call("a", "five", "[]"),
            call("", "six", json!({})),
            call("e", "", json!({})),
        ],
        StopReason::ToolUse,
        USED,
    );
    check_ok(WIRE, &stream(&deltas, "tool_calls"), &expected);
}

#[test]
fn names_given_again_or_in_pieces() {
    let deltas = [
        fragment(json!(0), json!("a"), json!("read_"), json!("")),
        fragment(json!(0), json!("a"), json!("file"), json!("")),
        fragment(json!(1), json!("b"), json!("grep"), json!("{\"q\":")),
        fragment(json!(1), json!("b"), json!("grep"), json!("1}")),
        json!({"function_call": {"name": "", "arguments": ""}}),
    ];
    let calls = vec![call("a", "read_file", json!({})), call("b", "grep", json!({"q": 1}))];
    check_ok(WIRE, &stream(&deltas, "tool_calls"), &response(calls, StopReason::ToolUse, USED));
}

#[test]
fn ends_of_every_kind() {
    let text = part(json!({"content": "x"}));
    let ended = |events: &[Value], tail: &str| feed(WIRE, [(plain(events) + tail).as_bytes()]).1;
    let finish = chunk(json!({}), "length".into());
    // No [DONE]; no finish reason; an empty one; a last line without its end.
    let stop = |result: Result<driver_api::ModelResponse, _>| result.unwrap().stop;
    assert_eq!(stop(ended(&[text.clone(), finish], "")), StopReason::MaxTokens);
    assert_eq!(stop(ended(std::slice::from_ref(&text), "data: [DONE]\n\n")), StopReason::EndTurn);
    let empty = chunk(json!({}), "".into());
    assert_eq!(stop(ended(&[text.clone(), empty.clone()], "data: [DONE]")), StopReason::EndTurn);
    // Neither: the stream was cut.
    for events in [vec![text.clone(), empty], vec![text, used()]] {
        let error = ended(&events, "").unwrap_err();
        assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Network, "x"));
    }
    let refused = check(WIRE, &stream(&[json!({"refusal": "No."})], "content_filter")).unwrap();
    assert_eq!(refused.stop, StopReason::Refusal);
    assert_eq!(refused.content, [Block::text("No.")]);
}

#[test]
fn a_message_given_whole() {
    let event = json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": "all",
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let content = vec![Block::text("all"), call("a", "f", json!({}))];
    let expected = response(content, StopReason::ToolUse, [3, 2, 0, 0, 0]);
    check_ok(WIRE, &plain(&[event]), &expected);
}

#[test]
fn errors_in_the_stream() {
    let mut events = vec![part(json!({"content": "half"}))];
    events.push(
        json!({"error": {"message": "slow down", "type": "rate_limit_exceeded", "code": null}}),
    );
    let error = check(WIRE, &plain(&events)).unwrap_err();
    assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::RateLimited, "half"));
    let null = json!({"error": null,
        "choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}]});
    assert_eq!(check(WIRE, &plain(&[null])).unwrap().content, [Block::text("fine")]);
}

#[test]
fn a_request_as_bytes() {
    let mut request = request(vec![
        user(vec![Block::text("look"), image()]),
        assistant(vec![
            thinking("hm", None),
            Block::text("so"),
            call("c1", "grep", json!({"b": 1, "a": 2})),
            malformed_call("c2", "no such tool", "{\"x"),
        ]),
        user(vec![
            Block::ToolResult {
                id: ToolCallId::new("c1"),
                name: "grep".into(),
                content: vec![Block::text("seen"), image()],
                is_error: false,
            },
            Block::ToolResult {
                id: ToolCallId::new("c2"),
                name: "no such tool".into(),
                content: vec![],
                is_error: true,
            },
        ]),
        assistant(vec![Block::text("done")]),
        user(vec![Block::text("thanks")]),
    ]);
    request.tools = request.tools[..1].into();
    let bytes = crate::wire::encode(WIRE, &target(Thinking::None), &request).unwrap();
    check_golden(bytes, include_str!("../../tests/data/openai_chat_request.json"));
}

#[test]
fn only_what_the_server_knows_is_sent() {
    let mut request = request(vec![user(vec![Block::text("x"), image()])]);
    request.max_output = Some(100);
    request.effort = Some(Effort::Low);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    request.output = format(schema, true);
    let local = Target { is_openai: false, images: false, ..target(Thinking::None) };
    let body = body_for(WIRE, &local, &request);
    assert_eq!(body["max_tokens"], 100);
    for absent in ["max_completion_tokens", "reasoning_effort", "prompt_cache_key"] {
        assert!(body.get(absent).is_none(), "{absent}");
    }
    assert!(!body.to_string().contains("image_url"), "an image for a model that reads none");
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    let body = body_for(WIRE, &target(Thinking::Effort), &request);
    assert_eq!(
        (&body["reasoning_effort"], &body["max_completion_tokens"]),
        (&json!("low"), &json!(100))
    );
    request.output =
        format(json!({"type": "object", "properties": {"a": {"type": "string"}}}), true);
    let body = body_for(WIRE, &local, &request);
    assert_eq!(body["response_format"]["json_schema"]["strict"], false);
}

#[test]
fn the_prefix_is_stable() {
    check_prefix(WIRE, &|step| {
        vec![Block::text("now"), call(&format!("call_{step}"), "grep", json!({"step": step}))]
    });
}
