//! What a test scripts: one answer of the model.

use std::time::Duration;

use bytes::Bytes;
use protocol::{StopReason, Usage};
use serde_json::Value;

use super::gate::{At, Gate};

/// What an answer reports as used where the test does not say it.
const USAGE_DEFAULT: Usage = Usage {
    input_tokens: 100,
    output_tokens: 10,
    reasoning_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
};

/// One tool call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub(super) name: String,
    pub(super) args: Args,
    pub(super) id: CallId,
}

/// The arguments of a call: a JSON value, or text that is sent as it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Args {
    Json(Value),
    Raw(String),
}

impl Args {
    /// Returns the arguments as text.
    pub(super) fn text(&self) -> String {
        match self {
            Args::Json(value) => value.to_string(),
            Args::Raw(text) => text.clone(),
        }
    }

    /// Returns the arguments as a value, for places that can carry no broken text.
    pub(super) fn value(&self) -> Value {
        match self {
            Args::Json(value) => value.clone(),
            Args::Raw(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallId {
    Fresh,
    Given(String),
    Absent,
}

impl Call {
    /// Makes a call with a fresh id.
    pub fn new(name: impl Into<String>, args: Value) -> Self {
        Self { name: name.into(), args: Args::Json(args), id: CallId::Fresh }
    }

    /// Makes a call whose arguments are sent as they stand, however broken.
    pub fn raw(name: impl Into<String>, args: impl Into<String>) -> Self {
        Self { name: name.into(), args: Args::Raw(args.into()), id: CallId::Fresh }
    }

    /// Sets the id; it may be empty or one that was used before.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = CallId::Given(id.into());
        self
    }

    /// Leaves the id out. Only Gemini knows such calls; other wires send `null`.
    #[must_use]
    pub fn without_id(mut self) -> Self {
        self.id = CallId::Absent;
        self
    }
}

/// What the model says.
#[derive(Clone, Debug, Default)]
pub(super) struct Speech {
    pub(super) text: String,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) redacted: Vec<String>,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Spent,
    pub(super) reasoning: u64,
    pub(super) stop: Option<Stop>,
    pub(super) stream_error: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Spent {
    Fixed(Usage),
    Measured,
}

impl Default for Spent {
    fn default() -> Self {
        Spent::Fixed(USAGE_DEFAULT)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    Reason(StopReason),
    Word(String),
    Absent,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// The model speaks.
    Speech,
    /// An HTTP error in the provider's form.
    Failure { status: u16, message: String, kind: Option<String> },
    /// Bytes as they stand, each piece an HTTP chunk of its own.
    Raw { status: u16, content_type: String, chunks: Vec<Bytes> },
}

/// When the bytes leave.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) deltas: usize,
    pub(super) delay: Duration,
    pub(super) gate: Option<(At, Gate)>,
    pub(super) stall: Option<At>,
    pub(super) cut_at: Option<usize>,
    pub(super) reset: bool,
}

/// One scripted answer. Begin with one of the constructors, then add to it.
///
/// ```ignore
/// server.push(Answer::text("hi").deltas(3).thinking("hm"));
/// server.push(Answer::call("read_file", json!({"path": "a.txt"})));
/// server.push(Answer::error(529, "too many guests").retry_after("1"));
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) body: Body,
    pub(super) speech: Speech,
    pub(super) pace: Pace,
    pub(super) headers: Vec<(String, String)>,
}

impl Answer {
    fn with_body(body: Body) -> Self {
        let pace = Pace {
            deltas: 1,
            delay: Duration::ZERO,
            gate: None,
            stall: None,
            cut_at: None,
            reset: false,
        };
        Self { body, speech: Speech::default(), pace, headers: Vec::new() }
    }

    /// Says nothing yet: an answer without content, to be filled.
    pub fn empty() -> Self {
        Self::with_body(Body::Speech)
    }

    /// Says a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::empty().and_text(text)
    }

    /// Asks for one tool call.
    pub fn call(name: impl Into<String>, args: Value) -> Self {
        Self::empty().and_call(Call::new(name, args))
    }

    /// Asks for several tool calls at once.
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        let mut answer = Self::empty();
        answer.speech.calls.extend(calls);
        answer
    }

    /// Fails with an HTTP status, in the provider's form.
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        Self::with_body(Body::Failure { status, message: message.into(), kind: None })
    }

    /// Sends bytes as the body of a stream (status 200, `text/event-stream`).
    pub fn raw(body: impl Into<Bytes>) -> Self {
        Self::raw_chunks([body.into()])
    }

    /// Sends each piece as an HTTP chunk of its own, so that a reader sees the borders.
    pub fn raw_chunks<B: Into<Bytes>>(chunks: impl IntoIterator<Item = B>) -> Self {
        let chunks = chunks.into_iter().map(Into::into).collect();
        Self::with_body(Body::Raw { status: 200, content_type: "text/event-stream".into(), chunks })
    }

    /// Sends values as `data:` events: streams of Chat Completions and Gemini, written by hand.
    pub fn data(events: impl IntoIterator<Item = Value>) -> Self {
        Self::raw_chunks(events.into_iter().map(|event| format!("data: {event}\n\n")))
    }

    /// Sends values as events named by their `type`: the other two wires, written by hand.
    pub fn events(events: impl IntoIterator<Item = Value>) -> Self {
        Self::raw_chunks(events.into_iter().map(|event| {
            let name = event.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
            format!("event: {name}\ndata: {event}\n\n")
        }))
    }

    /// Accepts the request and never says a byte.
    pub fn silence() -> Self {
        Self::empty().stall(At::Start)
    }

    /// Adds text.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.speech.text.push_str(&text.into());
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(mut self, call: Call) -> Self {
        self.speech.calls.push(call);
        self
    }

    /// Thinks before it speaks; the server makes the signature unless one is set.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.speech.thinking = Some(text.into());
        self
    }

    /// Sets the signature of the thinking, or of the first call on Gemini.
    #[must_use]
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.speech.signature = Some(signature.into());
        self
    }

    /// Adds a thought that only the provider can read (Anthropic; other wires leave it out).
    #[must_use]
    pub fn redacted_thinking(mut self, data: impl Into<String>) -> Self {
        self.speech.redacted.push(data.into());
        self
    }

    /// Sets what the answer says it used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.speech.usage = Spent::Fixed(usage);
        self
    }

    /// Reports usage as the server measured it, a token for every four bytes: what the request
    /// shares with an earlier one counts as read from the cache.
    #[must_use]
    pub fn measured_usage(mut self) -> Self {
        self.speech.usage = Spent::Measured;
        self
    }

    /// Sets how many of the output tokens were thinking.
    #[must_use]
    pub fn reasoning_tokens(mut self, tokens: u64) -> Self {
        self.speech.reasoning = tokens;
        self
    }

    /// Sets why the model stopped; calls decide where it is not set.
    #[must_use]
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.speech.stop = Some(Stop::Reason(reason));
        self
    }

    /// Sets the wire's own word for why the model stopped, however odd.
    #[must_use]
    pub fn stop_word(mut self, word: impl Into<String>) -> Self {
        self.speech.stop = Some(Stop::Word(word.into()));
        self
    }

    /// Never says why the model stopped.
    #[must_use]
    pub fn without_stop(mut self) -> Self {
        self.speech.stop = Some(Stop::Absent);
        self
    }

    /// Ends the stream with an error event of this type in place of its proper end.
    #[must_use]
    pub fn stream_error(mut self, kind: impl Into<String>) -> Self {
        self.speech.stream_error = Some(kind.into());
        self
    }

    /// Sets the type word of an HTTP error.
    #[must_use]
    pub fn error_type(mut self, word: impl Into<String>) -> Self {
        if let Body::Failure { kind, .. } = &mut self.body {
            *kind = Some(word.into());
        }
        self
    }

    /// Sets the status and content type of raw bytes, for proxies that answer with a page.
    #[must_use]
    pub fn raw_as(mut self, new_status: u16, new_type: impl Into<String>) -> Self {
        if let Body::Raw { status, content_type, .. } = &mut self.body {
            *status = new_status;
            *content_type = new_type.into();
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Asks the client to wait: seconds or an HTTP date.
    #[must_use]
    pub fn retry_after(self, value: impl Into<String>) -> Self {
        self.header("retry-after", value)
    }

    /// Splits the text into this many pieces.
    #[must_use]
    pub fn deltas(mut self, count: usize) -> Self {
        self.pace.deltas = count.max(1);
        self
    }

    /// Waits before each piece of text (before each chunk of raw bytes).
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.pace.delay = delay;
        self
    }

    /// Waits at a gate.
    #[must_use]
    pub fn gate(mut self, at: At, gate: &Gate) -> Self {
        self.pace.gate = Some((at, gate.clone()));
        self
    }

    /// Falls silent for good at a place, with the connection open.
    #[must_use]
    pub fn stall(mut self, at: At) -> Self {
        self.pace.stall = Some(at);
        self
    }

    /// Closes the connection after this many bytes of the body, in the midst of the transfer.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.pace.cut_at = Some(bytes);
        self
    }

    /// Makes the cut a TCP reset in place of a close.
    #[must_use]
    pub fn reset(mut self) -> Self {
        self.pace.reset = true;
        self
    }
}
