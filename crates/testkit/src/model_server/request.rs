//! What arrived: one recorded request, and ways to read it whatever its wire.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

/// A provider's language, as the path tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini.
    Gemini,
}

impl Api {
    /// Returns the language that is spoken under a path (query left off).
    pub fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => return Some(Api::Anthropic),
            "/v1/responses" => return Some(Api::Responses),
            "/v1/chat/completions" => return Some(Api::Chat),
            _ => {}
        }
        let rest = ["/v1beta/models/", "/v1/models/"].iter().find_map(|p| path.strip_prefix(p))?;
        let (model, verb) = rest.split_once(':')?;
        let is_gemini = matches!(verb, "generateContent" | "streamGenerateContent");
        (is_gemini && !model.is_empty()).then_some(Api::Gemini)
    }

    /// Returns the field that holds the messages.
    pub(super) fn messages_field(self) -> &'static str {
        match self {
            Api::Anthropic | Api::Chat => "messages",
            Api::Responses => "input",
            Api::Gemini => "contents",
        }
    }
}

/// How the server's side of an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer left whole.
    Finished,
    /// The script cut it.
    Cut,
    /// The client closed the connection first.
    ClientGone,
}

/// One model request.
#[derive(Debug)]
pub struct Request {
    /// Its number, from 1, in the order of arrival.
    pub number: usize,
    /// Its language.
    pub api: Api,
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` where it was no JSON.
    pub body: Value,
    /// The body as it came.
    pub raw: Bytes,
    /// When the last byte had come.
    pub at: Instant,
    /// Which rules it broke.
    pub violations: Vec<String>,
    /// The length of its messages in canonical bytes: as sent, without white space between
    /// tokens and without cache marks.
    pub prompt_bytes: usize,
    /// How many of those bytes, from the first on, an earlier request had sent with the same
    /// model, system prompt and tools. A client whose prefix is stable has here at least the
    /// `prompt_bytes` of its request before.
    pub common_prefix: usize,
    pub(super) ended: OnceLock<(End, Instant)>,
}

/// The result of a tool as a request brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id; empty where the wire sent none.
    pub id: String,
    /// The text of the result (Gemini: its response as JSON).
    pub text: String,
    /// Whether it was marked as failed, on the wire that has such a mark.
    pub is_error: Option<bool>,
}

impl Request {
    /// Returns how the exchange ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.ended.get().map(|(end, _)| *end)
    }

    /// Returns when the last byte of the answer had left.
    pub fn ended_at(&self) -> Option<Instant> {
        self.ended.get().map(|(_, at)| *at)
    }

    /// Returns the model that was asked for.
    pub fn model(&self) -> &str {
        if self.api == Api::Gemini {
            let path = self.path.split(['?', '#']).next().unwrap_or_default();
            let last = path.rsplit('/').next().unwrap_or_default();
            return last.split(':').next().unwrap_or_default();
        }
        text_at(&self.body, "model")
    }

    /// Tells whether the answer shall be a stream.
    pub fn wants_stream(&self) -> bool {
        match self.api {
            Api::Gemini => self.path.contains(":streamGenerateContent"),
            _ => self.body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// Returns the key that came with the request; empty where none did.
    pub fn key(&self) -> &str {
        let header = |name: &str| self.headers.get(name).map_or("", String::as_str);
        let bearer = header("authorization").strip_prefix("Bearer ").unwrap_or_default();
        match self.api {
            Api::Anthropic if !header("x-api-key").is_empty() => header("x-api-key"),
            Api::Gemini if !header("x-goog-api-key").is_empty() => header("x-goog-api-key"),
            _ => bearer,
        }
    }

    /// Returns the messages as the wire sent them.
    pub fn messages(&self) -> &[Value] {
        items(&self.body, self.api.messages_field())
    }
}

/// Returns everything that user messages and tool results of a request say, one line each.
pub fn said(request: &Request) -> String {
    let mut out = Vec::new();
    for message in request.messages() {
        if is_from_user(message) {
            gather(content_of(message), &mut out);
        }
    }
    if let Some(text) = request.body.get("input").and_then(Value::as_str) {
        out.push(text.to_owned());
    }
    out.join("\n")
}

/// Returns the text of the newest user message that has text of its own, results left off.
pub fn last_user_text(request: &Request) -> String {
    if let Some(text) = request.body.get("input").and_then(Value::as_str) {
        return text.to_owned();
    }
    let own = |message: &Value| match text_at(message, "role") {
        "user" => own_text(content_of(message)),
        _ => String::new(),
    };
    request.messages().iter().rev().map(own).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Returns the newest results of tools in a request, in their order.
pub fn tool_results(request: &Request) -> Vec<ToolResult> {
    let mut out = Vec::new();
    for message in request.messages().iter().rev() {
        let found = results_of(request.api, message);
        if found.is_empty() && !out.is_empty() {
            break;
        }
        let is_whole = matches!(request.api, Api::Anthropic | Api::Gemini) && !found.is_empty();
        out.splice(0..0, found);
        if is_whole {
            break;
        }
    }
    out
}

/// Returns the names of the tools that a request offers.
pub fn tool_names(request: &Request) -> Vec<String> {
    let mut out = Vec::new();
    for tool in items(&request.body, "tools") {
        let nested = items(tool, "functionDeclarations");
        let one = tool.get("function").unwrap_or(tool);
        let offered = if nested.is_empty() { std::slice::from_ref(one) } else { nested };
        out.extend(offered.iter().map(|tool| text_at(tool, "name").to_owned()));
    }
    out
}

fn results_of(api: Api, message: &Value) -> Vec<ToolResult> {
    let flat = |value: Option<&Value>| {
        let mut out = Vec::new();
        gather(value, &mut out);
        out.join("\n")
    };
    match api {
        Api::Anthropic => items(message, "content")
            .iter()
            .filter(|block| text_at(block, "type") == "tool_result")
            .map(|block| ToolResult {
                id: text_at(block, "tool_use_id").to_owned(),
                text: flat(block.get("content")),
                is_error: Some(block.get("is_error").and_then(Value::as_bool).unwrap_or(false)),
            })
            .collect(),
        Api::Chat if text_at(message, "role") == "tool" => vec![ToolResult {
            id: text_at(message, "tool_call_id").to_owned(),
            text: flat(message.get("content")),
            is_error: None,
        }],
        Api::Responses if text_at(message, "type") == "function_call_output" => vec![ToolResult {
            id: text_at(message, "call_id").to_owned(),
            text: flat(message.get("output")),
            is_error: None,
        }],
        Api::Chat | Api::Responses => Vec::new(),
        Api::Gemini => items(message, "parts")
            .iter()
            .filter_map(|part| part.get("functionResponse"))
            .map(|part| ToolResult {
                id: text_at(part, "id").to_owned(),
                text: part.get("response").map(Value::to_string).unwrap_or_default(),
                is_error: None,
            })
            .collect(),
    }
}

fn is_from_user(message: &Value) -> bool {
    matches!(text_at(message, "role"), "user" | "tool")
        || text_at(message, "type") == "function_call_output"
}

fn content_of(message: &Value) -> Option<&Value> {
    ["content", "parts", "output"].iter().find_map(|field| message.get(*field))
}

/// Gathers the texts of a content value: strings, text blocks, and what results hold.
fn gather(value: Option<&Value>, out: &mut Vec<String>) {
    match value {
        Some(Value::String(text)) => out.push(text.clone()),
        Some(Value::Array(parts)) => parts.iter().for_each(|part| gather(Some(part), out)),
        Some(Value::Object(part)) => {
            if let Some(Value::String(text)) = part.get("text") {
                out.push(text.clone());
            } else if let Some(answer) = part.get("functionResponse") {
                out.push(answer.get("response").map(Value::to_string).unwrap_or_default());
            } else {
                gather(part.get("content"), out);
            }
        }
        _ => {}
    }
}

fn own_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns a text field; empty where it is missing or no text.
pub(super) fn text_at<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list field; empty where it is missing or no list.
pub(super) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
