//! A request as this wire wants it.
//!
//! Many servers speak this wire and several refuse fields that they do not know, so only what all
//! of them take is sent, and more only to the server that OpenAI runs.

use std::borrow::Cow;

use driver_api::{Effort, ModelRequest};
use protocol::{Block, Message, Role, Wire};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::outgoing::{
    call_id, data_url, images, nothing, result_text, sendable, tool_name, unseen,
};
use crate::structured::Told;
use crate::table::Thinking;
use crate::wire::{Tag, Target};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: Tag,
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: Cow<'a, str>,
    schema: Cow<'a, Value>,
    strict: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: Tag,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Entry<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: String,
    },
}

/// Plain text stands as text: small servers know nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    r#type: Tag,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

/// Writes the body.
pub(crate) fn body(target: &Target, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let told = Told::of(Wire::OpenaiChat, target, request);
    if !told.system.trim().is_empty() {
        messages.push(Entry::System { content: told.system });
    }
    for message in &request.messages {
        match message.role {
            Role::Assistant => messages.push(assistant(message)),
            Role::User | Role::Tool => user(message, target.images, &mut messages),
        }
    }
    // Models that reason know the newer name of the limit only, all others the older one.
    let reasons = target.is_openai || target.thinking == Thinking::Effort;
    let effort = request.effort.filter(|_| target.thinking == Thinking::Effort);
    serde_json::to_vec(&Body {
        model: &target.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: request.max_output.filter(|_| !reasons),
        max_completion_tokens: request.max_output.filter(|_| reasons),
        reasoning_effort: effort.map(effort_word),
        prompt_cache_key: target.is_openai.then_some(request.cache_key.as_str()),
        response_format: told.format.map(|format| Format {
            r#type: Tag("json_schema"),
            json_schema: Schema {
                name: format.name,
                schema: format.schema,
                strict: format.is_strict,
            },
        }),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: Tag("function"),
                function: Function {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.input_schema,
                },
            })
            .collect(),
        messages,
    })
}

/// Returns the word for an effort, the same on both wires of OpenAI.
pub(crate) fn effort_word(effort: Effort) -> Tag {
    Tag(match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    })
}

/// Writes the arguments of a call that stands in the transcript. Those that were no object were
/// never run; many servers parse this text, so they get an empty object and read the reason in
/// the call's result.
pub(crate) fn arguments_text(input: &Map<String, Value>) -> String {
    serde_json::to_string(input).unwrap_or_else(|_| "{}".to_owned())
}

/// Joins the texts of an assistant's message; `None` where there are none.
fn spoken(message: &Message) -> Option<String> {
    let texts: Vec<&str> = sendable(message, Wire::OpenaiChat)
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn assistant(message: &Message) -> Entry<'_> {
    let tool_calls: Vec<ToolCall<'_>> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some(ToolCall {
                id: call_id(id.as_str()),
                r#type: Tag("function"),
                function: CalledFunction {
                    name: tool_name(name),
                    arguments: arguments_text(input),
                },
            }),
            _ => None,
        })
        .collect();
    let mut content = spoken(message);
    if content.is_none() && tool_calls.is_empty() {
        content = Some(nothing().to_owned());
    }
    Entry::Assistant { content, tool_calls }
}

/// Writes a user's message: the results of tools first, each an entry of its own. This wire has
/// no place for an image in a result, so it follows in the user's entry behind them.
fn user<'a>(message: &'a Message, reads_images: bool, entries: &mut Vec<Entry<'a>>) {
    let mut parts = Vec::new();
    let mut has_results = false;
    for block in sendable(message, Wire::OpenaiChat) {
        match block {
            Block::ToolResult { id, name, content, is_error } => {
                has_results = true;
                let tool_call_id = call_id(id.as_str());
                for image in images(content) {
                    let label = format!("The image in the result of {name} ({tool_call_id}):");
                    parts.push(Part::Text { text: Cow::Owned(label) });
                    parts.push(self::image(image, reads_images));
                }
                let content = result_text(content, *is_error);
                entries.push(Entry::Tool { tool_call_id, content });
            }
            Block::Text { text, .. } => parts.push(Part::Text { text: Cow::Borrowed(text) }),
            Block::Image(image) => parts.push(self::image(image, reads_images)),
            Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::ToolUse { .. } => {}
        }
    }
    if parts.is_empty() && has_results {
        return;
    }
    entries.push(Entry::User { content: content(parts) });
}

fn content(mut parts: Vec<Part<'_>>) -> Content<'_> {
    if parts.iter().any(|part| matches!(part, Part::ImageUrl { .. })) || parts.len() > 1 {
        return Content::Parts(parts);
    }
    match parts.pop() {
        Some(Part::Text { text }) => Content::Text(text),
        _ => Content::Text(Cow::Borrowed(nothing())),
    }
}

fn image(image: &protocol::Image, reads_images: bool) -> Part<'static> {
    if reads_images {
        Part::ImageUrl { image_url: ImageUrl { url: data_url(image) } }
    } else {
        Part::Text { text: Cow::Owned(unseen(image)) }
    }
}
