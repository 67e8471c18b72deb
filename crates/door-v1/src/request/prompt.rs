//! Prompts, and stopping them.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use protocol::{Image, PromptId};
use runtime_api::{Prompt, PromptPart};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use super::BODY_BYTES_MAX;
use super::session::{KEY_SAYS, key_schema};
use crate::door::Shared;
use crate::error::{Code, refused};
use crate::idempotency::{Key, once};
use crate::limited::{List, Object, Text, Word};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::wire::{Accepted, Interrupted};

/// Bytes of a prompt's body: some photographs fit.
const PROMPT_BYTES_MAX: usize = 25 * 1024 * 1024;

/// Attachments of a prompt.
const ATTACHMENTS_MAX: usize = 20;

/// Images that models read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Standard base64 with padding, for the document.
const BASE64: &str =
    concat!("^(?:[A-Za-z0-9+/]{4})*", "(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$");

/// Something to say to the agent.
#[derive(Clone, Debug, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with text")]
struct SendPrompt {
    /// What is said. One that begins with `/name` of a listed command runs that command.
    text: Text<1, PROMPT_BYTES_MAX>,
    /// What comes with it, after the text.
    attachments: Option<List<Object<Attachment>, ATTACHMENTS_MAX>>,
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
struct Attachment {
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
    fn into_part(self) -> Result<PromptPart, String> {
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
                    let shown = crate::query::shown(&mime_type);
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

impl SendPrompt {
    fn into_prompt(self) -> Result<Prompt, Problem> {
        let mut parts = vec![PromptPart::Text(self.text.into_string())];
        let attachments = self.attachments.map(List::into_vec).unwrap_or_default();
        for (place, Object(attachment)) in attachments.into_iter().enumerate() {
            let part = attachment
                .into_part()
                .map_err(|what| Problem::validation(format!("attachments[{place}].{what}")))?;
            parts.push(part);
        }
        Ok(Prompt { parts, ..Prompt::default() })
    }
}

/// How to stop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct Interrupt {
    /// Whether the prompts that wait are dropped as well. Does not go with `promptId`.
    #[serde(default)]
    clear_queue: bool,
    /// The prompt to stop, or to withdraw where it waits; whatever runs where absent.
    prompt_id: Option<Text<1, 64>>,
}

impl Interrupt {
    fn which(self) -> Result<runtime_api::Interrupt, Problem> {
        match (self.prompt_id, self.clear_queue) {
            (None, false) => Ok(runtime_api::Interrupt::Running),
            (None, true) => Ok(runtime_api::Interrupt::All),
            (Some(id), false) => {
                Ok(runtime_api::Interrupt::Prompt(PromptId::new(id.into_string())))
            }
            (Some(_), true) => {
                let what = "clearQueue: does not go with promptId, which names one prompt";
                Err(Problem::validation(what))
            }
        }
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/sessions/{sessionId}/prompt", prompt)
            .named("sendPrompt", Tag::Prompts, "Sends a prompt")
            .says(
                "Answered once the prompt is recorded: it then runs at once, or waits behind the \
                 one that runs (at most 16 wait). `prompt_finished` with its id tells the result.",
            )
            .header("Idempotency-Key", key_schema(), KEY_SAYS)
            .takes::<SendPrompt>(
                PROMPT_BYTES_MAX,
                vec![
                    ("text", json!({"text": "List the TODOs"})),
                    (
                        "file",
                        json!({
                            "text": "What does this do?",
                            "attachments": [{"type": "file", "path": "src/main.rs"}]
                        }),
                    ),
                ],
            )
            .of_session()
            .refuses(&[Code::QueueFull, Code::IdempotencyConflict])
            .answers::<Accepted>(
                StatusCode::ACCEPTED,
                "The prompt is recorded.",
                json!({"promptId": "06f4zk3r2h8m4v9c1b6q5x7t0w", "queued": false, "position": 0}),
            ),
        Operation::post("/v1/sessions/{sessionId}/interrupt", interrupt)
            .named("interrupt", Tag::Prompts, "Stops the running prompt")
            .says(
                "Its processes are gone and its requests settled when `done` comes. Prompts that \
                 wait go on, unless `clearQueue` drops them. With `promptId` exactly that prompt \
                 is stopped, or withdrawn where it waits; false tells that it is over, or was \
                 never there.",
            )
            .takes::<Interrupt>(
                BODY_BYTES_MAX,
                vec![
                    ("all", json!({"clearQueue": true})),
                    ("one", json!({"promptId": "06f4zk3r2h8m4v9c1b6q5x7t0w"})),
                ],
            )
            .or_nothing()
            .of_session()
            .answers::<Interrupted>(
                StatusCode::OK,
                "Whether one ran, or the one that was named waited.",
                json!({"interrupted": true}),
            ),
    ]
}

async fn prompt(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    key: Key,
    JsonBody(Object(body)): JsonBody<Object<SendPrompt>, PROMPT_BYTES_MAX>,
) -> Result<Response, Problem> {
    let key = key.with(&body);
    let prompt = body.into_prompt()?;
    let (asked, session) = (Shared::clone(&door), id.clone());
    let work = async move {
        asked.session(&session).await?;
        let accepted = asked.handle.prompt(&session, prompt).await.map_err(refused)?;
        let (prompt_id, position) = (accepted.prompt_id, accepted.position);
        Ok(Accepted { prompt_id, queued: position > 0, position })
    };
    once(&door, ("sendPrompt", Some(id), key), StatusCode::ACCEPTED, work).await
}

async fn interrupt(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    body: Option<JsonBody<Object<Interrupt>, BODY_BYTES_MAX>>,
) -> Result<Json<Interrupted>, Problem> {
    let how = body.map(|JsonBody(Object(how))| how).unwrap_or_default();
    let which = how.which()?;
    door.session(&id).await?;
    let interrupted = door.handle.interrupt(&id, which).await.map_err(refused)?;
    Ok(Json(Interrupted { interrupted }))
}
