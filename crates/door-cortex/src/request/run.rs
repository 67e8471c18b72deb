//! Runs: their request, and their two kinds of answers.

use std::ops::RangeInclusive;

use axum::Json;
use axum::extract::{Extension, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_kit::{Admitted, Json as JsonBody, RequestId};
use protocol::Image;
use protocol::event::{OutputFormat, PromptOptions};
use runtime_api::{Prompt, PromptPart};
use serde::Serialize;
use serde_json::Value;

use super::RUN_BYTES_MAX;
use super::events::{is_over, response};
use crate::door::Shared;
use crate::error::{Code, Refused};
use crate::fields::{Fields, TextRule, is_word};
use crate::frame::{Frame, run_id, session_id};
use crate::place::AtSession;
use crate::projection::{Finished, StopReason, usage_of};
use crate::run::Run;
use crate::tree::Tree;

/// Steps that a request may ask for.
pub(super) const STEPS: RangeInclusive<u64> = 1..=200;

/// What is said.
const MESSAGE: TextRule = TextRule::of(1, 100_000).that(is_said, "more than white space");

/// The name of a model.
pub(super) const MODEL: TextRule =
    TextRule::of(1, 128).that(is_model, "letters, digits and any of ._:/@-");

/// The name of a format.
const FORMAT_NAME: TextRule = TextRule::of(1, 64).that(is_word, "letters, digits, '_' and '-'");

/// Bytes of a schema as compact JSON: "32KB" in the description.
const SCHEMA_BYTES_MAX: usize = 32 * 1024;

/// Images of a message.
const IMAGES_MAX: usize = 4;

/// Bytes of an image: "~5MB" in the description.
const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Images that models read.
const IMAGE_TYPES: [(&str, &str); 4] = [
    ("image/png", "image/png"),
    ("image/jpeg", "image/jpeg"),
    ("image/gif", "image/gif"),
    ("image/webp", "image/webp"),
];

/// The bytes of an image, as text.
const IMAGE_DATA: TextRule = TextRule::of(1, IMAGE_BYTES_MAX.div_ceil(3) * 4);

fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

fn is_model(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte))
}

type RunBody = JsonBody<Tree, RUN_BYTES_MAX>;

/// Reads the request of a run.
fn read(body: Tree, request: &RequestId) -> Result<Prompt, Refused> {
    let mut fields = Fields::of(body)?;
    let mut parts = vec![PromptPart::Text(fields.needed_text("message", &MESSAGE))];
    let model = fields.text("model", &MODEL);
    let steps = fields.whole("maxTurns", STEPS);
    let output = format(&mut fields);
    parts.extend(images(&mut fields).into_iter().map(PromptPart::Image));
    fields.finish()?;
    let request_id = Some(request.as_str().to_owned());
    Ok(Prompt {
        parts,
        max_turns: steps.and_then(|steps| u32::try_from(steps).ok()),
        options: PromptOptions { model, output, request_id },
    })
}

fn format(fields: &mut Fields) -> Option<OutputFormat> {
    let object = fields.object("responseFormat")?;
    fields.inside("responseFormat", object, |inner| {
        let name = inner.text("name", &FORMAT_NAME);
        let strict = inner.flag("strict").unwrap_or(true);
        let Some(schema) = inner.take("schema") else {
            inner.refuse("schema", "invalid_type", "is missing, expected an object");
            return None;
        };
        if !schema.is_object() {
            inner.refuse("schema", "invalid_type", "expected an object");
        } else if schema.to_string().len() > SCHEMA_BYTES_MAX {
            let right = format!("expected at most {SCHEMA_BYTES_MAX} bytes of compact JSON");
            inner.refuse("schema", "too_big", right);
        }
        Some(OutputFormat { name, schema, strict })
    })
}

fn images(fields: &mut Fields) -> Vec<Image> {
    let Some(items) = fields.list("images", 0..=IMAGES_MAX) else { return Vec::new() };
    let mut images = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let at = format!("images.{place}");
        let Value::Object(object) = item else {
            fields.refuse(&at, "invalid_type", "expected an object with data and mimeType");
            continue;
        };
        images.extend(fields.inside(&at, object, image));
    }
    images
}

fn image(fields: &mut Fields) -> Option<Image> {
    let data = fields.needed_text("data", &IMAGE_DATA);
    let mime_type = fields.word_needed("mimeType", &IMAGE_TYPES);
    if data.is_empty() {
        return None;
    }
    match STANDARD.decode(&data) {
        Ok(bytes) if bytes.len() > IMAGE_BYTES_MAX => {
            let right = format!("expected an image of at most {IMAGE_BYTES_MAX} bytes");
            fields.refuse("data", "too_big", right);
        }
        Ok(_) => {}
        Err(_) => {
            let right = "expected the image's bytes in standard base64 with padding";
            fields.refuse("data", "invalid_format", right);
        }
    }
    Some(Image { mime_type: mime_type?.to_owned(), data })
}

/// What came of a run, for a client that waited.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageResult {
    session_id: String,
    run_id: String,
    response: String,
    stop_reason: &'static str,
    total_turns: u32,
    total_usage: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<Value>,
}

pub(crate) async fn message(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    request: RequestId,
    admitted: Option<Extension<Admitted>>,
    JsonBody(body): RunBody,
) -> Result<Json<MessageResult>, Refused> {
    let prompt = read(body, &request)?;
    let run = Run::begin(&door, id.clone(), prompt, request).await?;
    let Finished { prompt, result, said } = tokio::select! {
        finished = run.finished() => finished?,
        () = is_over(admitted) => return Err(Code::Unauthorized.into()),
    };
    let stop = StopReason::of(result.reason);
    // The last answer is the whole one; a run that was cut has what it said on its way.
    let is_answer = stop == StopReason::EndTurn && !result.text.trim().is_empty();
    Ok(Json(MessageResult {
        session_id: session_id(&id),
        run_id: run_id(&prompt),
        response: if is_answer { result.text } else { said },
        stop_reason: stop.as_str(),
        total_turns: result.turns,
        total_usage: usage_of(&result.usage),
        structured: result.structured,
    }))
}

pub(crate) async fn stream(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    request: RequestId,
    admitted: Option<Extension<Admitted>>,
    JsonBody(body): RunBody,
) -> Result<Response, Refused> {
    let prompt = read(body, &request)?;
    let run = Run::begin(&door, id, prompt, request).await?;
    let frames = stream::unfold(run, |mut run| async move {
        let became = run.next().await?;
        let bytes: Vec<Bytes> = became.frames.iter().map(Frame::to_bytes).collect();
        Some((stream::iter(bytes), run))
    });
    let frames = frames.flatten().take_until(is_over(admitted));
    Ok(response(frames, door.stopping.clone()))
}

#[cfg(test)]
mod tests;
