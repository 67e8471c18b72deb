//! How one answer is spelled on each wire.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::time::Duration;

use bytes::Bytes;
use protocol::{StopReason, Usage};
use serde_json::{Value, json};

use super::answer::{Args, Pace, Stop};
use super::gate::At;
use super::request::Api;

/// An answer with everything decided that the script left open.
#[derive(Debug)]
pub(super) struct Spoken<'a> {
    pub(super) model: &'a str,
    pub(super) response_id: String,
    pub(super) text: &'a str,
    /// The thinking; its text and its signature go apart on some wires.
    pub(super) thinking: Option<&'a str>,
    pub(super) signature: Option<String>,
    pub(super) redacted: &'a [String],
    pub(super) calls: Vec<SpokenCall<'a>>,
    pub(super) usage: Usage,
    pub(super) reasoning: u64,
    pub(super) stop: Stop,
    pub(super) stream_error: Option<&'a str>,
    /// Whether Chat Completions was asked to count tokens in the stream.
    pub(super) with_usage: bool,
}

/// A call with its id; `None` is a call without one.
#[derive(Debug)]
pub(super) struct SpokenCall<'a> {
    pub(super) id: Option<String>,
    pub(super) name: &'a str,
    pub(super) args: &'a Args,
}

/// What the server does next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Sends these bytes of the body.
    Data(Bytes),
    /// Waits.
    Pause(Duration),
    /// Passes a place where the script may hold it.
    Place(At),
}

/// One wire: turns the parts of an answer into events, in the order in which they are called.
trait Encoder {
    fn head(&mut self) -> String;
    fn thinking(&mut self) -> String;
    fn text(&mut self, piece: &str) -> String;
    fn call(&mut self, index: usize, call: &SpokenCall<'_>) -> String;
    fn tail(&mut self) -> String;
    fn error(&mut self, kind: &str) -> String;
    fn whole(&mut self) -> Value;
}

fn encoder<'a>(api: Api, spoken: &'a Spoken<'a>) -> Box<dyn Encoder + 'a> {
    match api {
        Api::Anthropic => Box::new(anthropic::Anthropic::new(spoken)),
        Api::Responses => Box::new(responses::Responses::new(spoken)),
        Api::Chat => Box::new(chat::Chat::new(spoken)),
        Api::Gemini => Box::new(gemini::Gemini::new(spoken)),
    }
}

/// Returns the steps of a streamed answer.
pub(super) fn stream(api: Api, spoken: &Spoken<'_>, pace: &Pace) -> Vec<Step> {
    let mut wire = encoder(api, spoken);
    let mut steps = Vec::new();
    let send = |steps: &mut Vec<Step>, text: String| {
        if !text.is_empty() {
            steps.push(Step::Data(text.into()));
        }
    };
    send(&mut steps, wire.head());
    steps.push(Step::Place(At::Head));
    send(&mut steps, wire.thinking());
    for (index, piece) in pieces(spoken.text, pace.deltas).into_iter().enumerate() {
        if !pace.delay.is_zero() {
            steps.push(Step::Pause(pace.delay));
        }
        send(&mut steps, wire.text(piece));
        if index == 0 {
            steps.push(Step::Place(At::Text));
        }
    }
    steps.push(Step::Place(At::Calls));
    for (index, call) in spoken.calls.iter().enumerate() {
        send(&mut steps, wire.call(index, call));
    }
    steps.push(Step::Place(At::End));
    let end = spoken.stream_error.map(|kind| wire.error(kind));
    let end = end.unwrap_or_else(|| wire.tail());
    send(&mut steps, end);
    steps
}

/// Returns a whole answer, for a request that wants no stream.
pub(super) fn whole(api: Api, spoken: &Spoken<'_>) -> Value {
    encoder(api, spoken).whole()
}

/// Returns an error in the provider's own form.
pub(super) fn error_body(api: Api, status: u16, message: &str, kind: Option<&str>) -> Value {
    match api {
        Api::Anthropic => {
            let known = match status {
                400 => "invalid_request_error",
                401 => "authentication_error",
                402 => "billing_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                504 => "timeout_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            let error = json!({"type": kind.unwrap_or(known), "message": message});
            json!({"type": "error", "error": error, "request_id": "req_scripted"})
        }
        Api::Gemini => {
            let known = match status {
                400 => "INVALID_ARGUMENT",
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                500 => "INTERNAL",
                504 => "DEADLINE_EXCEEDED",
                _ => "UNAVAILABLE",
            };
            let status_word = kind.unwrap_or(known);
            json!({"error": {"code": status, "message": message, "status": status_word}})
        }
        Api::Responses | Api::Chat => {
            let (known, code) = match status {
                400 => ("invalid_request_error", Value::Null),
                401 => ("invalid_request_error", json!("invalid_api_key")),
                429 => ("rate_limit_exceeded", json!("rate_limit_exceeded")),
                _ => ("server_error", Value::Null),
            };
            let kind = kind.unwrap_or(known);
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
    }
}

/// Returns the wire's word for a stop, or `null`.
fn stop_word(stop: &Stop, known: impl Fn(StopReason) -> &'static str) -> Value {
    match stop {
        Stop::Reason(reason) => json!(known(*reason)),
        Stop::Word(word) => json!(word),
        Stop::Absent => Value::Null,
    }
}

/// Writes an event with a name.
fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Writes an event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Splits a text into at most `count` pieces of nearly equal length, between characters.
fn pieces(text: &str, count: usize) -> Vec<&str> {
    let total = text.chars().count();
    let count = count.clamp(1, total.max(1));
    let mut rest = text;
    let mut out = Vec::with_capacity(count);
    for index in 0..count {
        let length = total / count + usize::from(index < total % count);
        let at = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(at);
        rest = after;
        if !piece.is_empty() {
            out.push(piece);
        }
    }
    out
}

/// How many fragments a thought and the arguments of a call arrive in.
const FRAGMENTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_cut_between_characters_and_lose_nothing() {
        for (text, count) in [("", 3), ("a", 3), ("grüße, 世界", 4), ("abcdef", 6), ("ab", 1)] {
            let cut = pieces(text, count);
            assert_eq!(cut.concat(), text);
            assert!(cut.len() <= count);
            assert!(cut.iter().all(|piece| !piece.is_empty()));
        }
        assert_eq!(pieces("abcde", 2), ["abc", "de"]);
    }
}
