//! JSON bodies: media type, size, JSON, schema; in this order.

use std::error::Error;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::body::BodyError;

/// Characters of a message about a body: a path, a reason and the names that would be right.
const MESSAGE_CHARS_MAX: usize = 500;

/// A JSON body of at most `MAX` bytes, as the last argument of a handler.
///
/// Refused in this order: 415 `unsupported_media_type` when it is not `application/json` (with
/// any parameters, but a charset other than UTF-8), 413 `payload_too_large`, 408
/// `request_timeout` when it stops coming, 400 `validation_error` when it is no JSON in UTF-8 or
/// does not fit `T`; that message begins with the path of the field. Unknown fields are refused
/// by `T` itself (`#[serde(deny_unknown_fields)]`).
///
/// `Option<Json<T, MAX>>` is `None` for a request without a body or with an empty one.
#[derive(Debug, Clone)]
pub struct Json<T, const MAX: usize>(pub T);

impl<S, T, const MAX: usize> FromRequest<S> for Json<T, MAX>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        match read(request, MAX).await? {
            Some(value) => Ok(Self(value)),
            None => Err(Problem::validation("the body is missing: expected a JSON object")),
        }
    }
}

impl<S, T, const MAX: usize> OptionalFromRequest<S> for Json<T, MAX>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Option<Self>, Problem> {
        Ok(read(request, MAX).await?.map(Self))
    }
}

async fn read<T: DeserializeOwned>(request: Request, max: usize) -> Result<Option<T>, Problem> {
    let kind = media_type(request.headers())?;
    let body = request.into_body();
    match kind {
        Kind::Absent if body.is_end_stream() => return Ok(None),
        Kind::Absent => return Err(wrong_type()),
        Kind::Json => {}
    }
    let bytes = collect(body, max).await?;
    if bytes.is_empty() { Ok(None) } else { parse(&bytes).map(Some) }
}

enum Kind {
    Absent,
    Json,
}

fn media_type(headers: &HeaderMap) -> Result<Kind, Problem> {
    let mut sent = headers.get_all(header::CONTENT_TYPE).iter();
    let value = match (sent.next(), sent.next()) {
        (None, _) => return Ok(Kind::Absent),
        (Some(value), None) => value.to_str().map_err(|_| wrong_type())?,
        _ => return Err(wrong_type()),
    };
    let mut parts = value.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, charset)| {
        !name.eq_ignore_ascii_case("charset")
            || charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    if is_json && is_utf8 { Ok(Kind::Json) } else { Err(wrong_type()) }
}

fn wrong_type() -> Problem {
    Problem::unsupported_media_type("send the body as `content-type: application/json`, in UTF-8")
}

/// All of a body. One that says from the start that it is too long is not waited for: what is
/// left of it is the connection's business.
async fn collect(mut body: Body, max: usize) -> Result<Bytes, Problem> {
    let too_large =
        || Problem::payload_too_large(format!("the body is too large: {max} bytes at most"));
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > max) {
        return Err(too_large());
    }
    let mut pieces = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else {
            continue; // Trailers say nothing here.
        };
        if pieces.len() + data.len() > max {
            return Err(too_large());
        }
        pieces.extend_from_slice(&data);
    }
    Ok(pieces.freeze())
}

fn broken(error: &axum::Error) -> Problem {
    match error.source().and_then(|error| error.downcast_ref::<BodyError>()) {
        Some(BodyError::Stalled) => {
            Problem::request_timeout("the body stopped coming: send it without long pauses")
        }
        _ => Problem::validation("the body broke off, or its framing is wrong"),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::validation(format!("the body is not UTF-8, from byte {}", error.valid_up_to()))
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        refused(&path, error.inner())
    })?;
    json.end().map_err(|error| refused(".", &error))?;
    Ok(value)
}

/// What did not fit, beginning with where.
fn refused(path: &str, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let said = if error.is_data() {
        // The line and column of a body that a program wrote help nobody; the path does.
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        match path {
            // A type that checks itself tells the field.
            "." if begins_with_path(what) => what.to_owned(),
            "." => format!("the body: {what}"),
            path => format!("{path}: {what}"),
        }
    } else {
        format!("the body is no JSON: {message}")
    };
    // A message may repeat a value that was sent, and that has any length.
    match said.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => Problem::validation(format!("{}…", said.get(..end).unwrap_or_default())),
        None => Problem::validation(said),
    }
}

/// Tells whether a message begins with the path of a field, such as `answer.mode: `.
fn begins_with_path(what: &str) -> bool {
    let is_of_path = |letter: char| letter.is_alphanumeric() || "_.[]-".contains(letter);
    what.split_once(": ").is_some_and(|(path, _)| !path.is_empty() && path.chars().all(is_of_path))
}

#[cfg(test)]
mod tests;
