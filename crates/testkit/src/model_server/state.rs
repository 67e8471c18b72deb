//! What the server's connections share: the script, the record, what was handed out.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use protocol::{StopReason, Usage};
use serde_json::Value;
use tokio::sync::watch;

use super::answer::{Answer, Call, CallId, Speech, Spent, Stop};
use super::http::Head;
use super::prefix::Prompts;
use super::request::{Api, End, Request, said};
use super::rules::{self, Issued};
use super::wire::{Spoken, SpokenCall};
use super::{Options, Violation};

/// What a request without a scripted answer hears.
pub(super) const UNSCRIPTED: &str = "The test scripted no answer for this request.";
/// How many bytes of a prompt count as one token in measured usage.
const BYTES_PER_TOKEN: usize = 4;

/// Chooses an answer for the requests that it knows.
pub(super) type Route = Arc<dyn Fn(&Request) -> Option<Answer> + Send + Sync>;

#[derive(Default)]
pub(super) struct Script {
    pub(super) routes: Vec<Route>,
    pub(super) keyed: Vec<(String, VecDeque<Answer>)>,
    pub(super) queue: VecDeque<Answer>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Script");
        out.field("routes", &self.routes.len()).field("keyed", &self.keyed);
        out.field("queue", &self.queue).finish()
    }
}

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) requests: Vec<Arc<Request>>,
    pub(super) violations: Vec<Violation>,
    pub(super) unscripted: usize,
    pub(super) count: usize,
    pub(super) issued: Issued,
    prompts: Prompts,
    ids: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: Options,
    pub(super) script: Mutex<Script>,
    pub(super) record: Mutex<Record>,
    /// Grows whenever a request arrives or ends.
    pub(super) changed: watch::Sender<u64>,
}

/// Locks; a test that panicked while it held the lock has failed already.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        let issued = Issued::new(options.takes_any_alphabet);
        Self {
            options,
            script: Mutex::default(),
            record: Mutex::new(Record { issued, ..Record::default() }),
            changed: watch::Sender::new(0),
        }
    }

    /// Records a request and checks it; returns it with the status of a refusal.
    pub(super) fn arrive(&self, api: Api, head: Head, raw: Bytes) -> (Arc<Request>, u16) {
        let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        let mut request = Request {
            number: 0,
            api,
            path: head.path,
            headers: head.headers,
            body,
            raw,
            at: Instant::now(),
            violations: Vec::new(),
            prompt_bytes: 0,
            common_prefix: 0,
            ended: OnceLock::new(),
        };
        let mut record = lock(&self.record);
        record.count += 1;
        request.number = record.count;
        let mut status = 400;
        if self.options.strict {
            let (refusal, found) = rules::check(&request, &record.issued, self.options.needs_key);
            status = refusal;
            record.violations.extend(found.iter().map(|message| Violation {
                request: request.number,
                api,
                message: message.clone(),
            }));
            request.violations = found;
        }
        if self.options.keeps_requests {
            let (length, shared) = record.prompts.measure(api, request.model(), &request.body);
            request.prompt_bytes = length;
            request.common_prefix = shared;
        }
        let request = Arc::new(request);
        if self.options.keeps_requests {
            record.requests.push(Arc::clone(&request));
        }
        drop(record);
        self.tell();
        (request, status)
    }

    /// Takes the answer for a request: from a route, from the script of its conversation, from
    /// the queue.
    pub(super) fn pick(&self, request: &Request) -> Answer {
        // The routes run outside the lock: they are the test's code and may ask the server.
        let routes = lock(&self.script).routes.clone();
        if let Some(answer) = routes.iter().find_map(|route| route(request)) {
            return answer;
        }
        let mut script = lock(&self.script);
        if !script.keyed.is_empty() {
            let text = said(request);
            let fits = |entry: &&mut (String, VecDeque<Answer>)| {
                !entry.1.is_empty() && text.contains(&entry.0)
            };
            let longest = script.keyed.iter_mut().filter(fits).max_by_key(|entry| entry.0.len());
            if let Some(answer) = longest.and_then(|entry| entry.1.pop_front()) {
                return answer;
            }
        }
        let next = script.queue.pop_front();
        drop(script);
        next.unwrap_or_else(|| {
            lock(&self.record).unscripted += 1;
            Answer::text(UNSCRIPTED)
        })
    }

    /// Decides what a speech leaves open, and remembers what it hands out.
    pub(super) fn speak<'a>(&self, request: &'a Request, speech: &'a Speech) -> Spoken<'a> {
        let api = request.api;
        let mut record = lock(&self.record);
        let signature = match (&speech.signature, &speech.thinking) {
            (Some(signature), _) => Some(signature.clone()),
            (None, Some(_)) => Some(seal(record.next_id())),
            (None, None) => None,
        };
        let mut spoken = Spoken {
            model: request.model(),
            response_id: format!("{}_{:06}", answer_prefix(api), request.number),
            text: &speech.text,
            thinking: speech.thinking.as_deref(),
            signature,
            redacted: &speech.redacted,
            calls: Vec::with_capacity(speech.calls.len()),
            usage: match speech.usage {
                Spent::Fixed(usage) => usage,
                Spent::Measured => measured(request, &speech.text),
            },
            reasoning: speech.reasoning,
            stop: speech.stop.clone().unwrap_or(Stop::Reason(if speech.calls.is_empty() {
                StopReason::EndTurn
            } else {
                StopReason::ToolUse
            })),
            stream_error: speech.stream_error.as_deref(),
            with_usage: request
                .body
                .pointer("/stream_options/include_usage")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        };
        for call in &speech.calls {
            let id = call_id(api, call, &mut record);
            spoken.calls.push(SpokenCall { id, name: &call.name, args: &call.args });
        }
        record.issued.note(api, &spoken);
        spoken
    }

    /// Notes how an exchange ended.
    pub(super) fn ended(&self, request: &Request, end: End) {
        let _ = request.ended.set((end, Instant::now())).is_ok();
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Record {
    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

fn call_id(api: Api, call: &Call, record: &mut Record) -> Option<String> {
    let prefix = match api {
        Api::Anthropic => "toolu",
        Api::Responses | Api::Chat => "call",
        Api::Gemini => "fn",
    };
    match &call.id {
        CallId::Fresh => Some(format!("{prefix}_{:08}", record.next_id())),
        CallId::Given(id) => Some(id.clone()),
        CallId::Absent => None,
    }
}

fn answer_prefix(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "msg",
        Api::Responses => "resp",
        Api::Chat => "chatcmpl",
        Api::Gemini => "gem",
    }
}

/// Makes a signature; its bytes bring out `+`, `/` and `=`, which careless code rewrites.
fn seal(number: u64) -> String {
    let mut bytes = vec![0xfb, 0xff, 0xfe];
    bytes.extend(number.to_be_bytes());
    bytes.extend([0xff, 0xef]);
    STANDARD.encode(bytes)
}

fn measured(request: &Request, text: &str) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
    let shared = request.common_prefix;
    Usage {
        input_tokens: 0,
        output_tokens: tokens(text.len()) + 1,
        cache_read_tokens: tokens(shared),
        cache_write_tokens: tokens(request.prompt_bytes - shared),
        reasoning_tokens: 0,
    }
}
