//! What a person said in an editor, as a prompt.

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use protocol::Image;
use runtime_api::{Prompt, PromptPart};

use crate::error::invalid;

/// Pieces of one prompt: a person mentions some files, not thousands.
const BLOCKS_MAX: usize = 1_000;

/// Images that models read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Makes a prompt. Text and images go in as they are; the text of an embedded resource with its
/// name before it; of a link the name and path, which the model reads with its tools if it wants.
///
/// # Errors
/// Names the field.
pub(crate) fn of(blocks: Vec<ContentBlock>) -> Result<Prompt, Error> {
    if blocks.is_empty() {
        return Err(invalid("prompt: is empty, expected something to say"));
    }
    if blocks.len() > BLOCKS_MAX {
        let count = blocks.len();
        return Err(invalid(format!("prompt: has {count} items, expected at most {BLOCKS_MAX}")));
    }
    let mut parts: Vec<PromptPart> = Vec::new();
    for (place, block) in blocks.into_iter().enumerate() {
        let part = part(block).map_err(|what| invalid(format!("prompt[{place}].{what}")))?;
        match (parts.last_mut(), part) {
            // Words around a mention are one text, as they were typed.
            (Some(PromptPart::Text(before)), PromptPart::Text(text)) => before.push_str(&text),
            (_, part) => parts.push(part),
        }
    }
    Ok(Prompt { parts, ..Prompt::default() })
}

fn part(block: ContentBlock) -> Result<PromptPart, String> {
    match block {
        ContentBlock::Text(text) => Ok(PromptPart::Text(text.text)),
        ContentBlock::Image(image) => picture(image.mime_type, image.data, "data"),
        ContentBlock::ResourceLink(link) => Ok(PromptPart::Text(mention(&link.uri))),
        ContentBlock::Resource(resource) => match resource.resource {
            EmbeddedResourceResource::TextResourceContents(it) => {
                Ok(PromptPart::Text(enclosed(&it.uri, &it.text)))
            }
            EmbeddedResourceResource::BlobResourceContents(it) => match it.mime_type {
                Some(kind) if kind.starts_with("image/") => picture(kind, it.blob, "resource.blob"),
                _ => {
                    Err("resource.mimeType: expected a text, or an image that models read"
                        .to_owned())
                }
            },
            _ => Err("resource: expected text or blob".to_owned()),
        },
        ContentBlock::Audio(_) => {
            Err("type: audio is not supported, expected text, image, resource or resource_link"
                .to_owned())
        }
        _ => Err("type: expected text, image, resource or resource_link".to_owned()),
    }
}

fn picture(mime_type: String, data: String, field: &str) -> Result<PromptPart, String> {
    if !IMAGE_TYPES.contains(&mime_type.as_str()) {
        return Err(format!("mimeType: expected {}", IMAGE_TYPES.join(", ")));
    }
    match STANDARD.decode(&data) {
        Ok(bytes) if !bytes.is_empty() => Ok(PromptPart::Image(Image { mime_type, data })),
        _ => Err(format!("{field}: expected the image's bytes in standard base64 with padding")),
    }
}

/// Returns the path that a `file:` address names, and any other address as it is.
fn place_of(uri: &str) -> String {
    let Some(path) = uri.strip_prefix("file://").filter(|path| path.starts_with('/')) else {
        return uri.to_owned();
    };
    percent_decode_str(path).decode_utf8().map_or_else(|_| path.to_owned(), |it| it.into_owned())
}

/// Says in a sentence what was pointed at.
fn mention(uri: &str) -> String {
    format!("`{}`", place_of(uri))
}

/// Puts the text of a resource behind its name.
fn enclosed(uri: &str, text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("\n<resource path=\"{}\">\n{text}{end}</resource>\n", place_of(uri))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parts(blocks: Value) -> Result<Vec<PromptPart>, String> {
        let blocks = serde_json::from_value(blocks).unwrap();
        of(blocks).map(|prompt| prompt.parts).map_err(|error| error.message)
    }

    #[test]
    fn words_and_mentions_are_one_text() {
        let said = parts(json!([
            {"type": "text", "text": "compare "},
            {"type": "resource_link", "name": "a b.rs", "uri": "file:///w/a%20b.rs"},
            {"type": "text", "text": " with "},
            {"type": "resource_link", "name": "page", "uri": "https://example.org/x"},
        ]));
        let text = "compare `/w/a b.rs` with `https://example.org/x`";
        assert_eq!(said, Ok(vec![PromptPart::Text(text.to_owned())]));
    }

    #[test]
    fn embedded_text_comes_with_its_path() {
        let said = parts(json!([
            {"type": "text", "text": "look:"},
            {"type": "resource", "resource": {"uri": "file:///w/a.rs", "text": "fn main() {}"}},
        ]));
        let text = "look:\n<resource path=\"/w/a.rs\">\nfn main() {}\n</resource>\n";
        assert_eq!(said, Ok(vec![PromptPart::Text(text.to_owned())]));
    }

    #[test]
    fn images_come_as_images() {
        let image = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
        let blob = json!({"type": "resource", "resource":
            {"uri": "file:///w/a.png", "blob": "AAAA", "mimeType": "image/png"}});
        let said = parts(json!([image("AAAA"), blob])).unwrap();
        let expected = Image { mime_type: "image/png".to_owned(), data: "AAAA".to_owned() };
        assert_eq!(said, [PromptPart::Image(expected.clone()), PromptPart::Image(expected)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |blocks: Value, expected: &str| {
            let error = parts(blocks).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        wrong(json!([]), "prompt: is empty");
        let text = json!({"type": "text", "text": "a"});
        wrong(
            json!([text, {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]),
            "prompt[1].type: audio",
        );
        wrong(
            json!([{"type": "image", "mimeType": "image/bmp", "data": "AAAA"}]),
            "prompt[0].mimeType: expected image/png",
        );
        wrong(
            json!([{"type": "image", "mimeType": "image/png", "data": "no"}]),
            "prompt[0].data: expected",
        );
        wrong(
            json!([{"type": "resource", "resource": {"uri": "a", "blob": "AAAA"}}]),
            "prompt[0].resource.mimeType",
        );
    }
}
