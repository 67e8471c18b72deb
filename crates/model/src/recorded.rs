//! What the tests of all wires share: recorded streams, cut in every way, and small requests.

use std::sync::Arc;

use driver_api::{Delta, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ToolSpec};
use protocol::event::OutputFormat;
use protocol::{
    Block, Image, Message, MessageId, Role, Signed, StopReason, Timestamp, ToolCallId, Usage, Wire,
};
use serde_json::{Map, Value, json};

use crate::stream::{Answer, Phase};
use crate::structured::Schemas;
use crate::table::Thinking;
use crate::wire::{Target, encode};

pub(crate) type Outcome = (Vec<Delta>, Result<ModelResponse, ModelError>);

/// Feeds pieces as the remote does.
pub(crate) fn feed<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut answer = Answer::new(wire);
    let mut deltas = Vec::new();
    for piece in pieces {
        let pushed = answer.push(piece);
        deltas.extend(answer.fresh());
        if let Err(error) = pushed {
            return (deltas, Err(error));
        }
        if answer.phase() == Phase::Closed {
            break;
        }
    }
    let ended = answer.end();
    deltas.extend(answer.fresh());
    (deltas, ended.and_then(|()| answer.finish(None)))
}

/// Decodes a stream whole, in single bytes, and cut at every byte, and returns what it says.
/// Single bytes must say the same; a cut must be a network error with a start of the text, or
/// say the same as the whole (only what was used may be missing then).
pub(crate) fn check(wire: Wire, stream: &str) -> Result<ModelResponse, ModelError> {
    let (deltas, whole) = feed(wire, [stream.as_bytes()]);
    let (single_deltas, single) = feed(wire, stream.as_bytes().chunks(1));
    assert_eq!(whole, single, "in single bytes");
    let (said, thought) = joined(&deltas);
    assert_eq!((said.clone(), thought.clone()), joined(&single_deltas));
    if let Ok(response) = &whole {
        assert_eq!(said.trim(), text_of(response).trim(), "deltas and blocks say the same");
        assert_eq!(thought, thinking_of(response));
    }
    for cut in 0..stream.len() {
        let (_, result) = feed(wire, [&stream.as_bytes()[..cut]]);
        match (result, &whole) {
            (Ok(cut_response), Ok(response)) => {
                let same = (&cut_response.content, cut_response.stop);
                assert_eq!(same, (&response.content, response.stop), "cut at {cut}");
            }
            (Err(error), _) if error.kind == ModelErrorKind::Network => {
                assert!(said.starts_with(&error.partial_text), "cut at {cut}: {error:?}");
            }
            (Err(error), Err(expected)) => assert_eq!(error.kind, expected.kind, "cut at {cut}"),
            (result, _) => panic!("cut at {cut}: {result:?}"),
        }
    }
    whole
}

fn joined(deltas: &[Delta]) -> (String, String) {
    let mut both = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(piece) => both.0.push_str(piece),
            Delta::Thinking(piece) => both.1.push_str(piece),
        }
    }
    both
}

fn text_of(response: &ModelResponse) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        _ => String::new(),
    };
    response.content.iter().map(text).collect()
}

fn thinking_of(response: &ModelResponse) -> String {
    let text = |block: &Block| match block {
        Block::Thinking { text, .. } => text.clone(),
        _ => String::new(),
    };
    response.content.iter().map(text).collect()
}

/// Checks a stream that succeeds.
pub(crate) fn check_ok(wire: Wire, stream: &str, expected: &ModelResponse) {
    assert_eq!(check(wire, stream).as_ref(), Ok(expected));
}

/// Writes events with names, as Anthropic and Responses do.
pub(crate) fn named(events: &[Value]) -> String {
    let event =
        |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

/// Writes events without names.
pub(crate) fn plain(events: &[Value]) -> String {
    events.iter().map(|value| format!("data: {value}\n\n")).collect()
}

pub(crate) fn response(content: Vec<Block>, stop: StopReason, usage: [u64; 5]) -> ModelResponse {
    ModelResponse { content, stop, usage: self::usage(usage) }
}

/// Input, output, cache read, cache written, and what of the output was thought.
pub(crate) fn usage([input, output, read, written, thought]: [u64; 5]) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: thought,
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    let Value::Object(input) = input else { panic!("arguments are an object") };
    Block::ToolUse {
        id: ToolCallId::new(id),
        name: name.into(),
        input,
        malformed: None,
        signed: None,
    }
}

pub(crate) fn malformed_call(id: &str, name: &str, written: &str) -> Block {
    Block::ToolUse {
        id: ToolCallId::new(id),
        name: name.into(),
        input: Map::new(),
        malformed: Some(written.into()),
        signed: None,
    }
}

pub(crate) fn result(id: &str, name: &str, text: &str) -> Block {
    let content = vec![Block::text(text)];
    Block::ToolResult { id: ToolCallId::new(id), name: name.into(), content, is_error: false }
}

pub(crate) fn thinking(text: &str, signed: Option<Signed>) -> Block {
    Block::Thinking { text: text.into(), signed }
}

pub(crate) fn seal(wire: Wire, signature: &str, extra: Value) -> Signed {
    let Value::Object(extra) = extra else { panic!("further fields are an object") };
    Signed { wire, signature: signature.into(), extra }
}

pub(crate) fn image() -> Block {
    Block::Image(Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() })
}

pub(crate) fn message(role: Role, content: Vec<Block>) -> Arc<Message> {
    let id = MessageId::new("m");
    Arc::new(Message { id, role, content, created_at: Timestamp(0) })
}

pub(crate) fn user(content: Vec<Block>) -> Arc<Message> {
    message(Role::User, content)
}

pub(crate) fn assistant(content: Vec<Block>) -> Arc<Message> {
    message(Role::Assistant, content)
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    ModelRequest {
        system: "be brief".into(),
        tools: [tool("read_file"), tool("grep")].into(),
        messages,
        max_output: None,
        effort: None,
        output: None,
        cache_key: "ses_1".into(),
    }
}

/// A format without a name.
pub(crate) fn format(schema: Value, strict: bool) -> Option<OutputFormat> {
    Some(OutputFormat { name: None, schema, strict })
}

pub(crate) fn target(thinking: Thinking) -> Target {
    Target {
        model: "m".into(),
        thinking,
        max_output: None,
        images: true,
        is_openai: true,
        schemas: Schemas::Taken,
    }
}

/// Encodes with a target that reads images and takes no thinking setting.
pub(crate) fn body(wire: Wire, request: &ModelRequest) -> Value {
    body_for(wire, &target(Thinking::None), request)
}

pub(crate) fn body_for(wire: Wire, target: &Target, request: &ModelRequest) -> Value {
    serde_json::from_slice(&encode(wire, target, request).unwrap()).unwrap()
}

/// Checks the bytes of a request against a golden file, which has a line end more.
pub(crate) fn check_golden(bytes: Vec<u8>, golden: &str) {
    assert_eq!(String::from_utf8(bytes).unwrap(), golden.trim_end());
}

/// Checks V3: the bytes of a request, but for what closes it and for the marks of the cache, are
/// the start of the next one's, over a session of several steps.
pub(crate) fn check_prefix(wire: Wire, signed_step: &dyn Fn(usize) -> Vec<Block>) {
    let mut messages = vec![user(vec![Block::text("please fix \"it\" – now\n"), image()])];
    let mut before: Option<String> = None;
    for step in 0..6 {
        let bytes = encode(wire, &target(Thinking::None), &request(messages.clone())).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let text = text.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
        let open = text.trim_end_matches([']', '}']).to_owned();
        if let Some(before) = before {
            assert!(text.starts_with(&before), "step {step}:\n{before}\n{text}");
        }
        before = Some(open);
        messages.push(assistant(signed_step(step)));
        let id = format!("call_{step}");
        messages.push(user(vec![result(&id, "grep", &format!("found {step}"))]));
    }
}

/// Takes the block of an answer, lets it go through JSON as the log does, and gives it back.
pub(crate) fn through_log(blocks: &[Block]) -> Vec<Block> {
    serde_json::from_str(&serde_json::to_string(blocks).unwrap()).unwrap()
}
