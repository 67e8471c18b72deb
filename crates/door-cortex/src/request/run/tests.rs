//! What a run's request may hold.

use http::HeaderMap;
use serde_json::json;

use super::*;

fn request() -> RequestId {
    RequestId::prefixed(&HeaderMap::new(), "ctx-")
}

fn is_right(body: Value) -> bool {
    read(Tree(body), &request()).is_ok()
}

#[test]
fn a_full_request_becomes_a_prompt() {
    let id = request();
    let body = json!({
        "message": "hi", "model": "claude-sonnet-4-6", "maxTurns": 3,
        "responseFormat": {"name": "summary", "schema": {"type": "object"}},
        "images": [{"data": "aGk=", "mimeType": "image/png"}], "unknown": 1
    });
    let prompt = read(Tree(body), &id).unwrap();
    let image = Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    assert_eq!(prompt.parts, [PromptPart::Text("hi".to_owned()), PromptPart::Image(image)]);
    assert_eq!(prompt.max_turns, Some(3));
    assert_eq!(prompt.options.model.as_deref(), Some("claude-sonnet-4-6"));
    assert_eq!(prompt.options.request_id.as_deref(), Some(id.as_str()));
    let format = prompt.options.output.unwrap();
    assert_eq!((format.name.as_deref(), format.strict), (Some("summary"), true));
}

#[test]
fn the_schema_is_measured_as_compact_json() {
    // `{"d":"…"}` has eight bytes beside its text.
    let schema = |bytes: usize| json!({"d": "x".repeat(bytes - 8)});
    let with =
        |bytes| is_right(json!({"message": "m", "responseFormat": {"schema": schema(bytes)}}));
    assert!(with(SCHEMA_BYTES_MAX));
    assert!(!with(SCHEMA_BYTES_MAX + 1));
}

#[test]
fn images_are_few_small_and_whole() {
    let image = |bytes: usize| {
        json!({"data": STANDARD.encode(vec![7; bytes]),
                                      "mimeType": "image/webp"})
    };
    let with = |images: Vec<Value>| is_right(json!({"message": "m", "images": images}));
    assert!(with(vec![image(3); IMAGES_MAX]));
    assert!(!with(vec![image(3); IMAGES_MAX + 1]));
    assert!(with(vec![image(IMAGE_BYTES_MAX)]));
    assert!(!with(vec![image(IMAGE_BYTES_MAX + 1)]));
    for wrong in ["", "%%%", "aGk", "data:image/png;base64,aGk="] {
        assert!(!with(vec![json!({"data": wrong, "mimeType": "image/png"})]), "{wrong}");
    }
}

#[test]
fn a_message_is_counted_in_characters() {
    let with = |count: usize| is_right(json!({"message": "ä".repeat(count)}));
    assert!(with(100_000));
    assert!(!with(100_001));
}
