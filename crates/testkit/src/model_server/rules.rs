//! What a strict provider refuses.
//!
//! Common to all wires: a key came; every call has exactly one result in the next message, and
//! results come first; ids of calls are unique and well formed; no text is blank; roles
//! alternate; what the server signed comes back byte for byte; images are base64; the schema of
//! an answer is one that the provider takes.

mod anthropic;
mod chat;
mod gemini;
mod output;
mod responses;

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::request::{Api, Request, items, text_at};
use super::wire::Spoken;

/// The kinds of images that all providers read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The longest name of a tool that all providers take, in bytes.
const TOOL_NAME_BYTES_MAX: usize = 64;

/// What the server has handed out, to know it again when it comes back.
#[derive(Debug, Default)]
pub(super) struct Issued {
    /// Signature to the text that it seals.
    signatures: HashMap<String, String>,
    /// Thoughts that only the provider can read.
    sealed: HashSet<String>,
    /// Id of a call to the signature that came with it.
    calls: HashMap<String, String>,
    /// Id of a Responses answer to the calls that it left open.
    open: HashMap<String, Vec<String>>,
    /// Whether a Gemini signature may come back in the other alphabet of base64.
    takes_any_alphabet: bool,
}

impl Issued {
    pub(super) fn new(takes_any_alphabet: bool) -> Self {
        Self { takes_any_alphabet, ..Self::default() }
    }

    /// Returns a Gemini signature in the alphabet in which it was issued.
    fn as_issued(&self, signature: &str) -> String {
        if self.takes_any_alphabet {
            signature.replace('-', "+").replace('_', "/")
        } else {
            signature.to_owned()
        }
    }

    /// Remembers a signature.
    pub(super) fn sign(&mut self, signature: &str, text: &str) {
        self.signatures.insert(signature.to_owned(), text.to_owned());
    }

    /// Remembers what an answer hands out.
    pub(super) fn note(&mut self, api: Api, spoken: &Spoken<'_>) {
        self.sealed.extend(spoken.redacted.iter().cloned());
        let ids: Vec<_> = spoken.calls.iter().filter_map(|call| call.id.clone()).collect();
        if let Some(signature) = &spoken.signature {
            self.sign(signature, spoken.thinking.unwrap_or_default());
            // Gemini signs the first of several calls, Anthropic the message that holds them.
            let signed = if api == Api::Gemini { 1 } else { ids.len() };
            let pairs = ids.iter().take(signed).map(|id| (id.clone(), signature.clone()));
            self.calls.extend(pairs);
        }
        if api == Api::Responses {
            self.open.insert(spoken.response_id.clone(), ids);
        }
    }
}

/// The sentences that a check has gathered.
#[derive(Debug, Default)]
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, place: &str, what: impl AsRef<str>) {
        self.0.push(format!("{place}: {}", what.as_ref()));
    }

    fn when(&mut self, is_wrong: bool, place: &str, what: &str) {
        if is_wrong {
            self.add(place, what);
        }
    }

    fn text(&mut self, place: &str, text: Option<&Value>) {
        let is_blank = text.and_then(Value::as_str).is_none_or(|text| text.trim().is_empty());
        self.when(is_blank, place, "the text is blank");
    }

    fn base64(&mut self, place: &str, text: &str) {
        let is_wrong = text.is_empty() || STANDARD.decode(text).is_err();
        self.when(is_wrong, place, "the data is no standard base64");
    }

    fn image(&mut self, place: &str, mime_type: &str, base64: &str) {
        let is_known = IMAGE_TYPES.contains(&mime_type);
        self.when(!is_known, place, "the image is of a kind that nobody reads");
        self.base64(place, base64);
    }

    /// Checks an image that is given as a `data:` address; others are left alone.
    fn data_address(&mut self, place: &str, address: &str) {
        if address.starts_with("https://") || address.starts_with("http://") {
            return;
        }
        let parts = address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match parts {
            Some((mime_type, base64)) => self.image(place, mime_type, base64),
            None => self.add(place, "the image is no data address in base64"),
        }
    }

    /// Checks the roles of messages: the first is the user's, and they alternate.
    fn roles(&mut self, place: &str, roles: &[&str], assistant: &str) {
        for (index, pair) in roles.windows(2).enumerate() {
            if let [one, next] = pair
                && one == next
            {
                self.add(place, format!("messages {index} and {} are both {one}", index + 1));
            }
        }
        self.when(roles.first() != Some(&"user"), place, "the first message is not the user's");
        self.when(roles.last() == Some(&assistant), place, "the last message is the model's own");
    }

    /// Checks the tools that are offered.
    fn tools<'a>(&mut self, tools: impl Iterator<Item = (&'a str, Option<&'a Value>)>) {
        let mut seen = HashSet::new();
        for (name, schema) in tools {
            let place = format!("tool {name:?}");
            self.when(!is_name(name), &place, "the name is not [A-Za-z0-9_-]{1,64}");
            self.when(!seen.insert(name), &place, "two tools have this name");
            let is_object =
                schema.is_none_or(|schema| text_at(schema, "type").eq_ignore_ascii_case("object"));
            self.when(!is_object, &place, "the schema of the arguments is no object");
        }
    }

    /// Checks that each call has exactly one result.
    fn pairs(&mut self, place: &str, calls: &[&str], results: &[&str]) {
        for call in calls {
            match results.iter().filter(|result| *result == call).count() {
                1 => {}
                0 => self.add(place, format!("the call {call:?} has no result here")),
                count => self.add(place, format!("the call {call:?} has {count} results")),
            }
        }
        for result in results {
            if !calls.contains(result) {
                self.add(place, format!("the result {result:?} answers no call before it"));
            }
        }
    }

    /// Checks arguments that travel as text.
    fn arguments(&mut self, place: &str, value: Option<&Value>) {
        let text = value.and_then(Value::as_str);
        let parsed = text.map(serde_json::from_str::<Value>);
        let is_object = matches!(parsed, Some(Ok(Value::Object(_))));
        self.when(!is_object, place, "the arguments are no JSON object in a string");
    }

    /// Checks the id of a call: not empty, of plain characters, new.
    fn call_id<'a>(&mut self, place: &str, id: &'a str, seen: &mut HashSet<&'a str>) {
        let is_plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        self.when(id.is_empty(), place, "the id of the call is empty");
        self.when(!is_plain, place, &format!("the id {id:?} has odd characters"));
        self.when(!seen.insert(id), place, &format!("the id {id:?} occurs twice"));
    }
}

/// Checks a request; returns the status to answer with and one sentence for each fault.
pub(super) fn check(request: &Request, issued: &Issued, is_key_needed: bool) -> (u16, Vec<String>) {
    if is_key_needed && request.key().trim().is_empty() {
        return (401, vec!["headers: no key came with the request".to_owned()]);
    }
    let mut findings = Findings::default();
    if !request.body.is_object() {
        findings.add("body", "no JSON object");
        return (400, findings.0);
    }
    findings.when(request.model().is_empty(), "model", "missing");
    match request.api {
        Api::Anthropic => anthropic::check(request, issued, &mut findings),
        Api::Responses => responses::check(request, issued, &mut findings),
        Api::Chat => chat::check(request, &mut findings),
        Api::Gemini => gemini::check(request, issued, &mut findings),
    }
    (400, findings.0)
}

fn is_name(name: &str) -> bool {
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Returns the offered tools of the wires that list them flat, with the schema's field name.
fn flat_tools<'a>(
    body: &'a Value,
    schema: &'a str,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>)> {
    // A tool that the provider itself runs has a type of its own and no schema.
    let own = |tool: &&Value| matches!(text_at(tool, "type"), "" | "custom" | "function");
    let described = move |tool: &'a Value| {
        (text_at(tool, "name"), Some(tool.get(schema).unwrap_or(&Value::Null)))
    };
    items(body, "tools").iter().filter(own).map(described)
}
