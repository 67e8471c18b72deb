//! Lines of the wire: read with a limit, taken apart, made.

use std::io;

use agent_client_protocol_schema::v1::{Error, RequestId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Bytes of one line: a prompt with images fits, and a file that a client reads for us; a runaway
/// peer does not.
pub(crate) const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What stands on a line.
#[derive(Debug)]
pub(crate) enum Line {
    /// Text.
    Text(String),
    /// More than [`LINE_BYTES_MAX`], or bytes that are no UTF-8: it was passed over.
    Wrong(&'static str),
}

/// Reads the next line that is not blank; none at the end of the input. Not cancel-safe.
///
/// # Errors
/// When the input cannot be read.
pub(crate) async fn next<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<Option<Line>> {
    loop {
        let (bytes, is_whole) = one(input).await?;
        let Some(bytes) = bytes else { return Ok(None) };
        if !is_whole {
            return Ok(Some(Line::Wrong("the line is longer than 32 MiB")));
        }
        match String::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => return Ok(Some(Line::Text(text))),
            Err(_) => return Ok(Some(Line::Wrong("the line is no UTF-8"))),
        }
    }
}

/// Reads up to the next line end; of a line that is too long the rest is thrown away.
async fn one<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<(Option<Vec<u8>>, bool)> {
    let mut line = Vec::new();
    let (mut has_begun, mut is_whole) = (false, true);
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok((has_begun.then_some(line), is_whole));
        }
        has_begun = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let piece = end.map_or(chunk, |end| chunk.split_at(end).0);
        is_whole = is_whole && line.len() + piece.len() <= LINE_BYTES_MAX;
        if is_whole {
            line.extend_from_slice(piece);
        } else {
            line = Vec::new();
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok((Some(line), is_whole));
        }
    }
}

/// A message of the client.
#[derive(Debug)]
pub(crate) enum Message {
    /// It wants an answer.
    Request { id: RequestId, method: String, params: Box<RawValue> },
    /// It wants none.
    Notification { method: String, params: Box<RawValue> },
    /// It answers one of our requests.
    Response { id: RequestId, result: Result<Box<RawValue>, Error> },
}

#[derive(Deserialize)]
struct Frame<'a> {
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Takes a line apart.
///
/// # Errors
/// With the id of the request, as far as it can be told, what is wrong.
pub(crate) fn parse(text: &str) -> Result<Message, Box<(RequestId, Error)>> {
    let no_id = RequestId::Null;
    if text.trim_start().starts_with('[') {
        let what = "batches are not supported: send one message per line";
        return Err(Box::new((no_id, invalid_request(what))));
    }
    let frame: Frame<'_> = match serde_json::from_str(text) {
        Ok(frame) => frame,
        Err(error) if error.is_data() => {
            return Err(Box::new((no_id, invalid_request("a message is a JSON object"))));
        }
        Err(error) => {
            // The error's words name the place and quote nothing of the line.
            let what = format!("the line is no JSON: {error}");
            return Err(Box::new((no_id, Error::new(-32700, what))));
        }
    };
    let id = match frame.id.map(|raw| serde_json::from_str::<RequestId>(raw.get())) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return Err(Box::new((
                no_id,
                invalid_request("id: expected a whole number or a text"),
            )));
        }
    };
    let wrong =
        |what: &str| Box::new((id.clone().unwrap_or(RequestId::Null), invalid_request(what)));
    if frame.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return Err(wrong("jsonrpc: expected \"2.0\""));
    }
    let Some(method) = frame.method else {
        return response(id.as_ref(), &frame)
            .ok_or_else(|| wrong("method: is missing; an answer has id, and result or error"));
    };
    let method = serde_json::from_str::<String>(method.get())
        .map_err(|_| wrong("method: expected a text"))?;
    let params = frame.params.map_or_else(nothing, ToOwned::to_owned);
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

fn response(id: Option<&RequestId>, frame: &Frame<'_>) -> Option<Message> {
    let id = id?.clone();
    let result = match (frame.error, frame.result) {
        (Some(error), _) => Err(serde_json::from_str(error.get()).unwrap_or_else(|_| {
            Error::new(-32603, "the client answered with an error in a form of its own")
        })),
        (None, Some(result)) => Ok(result.to_owned()),
        // A result of null reads as none.
        (None, None) => Ok(nothing()),
    };
    Some(Message::Response { id, result })
}

/// Returns what stands for parameters that were left out.
fn nothing() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

fn invalid_request(what: &str) -> Error {
    Error::new(-32600, what)
}

/// Reads the parameters of a method.
///
/// # Errors
/// Names the field.
pub(crate) fn params<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Error> {
    // Parameters that were left out are no fields at all.
    let text = if raw.get() == "null" { "{}" } else { raw.get() };
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let (inner, at) = (error.into_inner(), path.as_str());
        // The place within the line helps nobody who made it from fields.
        let text = inner.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        let message = if at == "." { format!("params: {what}") } else { format!("{at}: {what}") };
        Error::new(-32602, message)
    })
}

#[derive(Serialize)]
struct Out<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

impl<T> Default for Out<'_, T> {
    fn default() -> Self {
        let (id, method, params, result, error) = (None, None, None, None, None);
        Self { jsonrpc: "2.0", id, method, params, result, error }
    }
}

/// Makes the line of a request, or of a notification where it has no id.
///
/// # Errors
/// When a value has no JSON form.
pub(crate) fn call<T: Serialize>(
    id: Option<&RequestId>,
    method: &str,
    params: &T,
) -> serde_json::Result<Bytes> {
    encode(&Out { id, method: Some(method), params: Some(params), ..Out::default() })
}

/// Makes the line of an answer.
///
/// # Errors
/// When a value has no JSON form.
pub(crate) fn result<T: Serialize>(id: &RequestId, result: &T) -> serde_json::Result<Bytes> {
    encode(&Out { id: Some(id), result: Some(result), ..Out::default() })
}

/// Makes the line of an error.
///
/// # Errors
/// When a value has no JSON form.
pub(crate) fn error(id: &RequestId, error: &Error) -> serde_json::Result<Bytes> {
    encode(&Out::<()> { id: Some(id), error: Some(error), ..Out::default() })
}

fn encode<T: Serialize>(out: &Out<'_, T>) -> serde_json::Result<Bytes> {
    let mut line = serde_json::to_vec(out)?;
    line.push(b'\n');
    Ok(line.into())
}

#[cfg(test)]
mod tests;
