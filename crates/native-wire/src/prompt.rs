//! What a prompt brings along.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::Image;
use runtime_api::PromptPart;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::limited::{List, Object, Text, Word};

/// Bytes of a prompt's body: some photographs fit.
pub const PROMPT_BYTES_MAX: usize = 25 * 1024 * 1024;

/// Attachments of a prompt: more are a folder, and that the model can read itself.
pub const ATTACHMENTS_MAX: usize = 20;

/// Images that models read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Standard base64 with padding, for the document.
const BASE64: &str =
    concat!("^(?:[A-Za-z0-9+/]{4})*", "(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$");

/// Puts a prompt together.
///
/// # Errors
/// The field that is wrong and what would be right.
pub fn parts(
    text: String,
    attachments: Option<List<Object<Attachment>, ATTACHMENTS_MAX>>,
) -> Result<Vec<PromptPart>, String> {
    let mut parts = vec![PromptPart::Text(text)];
    let attachments = attachments.map(List::into_vec).unwrap_or_default();
    for (place, Object(attachment)) in attachments.into_iter().enumerate() {
        let part = attachment.into_part();
        parts.push(part.map_err(|what| format!("attachments[{place}].{what}"))?);
    }
    Ok(parts)
}

/// Kinds of attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AttachmentKind {
    Image,
    File,
}

/// An image, or a file of the session's workspace. Kept flat, so that a wrong field is told by
/// its own path.
#[derive(Clone, Debug, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with type")]
pub struct Attachment {
    #[serde(rename = "type")]
    kind: Word<AttachmentKind>,
    mime_type: Option<String>,
    data: Option<String>,
    path: Option<Text<1, 4_096>>,
}

impl JsonSchema for Attachment {
    fn schema_name() -> Cow<'static, str> {
        "Attachment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An image, or a file of the session's workspace.",
            "oneOf": [
                {
                    "title": "ImageAttachment", "type": "object", "additionalProperties": false,
                    "required": ["type", "mimeType", "data"],
                    "properties": {
                        "type": {"const": "image"},
                        "mimeType": {"type": "string", "enum": IMAGE_TYPES},
                        "data": {
                            "type": "string", "contentEncoding": "base64", "minLength": 4,
                            "pattern": BASE64,
                            "description": "The bytes in standard base64 with padding."
                        }
                    }
                },
                {
                    "title": "FileAttachment", "type": "object", "additionalProperties": false,
                    "required": ["type", "path"],
                    "properties": {
                        "type": {"const": "file"},
                        "path": {
                            "type": "string", "minLength": 1, "maxLength": 4096,
                            "description": "Absolute, or relative to the session's folder. Read \
                                when the prompt is accepted."
                        }
                    }
                }
            ]
        })
    }
}

impl Attachment {
    /// Turns it into a piece of a prompt, or tells which of its fields is wrong.
    ///
    /// # Errors
    /// The field and what would be right.
    pub fn into_part(self) -> Result<PromptPart, String> {
        let stranger = match self.kind.0 {
            AttachmentKind::Image => self.path.as_ref().map(|_| "path"),
            AttachmentKind::File => {
                let mime_type = self.mime_type.as_ref().map(|_| "mimeType");
                mime_type.or(self.data.as_ref().map(|_| "data"))
            }
        };
        if let Some(field) = stranger {
            let right = "an image has mimeType and data, a file has path";
            return Err(format!("{field}: does not belong to this type; {right}"));
        }
        match self.kind.0 {
            AttachmentKind::File => {
                let path = self.path.ok_or("path: is missing, expected the path of a file")?;
                Ok(PromptPart::File(path.into_string()))
            }
            AttachmentKind::Image => {
                let right = "expected image/png, image/jpeg, image/gif or image/webp";
                let mime_type = self.mime_type.ok_or(format!("mimeType: is missing, {right}"))?;
                if !IMAGE_TYPES.contains(&mime_type.as_str()) {
                    let shown = format!("{:?}", mime_type.chars().take(40).collect::<String>());
                    return Err(format!("mimeType: is {shown}, {right}"));
                }
                let right = "expected the image's bytes in standard base64 with padding";
                let data = self.data.ok_or(format!("data: is missing, {right}"))?;
                match STANDARD.decode(&data) {
                    Ok(bytes) if bytes.is_empty() => Err(format!("data: is empty, {right}")),
                    Ok(_) => Ok(PromptPart::Image(Image { mime_type, data })),
                    Err(error) => Err(format!("data: is no base64 ({error}), {right}")),
                }
            }
        }
    }
}
