//! Answers from JSON, for tests that are not written in Rust.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{Answer, Body, Call};
use super::gate::At;
use super::{ModelServer, Options};

/// A file of answers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Taken one by one, in order.
    #[serde(default)]
    answers: Vec<AnswerForm>,
    /// For every request whose user text holds a text.
    #[serde(default)]
    routes: Vec<RouteForm>,
    /// Whether requests are checked.
    strict: Option<bool>,
    /// Whether a request must bring a key.
    needs_key: Option<bool>,
    /// Whether Gemini signatures may come back in the other alphabet of base64.
    takes_any_alphabet: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RouteForm {
    contains: String,
    answer: AnswerForm,
}

/// One answer; field names are those of [`Answer`] in camel case.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct AnswerForm {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    redacted_thinking: Vec<String>,
    calls: Vec<CallForm>,
    usage: Option<Usage>,
    reasoning_tokens: Option<u64>,
    stop: Option<String>,
    stream_error: Option<String>,
    status: Option<u16>,
    error: Option<String>,
    error_type: Option<String>,
    retry_after: Option<String>,
    headers: BTreeMap<String, String>,
    raw: Option<String>,
    content_type: Option<String>,
    deltas: Option<usize>,
    delay_ms: Option<u64>,
    cut_at: Option<usize>,
    reset: bool,
    stall: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CallForm {
    name: String,
    #[serde(default)]
    args: Value,
    raw_args: Option<String>,
    id: Option<String>,
}

impl Scenario {
    /// Reads a scenario from JSON.
    ///
    /// # Errors
    /// Where the text is no scenario; the message names the field.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the settings of the server that shall play it.
    pub fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            strict: self.strict.unwrap_or(usual.strict),
            needs_key: self.needs_key.unwrap_or(usual.needs_key),
            takes_any_alphabet: self.takes_any_alphabet.unwrap_or(usual.takes_any_alphabet),
            ..usual
        }
    }

    /// Gives its answers to a server.
    pub fn load(self, server: &ModelServer) {
        for form in self.answers {
            server.push(form.into());
        }
        for route in self.routes {
            let text = route.contains;
            let fits = move |request: &super::Request| super::said(request).contains(&text);
            server.route(fits, route.answer.into());
        }
    }
}

/// Reads one answer from JSON.
///
/// # Errors
/// Where the text is no answer; the message names the field.
pub fn parse_answer(text: &str) -> Result<Answer, serde_json::Error> {
    serde_json::from_str::<AnswerForm>(text).map(Answer::from)
}

impl From<CallForm> for Call {
    fn from(form: CallForm) -> Self {
        let call = match form.raw_args {
            Some(raw) => Call::raw(form.name, raw),
            None => Call::new(form.name, form.args),
        };
        match form.id {
            Some(id) => call.id(id),
            None => call,
        }
    }
}

impl From<AnswerForm> for Answer {
    fn from(form: AnswerForm) -> Self {
        let mut answer = match (form.raw, form.status) {
            (Some(raw), status) => {
                let content_type = form.content_type.unwrap_or("text/event-stream".into());
                Answer::raw(raw).raw_as(status.unwrap_or(200), content_type)
            }
            (None, Some(status)) if status != 200 => {
                Answer::error(status, form.error.unwrap_or("scripted error".into()))
            }
            (None, _) => Answer::empty(),
        };
        if let (Body::Failure { kind, .. }, Some(word)) = (&mut answer.body, form.error_type) {
            *kind = Some(word);
        }
        answer.headers = form.headers.into_iter().collect();
        answer.headers.extend(form.retry_after.map(|value| ("retry-after".to_owned(), value)));
        answer.speech.text = form.text.unwrap_or_default();
        answer.speech.thinking = form.thinking;
        answer.speech.signature = form.signature;
        answer.speech.redacted = form.redacted_thinking;
        answer.speech.calls = form.calls.into_iter().map(Call::from).collect();
        answer.speech.reasoning = form.reasoning_tokens.unwrap_or(0);
        answer.speech.stream_error = form.stream_error;
        answer.pace.deltas = form.deltas.unwrap_or(1).max(1);
        answer.pace.delay = Duration::from_millis(form.delay_ms.unwrap_or(0));
        answer.pace.cut_at = form.cut_at;
        answer.pace.reset = form.reset;
        answer.pace.stall = form.stall.then_some(At::Start);
        if let Some(usage) = form.usage {
            answer = answer.usage(usage);
        }
        if let Some(word) = form.stop {
            let reason = serde_json::from_value(Value::String(word.clone()));
            answer = match reason {
                Ok(reason) => answer.stop(reason),
                Err(_) => answer.stop_word(word),
            };
        }
        answer
    }
}
