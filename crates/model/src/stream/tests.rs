//! No bytes make a decoder panic, in whatever cuts they come.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::recorded::feed;

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenaiResponses, Wire::OpenaiChat, Wire::Gemini];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "text", "thinking", "tool_use", "message_start", "content_block_start", "error",
    "content_block_delta", "content_block_stop", "message_delta", "message_stop", "text_delta",
    "input_json_delta", "response.output_item.added", "response.output_item.done", "reasoning",
    "response.function_call_arguments.delta", "response.completed", "function_call", "message",
    "response.output_text.delta", "STOP", "stop", "", "{\"a\":", "null", "é🦀",
];

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "type", "index", "delta", "content_block", "text", "partial_json", "message", "usage",
    "choices", "tool_calls", "function", "arguments", "id", "name", "finish_reason", "content",
    "output_index", "item", "response", "output", "call_id", "summary", "candidates", "parts",
    "functionCall", "args", "thoughtSignature", "finishReason", "usageMetadata", "error", "code",
    "status", "promptFeedback", "blockReason", "input_tokens", "prompt_tokens", "input",
];

/// JSON whose keys and words are those of the wires, in any place and of any kind.
fn odd_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(WORDS);
    let key = prop::sample::select(KEYS);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), size in 1_usize..50) {
        for wire in WIRES {
            let _any = feed(wire, bytes.chunks(size));
        }
    }

    #[test]
    fn random_events(events in prop::collection::vec(odd_json(), 0..12), size in 1_usize..50) {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        for wire in WIRES {
            let (_, whole) = feed(wire, [stream.as_bytes()]);
            let (_, pieces) = feed(wire, stream.as_bytes().chunks(size));
            prop_assert_eq!(whole, pieces);
        }
    }
}

#[test]
fn an_answer_over_the_limit_is_refused_with_its_text() {
    let mut answer = Answer::new(Wire::OpenaiChat);
    answer.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n").unwrap();
    let comment = [b":".as_slice(), &vec![b'x'; 1 << 20], b"\n"].concat();
    let error = (0..100).find_map(|_| answer.push(&comment).err()).unwrap();
    assert_eq!((error.kind, error.partial_text.as_str()), (ModelErrorKind::Malformed, "half"));
    assert!(error.message.contains("64.0 MiB"), "{error}");
}

#[test]
fn half_surrogates_do_not_break_a_stream() {
    let event = r#"{"choices":[{"delta":{"content":"a\ud83d"},"finish_reason":"stop"}]}"#;
    let stream = format!("data: {event}\n\n");
    let (_, result) = feed(Wire::OpenaiChat, [stream.as_bytes()]);
    assert_eq!(result.unwrap().content, [Block::text("a\u{fffd}")]);
}
