//! Recorded streams and golden requests of this wire.

#![allow(clippy::needless_pass_by_value, reason = "json literals read best as arguments")]

use driver_api::{Effort, ModelErrorKind};
use protocol::{Block, StopReason, ToolCallId, Wire};
use serde_json::{Value, json};

use crate::recorded::*;
use crate::table::Thinking;

const WIRE: Wire = Wire::Gemini;

fn event(parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 30,
        "cachedContentTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3,
        "totalTokenCount": 37}, "modelVersion": "m"})
}

const USED: [u64; 5] = [20, 7, 10, 0, 3];

fn signed_call(id: &str, name: &str, input: Value, signature: &str) -> Block {
    let Block::ToolUse { id, name, input, malformed, .. } = call(id, name, input) else {
        panic!("a call");
    };
    Block::ToolUse { id, name, input, malformed, signed: Some(seal(WIRE, signature, json!({}))) }
}

#[test]
fn text_thoughts_and_signatures_on_their_parts() {
    let events = [
        event(json!([{"text": "Hm, ", "thought": true}]), None),
        event(json!([{"text": "two.", "thought": true}]), None),
        event(json!([{"text": "Hel"}]), None),
        event(json!([{"text": "ló 🦀"}]), None),
        event(
            json!([{"functionCall": {"id": "f1", "name": "grep", "args": {"a": 1}},
                "thoughtSignature": "S+/=="},
            {"functionCall": {"name": "grep"}}]),
            None,
        ),
        event(json!([{"text": "", "thoughtSignature": "T+/=="}]), Some("STOP")),
    ];
    let content = vec![
        thinking("Hm, two.", None),
        Block::text("Helló 🦀"),
        signed_call("f1", "grep", json!({"a": 1}), "S+/=="),
        call("", "grep", json!({})),
        Block::Text { text: String::new(), signed: Some(seal(WIRE, "T+/==", json!({}))) },
    ];
    check_ok(WIRE, &plain(&events), &response(content, StopReason::ToolUse, USED));
}

#[test]
fn ends_of_every_kind() {
    let stopped = |reason: &str| {
        check(WIRE, &plain(&[event(json!([{"text": "x"}]), Some(reason))]))
            .map(|answer| answer.stop)
    };
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("OTHER", StopReason::EndTurn),
    ] {
        assert_eq!(stopped(reason), Ok(stop), "{reason}");
    }
    let broken = stopped("MALFORMED_FUNCTION_CALL").unwrap_err();
    assert_eq!((broken.kind, broken.partial_text.as_str()), (ModelErrorKind::Malformed, "x"));
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5}});
    let expected = response(vec![], StopReason::Refusal, [5, 0, 0, 0, 0]);
    check_ok(WIRE, &plain(&[blocked]), &expected);
    let cut = check(WIRE, &plain(&[event(json!([{"text": "x"}]), None)])).unwrap_err();
    assert_eq!((cut.kind, cut.partial_text.as_str()), (ModelErrorKind::Network, "x"));
}

#[test]
fn a_reason_in_every_event_ends_nothing_early() {
    let events =
        [event(json!([{"text": "a"}]), Some("STOP")), event(json!([{"text": "b"}]), Some("STOP"))];
    let (_, result) = feed(WIRE, plain(&events).as_bytes().chunks(7));
    assert_eq!(result.unwrap().content, [Block::text("ab")]);
}

#[test]
fn arguments_that_are_no_object() {
    let parts = json!([{"functionCall": {"name": "f", "args": null}},
        {"functionCall": {"name": "g", "args": [1]}}, {"executableCode": {"code": "1"}}, {}]);
    let content = vec![call("", "f", json!({})), malformed_call("", "g", "[1]")];
    let expected = response(content, StopReason::ToolUse, USED);
    check_ok(WIRE, &plain(&[event(parts, Some("STOP"))]), &expected);
}

#[test]
fn errors_in_the_stream() {
    let error = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    let events = [event(json!([{"text": "half"}]), None), error.clone()];
    let failed = check(WIRE, &plain(&events)).unwrap_err();
    assert_eq!((failed.kind, failed.partial_text.as_str()), (ModelErrorKind::Unavailable, "half"));
    let listed = check(WIRE, &plain(&[json!([error])])).unwrap_err();
    assert_eq!(listed.kind, ModelErrorKind::Unavailable);
}

#[test]
fn a_request_as_bytes() {
    let mut request = request(vec![
        user(vec![Block::text("look"), image()]),
        assistant(vec![
            thinking("unsealed", None),
            thinking("sealed", Some(seal(WIRE, "H==", json!({})))),
            Block::text("so"),
            signed_call("c1", "grep", json!({"a": 1}), "S+/=="),
            call("c2", "grep", json!({})),
        ]),
        user(vec![
            Block::ToolResult {
                id: ToolCallId::new("c1"),
                name: "another name".into(),
                content: vec![Block::text("seen"), image()],
                is_error: false,
            },
            Block::ToolResult {
                id: ToolCallId::new("c2"),
                name: "grep".into(),
                content: vec![Block::text("gone")],
                is_error: true,
            },
            Block::text("and?"),
        ]),
    ]);
    request.tools = request.tools[..1].into();
    request.max_output = Some(50);
    let bytes = crate::wire::encode(WIRE, &target(Thinking::None), &request).unwrap();
    check_golden(bytes, include_str!("../../tests/data/gemini_request.json"));
}

#[test]
fn settings_of_thinking_and_schema() {
    let mut request = request(vec![user(vec![Block::text("x")])]);
    request.effort = Some(Effort::Low);
    request.output = format(
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}),
        true,
    );
    let config = |style| body_for(WIRE, &target(style), &request)["generationConfig"].clone();
    assert_eq!(
        config(Thinking::Budget),
        json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 2048}})
    );
    assert_eq!(config(Thinking::Effort)["thinkingConfig"]["thinkingLevel"], "low");
    assert!(config(Thinking::None).get("thinkingConfig").is_none());
}

#[test]
fn sealed_parts_go_back_where_they_were() {
    let parts = json!([{"text": "a"}, {"text": "b \"é\"", "thoughtSignature": "B+/="},
        {"functionCall": {"id": "f", "name": "grep", "args": {"z": 1, "a": 2}},
            "thoughtSignature": "C+/="},
        {"text": "", "thoughtSignature": "D+/="}]);
    let answer = check(WIRE, &plain(&[event(parts.clone(), Some("STOP"))])).unwrap();
    let messages = vec![
        user(vec![Block::text("x")]),
        assistant(through_log(&answer.content)),
        user(vec![result("f", "grep", "y")]),
    ];
    assert_eq!(
        body(WIRE, &request(messages))["contents"][1]["parts"].to_string(),
        parts.to_string()
    );
}

#[test]
fn the_prefix_is_stable() {
    check_prefix(WIRE, &|step| {
        vec![signed_call(
            &format!("call_{step}"),
            "grep",
            json!({"step": step}),
            &format!("S{step}+/="),
        )]
    });
}
