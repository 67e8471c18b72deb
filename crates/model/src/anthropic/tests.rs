//! Recorded streams and golden requests of this wire.

#![allow(clippy::needless_pass_by_value, reason = "json literals read best as arguments")]

use driver_api::{Effort, ModelErrorKind};
use protocol::{Block, StopReason, ToolCallId, Wire};
use serde_json::{Value, json};

use crate::recorded::*;
use crate::table::Thinking;

const WIRE: Wire = Wire::Anthropic;

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "content": [], "model": "m", "stop_reason": null,
        "usage": {"input_tokens": 7, "output_tokens": 1,
        "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}}})
}

fn end(stop: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn stream(blocks: &[Value], stop: &str) -> String {
    let events: Vec<Value> =
        [start()].into_iter().chain(blocks.iter().cloned()).chain(end(stop)).collect();
    named(&events)
}

/// A call whose arguments come in the pieces given.
fn tool(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<Value> {
    let mut events =
        vec![open(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))];
    let piece =
        |text: &&str| delta(index, json!({"type": "input_json_delta", "partial_json": text}));
    events.extend(pieces.iter().map(piece));
    events.push(close(index));
    events
}

#[test]
fn text_with_pings_comments_and_unknown_events() {
    let text = stream(
        &[
            json!({"type": "ping"}),
            open(0, json!({"type": "text", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "Grüß "})),
            json!({"type": "something_new", "index": 0}),
            delta(0, json!({"type": "text_delta", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "Gott 🦀"})),
            delta(0, json!({"type": "citations_delta", "citation": {}})),
            close(0),
        ],
        "end_turn",
    );
    let expected =
        response(vec![Block::text("Grüß Gott 🦀")], StopReason::EndTurn, [7, 9, 3, 2, 0]);
    check_ok(WIRE, &text, &expected);
    check_ok(WIRE, &format!(": hello\n\n{}", text.replace('\n', "\r\n")), &expected);
}

#[test]
fn thinking_redacted_thinking_and_parallel_calls() {
    let mut events = vec![
        open(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm, "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "two files."})),
        delta(0, json!({"type": "signature_delta", "signature": "Sig+1/"})),
        delta(0, json!({"type": "signature_delta", "signature": "aZ=="})),
        close(0),
        open(1, json!({"type": "redacted_thinking", "data": "Enc+/=="})),
        close(1),
    ];
    events.extend(tool(2, "toolu_1", "read_file", &["", "{\"pa", "th\": \"a\"}"]));
    // An index left out, as servers do that drop a block.
    events.extend(tool(5, "toolu_2", "grep", &[]));
    let expected = response(
        vec![
            thinking("Hm, two files.", Some(seal(WIRE, "Sig+1/aZ==", json!({})))),
            Block::RedactedThinking { signed: seal(WIRE, "Enc+/==", json!({})) },
            call("toolu_1", "read_file", json!({"path": "a"})),
            call("toolu_2", "grep", json!({})),
        ],
        StopReason::ToolUse,
        [7, 9, 3, 2, 0],
    );
    check_ok(WIRE, &stream(&events, "tool_use"), &expected);
}

#[test]
fn arguments_that_are_no_object_are_malformed() {
    let mut events = tool(0, "", "", &["{\"command\": \"touch mark"]);
    events.extend(tool(1, "same", "a", &["null"]));
    events.extend(tool(1, "same", "b", &["[1,", "2]"]));
    let expected = response(
        vec![
            malformed_call("", "", "{\"command\": \"touch mark"),
            call("same", "a", json!({})),
            malformed_call("same", "b", "[1,2]"),
        ],
        StopReason::ToolUse,
        [7, 9, 3, 2, 0],
    );
    check_ok(WIRE, &stream(&events, "end_turn"), &expected);
}

#[test]
fn arguments_of_ten_megabytes_in_small_pieces() {
    let piece = "x".repeat(1000);
    let mut pieces = vec!["{\"content\": \""];
    pieces.extend(std::iter::repeat_n(piece.as_str(), 10_000));
    pieces.push("\"}");
    let stream = stream(&tool(0, "t", "write_file", &pieces), "tool_use");
    let (_, result) = feed(WIRE, stream.as_bytes().chunks(4096));
    let content = result.unwrap().content;
    let Some(Block::ToolUse { input, malformed: None, .. }) = content.first() else {
        panic!("a sound call");
    };
    assert_eq!(input["content"].as_str().map(str::len), Some(10_000_000));
}

#[test]
fn blocks_given_whole_or_without_a_start() {
    let events = [
        open(0, json!({"type": "text", "text": "at once"})),
        close(0),
        open(1, json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{}"})),
        close(1),
        open(2, json!({"type": "tool_use", "id": "t", "name": "grep", "input": {"a": 1}})),
        close(2),
        delta(3, json!({"type": "text_delta", "text": " and more"})),
        open(4, json!({"type": "text", "text": "  "})),
        close(4),
    ];
    let expected = response(
        vec![Block::text("at once"), call("t", "grep", json!({"a": 1})), Block::text(" and more")],
        StopReason::ToolUse,
        [7, 9, 3, 2, 0],
    );
    check_ok(WIRE, &stream(&events, "tool_use"), &expected);
}

#[test]
fn stop_reasons() {
    for (word, stop) in [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence),
        ("pause_turn", StopReason::PauseTurn),
        ("refusal", StopReason::Refusal),
        // It says that there are calls, and there are none.
        ("tool_use", StopReason::EndTurn),
    ] {
        let response = check(WIRE, &stream(&[open(0, json!({"type": "text", "text": "x"}))], word));
        assert_eq!(response.unwrap().stop, stop, "{word}");
    }
    let empty = check(WIRE, &stream(&[], "end_turn")).unwrap();
    assert_eq!(empty.content, []);
}

#[test]
fn errors_in_the_stream_keep_the_text() {
    let events = [
        start(),
        open(0, json!({"type": "text", "text": "half"})),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ];
    let error = check(WIRE, &named(&events)).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Overloaded);
    assert_eq!(error.partial_text, "half");
    assert!(error.message.contains("Overloaded"), "{error}");

    let (_, garbage) = feed(WIRE, [b"data: {nonsense}\n\n".as_slice()]);
    assert_eq!(garbage.unwrap_err().kind, ModelErrorKind::Malformed);
}

#[test]
fn a_request_as_bytes() {
    let messages = vec![
        user(vec![Block::text("look"), image()]),
        assistant(vec![
            thinking("hm", Some(seal(WIRE, "S==", json!({})))),
            thinking("of another", Some(seal(Wire::Gemini, "G==", json!({})))),
            thinking("unsealed", None),
            call("t:1", "grep", json!({"b": 1, "a": [2]})),
        ]),
        user(vec![
            Block::ToolResult {
                id: ToolCallId::new("t:1"),
                name: "grep".into(),
                content: vec![Block::text("no"), image()],
                is_error: true,
            },
            Block::text("go on"),
        ]),
    ];
    let mut request = request(messages);
    request.tools = [].into();
    let bytes = crate::wire::encode(WIRE, &target(Thinking::None), &request).unwrap();
    check_golden(bytes, include_str!("../../tests/data/anthropic_request.json"));
}

#[test]
fn at_most_four_marks_for_the_cache() {
    let step = |n: usize| {
        let id = format!("c{n}");
        [assistant(vec![call(&id, "grep", json!({}))]), user(vec![result(&id, "grep", "x")])]
    };
    let mut messages = vec![user(vec![Block::text("go")])];
    messages.extend((0..5).flat_map(step));
    let text = body(WIRE, &request(messages)).to_string();
    assert_eq!(text.matches("cache_control").count(), 4);
}

#[test]
fn the_prefix_is_stable() {
    check_prefix(WIRE, &|step| {
        vec![
            thinking("t", Some(seal(WIRE, &format!("S{step}+/="), json!({})))),
            call(&format!("call_{step}"), "grep", json!({"step": step})),
        ]
    });
}

#[test]
fn sealed_blocks_go_back_byte_for_byte() {
    let sealed = [
        json!({"type": "thinking", "thinking": "a \"b\" é\n", "signature": "Sig+/aZ=="}),
        json!({"type": "thinking", "thinking": "", "signature": "hidden=="}),
        json!({"type": "redacted_thinking", "data": "Enc+/==",
            "later_field": {"z": 1, "a": [null]}}),
    ];
    let mut events = Vec::new();
    for (index, block) in (0..).zip(&sealed) {
        events.extend([open(index, block.clone()), close(index)]);
    }
    events.extend(tool(9, "t", "grep", &[]));
    let answer = check(WIRE, &stream(&events, "tool_use")).unwrap();
    let blocks = through_log(&answer.content);
    let text = body(
        WIRE,
        &request(vec![
            user(vec![Block::text("x")]),
            assistant(blocks),
            user(vec![result("t", "grep", "y")]),
        ]),
    )
    .to_string();
    for block in sealed {
        assert!(text.contains(&block.to_string()), "{block} in {text}");
    }
}

#[test]
fn effort_becomes_a_budget_or_a_word_or_nothing() {
    let with = |style: Thinking, messages| {
        let mut request = request(messages);
        request.effort = Some(Effort::High);
        request.output =
            format(json!({"type": "object", "properties": {"a": {"type": "string"}}}), true);
        let target = crate::wire::Target { max_output: Some(64_000), ..target(style) };
        body_for(WIRE, &target, &request)
    };
    let plain = || vec![user(vec![Block::text("x")])];
    let format = json!({"type": "json_schema", "schema": {"type": "object",
        "properties": {"a": {"type": "string"}}, "additionalProperties": false}});
    let budget = with(Thinking::Budget, plain());
    assert_eq!(budget["thinking"], json!({"type": "enabled", "budget_tokens": 16_000}));
    assert_eq!(budget["output_config"], json!({"format": format}));
    assert_eq!(budget["max_tokens"], 32_000);
    let word = with(Thinking::Effort, plain());
    assert_eq!(word["thinking"], json!({"type": "adaptive"}));
    assert_eq!(word["output_config"], json!({"effort": "high", "format": format}));
    assert!(with(Thinking::None, plain()).get("thinking").is_none());
    // Calls without a thought before them: the wire would refuse a budget now.
    let mut foreign = plain();
    foreign.push(assistant(vec![call("c", "grep", json!({}))]));
    foreign.push(user(vec![result("c", "grep", "x")]));
    assert!(with(Thinking::Budget, foreign).get("thinking").is_none());
}

#[test]
fn nothing_empty_is_sent() {
    let messages = vec![
        user(vec![Block::text(" ")]),
        assistant(vec![thinking("only thought", None)]),
        user(vec![Block::ToolResult {
            id: ToolCallId::new(""),
            name: String::new(),
            content: vec![Block::text("\n")],
            is_error: false,
        }]),
    ];
    let body = body(WIRE, &request(messages));
    let content = |index: usize| body["messages"][index]["content"][0].clone();
    assert_eq!(content(0)["text"], "(no text)");
    assert_eq!(content(1), json!({"type": "text", "text": "(no text)"}));
    assert_eq!(content(2)["content"], json!([{"type": "text", "text": "(no output)"}]));
    assert_eq!(content(2)["tool_use_id"], "call");
}
