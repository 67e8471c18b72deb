//! One line of `--input-format stream-json`.

use protocol::event::Answer;
use protocol::{Image, RequestId};
use runtime_api::{Prompt, PromptPart};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::image;

/// What a program orders.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// A prompt; it runs at once or waits its turn.
    Prompt(Prompt),
    /// An answer to an interaction.
    Answer(RequestId, Answer),
    /// The running turn ends.
    Interrupt,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PromptLine {
    text: String,
    #[serde(default)]
    attachments: Vec<Attachment>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Attachment {
    Image { mime_type: String, data: String },
    File { path: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptLine {}

/// Reads a line.
///
/// # Errors
/// A sentence that names what is wrong.
pub(crate) fn read(text: &str) -> Result<Order, String> {
    let expected = "expected an object with type prompt, answer or interrupt";
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("{expected}: {error}"))?;
    let Value::Object(mut fields) = value else { return Err(expected.to_owned()) };
    let kind = fields.remove("type");
    match kind.as_ref().and_then(Value::as_str) {
        Some("prompt") => prompt(parse("prompt", Value::Object(fields))?),
        Some("answer") => answer(fields),
        Some("interrupt") => {
            let InterruptLine {} = parse("interrupt", Value::Object(fields))?;
            Ok(Order::Interrupt)
        }
        Some(other) => Err(format!("unknown type '{other}': {expected}")),
        None => Err(expected.to_owned()),
    }
}

fn parse<T: serde::de::DeserializeOwned>(kind: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("{kind}: {error}"))
}

fn prompt(line: PromptLine) -> Result<Order, String> {
    if line.attachments.len() > image::ATTACHMENTS_MAX {
        return Err(format!("prompt: more than {} attachments", image::ATTACHMENTS_MAX));
    }
    let mut parts = vec![PromptPart::Text(line.text)];
    for attachment in line.attachments {
        let image = match attachment {
            Attachment::Image { mime_type, data } => Image { mime_type, data },
            Attachment::File { path } => image::read(path.as_ref())?,
        };
        parts.push(PromptPart::Image(image));
    }
    Ok(Order::Prompt(Prompt { parts, ..Prompt::default() }))
}

/// An answer has the fields that the HTTP door takes beside the id of its request; they may also
/// stand in an object of their own.
fn answer(mut fields: Map<String, Value>) -> Result<Order, String> {
    let id = match fields.remove("requestId") {
        Some(Value::String(id)) => RequestId::new(id),
        Some(_) => return Err("answer: requestId: expected a text".to_owned()),
        None => return Err("answer: requestId: is missing".to_owned()),
    };
    let body = match fields.get("answer") {
        Some(Value::Object(inner)) if inner.contains_key("answer") && fields.len() == 1 => {
            Value::Object(inner.clone())
        }
        _ => Value::Object(fields),
    };
    Ok(Order::Answer(id, parse("answer", body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_understood() {
        let table = [
            r#"{"type":"prompt","text":"hi"}"#,
            concat!(
                r#"{"type":"prompt","text":"look","attachments":"#,
                r#"[{"type":"image","mimeType":"image/png","data":"aGk="}]}"#
            ),
            r#"{"type":"answer","requestId":"r1","answer":"allow_once"}"#,
            r#"{"type":"answer","requestId":"r1","answer":{"answer":"deny","feedback":"no"}}"#,
            r#"{"type":"answer","requestId":"r","answer":{"answer":"allow_always","rule":"a(b)"}}"#,
            concat!(
                r#"{"type":"answer","requestId":"r","answer":"allow_always","rule":"a(b)","#,
                r#""persist":"project"}"#
            ),
            r#"{"type":"answer","requestId":"r","answer":{"answers":["a"],"other":"b"}}"#,
            r#"{"type":"answer","requestId":"r","answer":{"approved":true,"mode":"auto-edit"}}"#,
            r#"{"type":"interrupt"}"#,
        ];
        let read: Vec<_> = table.iter().map(|text| read(text).unwrap()).collect();
        insta::assert_debug_snapshot!(read);
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        let table = [
            "hello",
            "[1]",
            "{}",
            r#"{"type":"launch"}"#,
            r#"{"type":"prompt"}"#,
            r#"{"type":"prompt","text":"a","texts":"b"}"#,
            r#"{"type":"answer","requestId":"r1","answer":"perhaps"}"#,
            r#"{"type":"answer","answer":"deny"}"#,
            r#"{"type":"answer","requestId":"r1","answer":"deny","rule":"a(b)"}"#,
            r#"{"type":"interrupt","now":true}"#,
        ];
        let problems: Vec<_> = table.iter().map(|text| read(text).unwrap_err()).collect();
        insta::assert_debug_snapshot!(problems);
    }
}
