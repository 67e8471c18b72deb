//! A request as this wire wants it.
//!
//! Four places are marked for the cache, the most that the wire allows: the end of the tools, the
//! end of the system prompt, and the last two user messages. The mark before the last is where
//! the request before this one wrote its cache, so that it is found however much a step added.

use driver_api::{Effort, ModelRequest};
use protocol::{Block, Image, Message, Role, Wire};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::outgoing::{call_id, nothing, result_text, seal, sendable, tool_name, unseen};
use crate::structured::Told;
use crate::table::Thinking;
use crate::wire::{Tag, Target};

/// The answer's limit where nobody names one. The wire must be told; this is enough for any file
/// that is written whole, and leaves most of the window to the prompt.
const ANSWER_TOKENS_DEFAULT: u64 = 32_000;

/// The same for a model that the table does not know: every model of this wire allows it.
const ANSWER_TOKENS_UNKNOWN: u64 = 8_192;

/// The least that the wire accepts as a budget for thinking.
const BUDGET_TOKENS_MIN: u64 = 1_024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    messages: Vec<Turn<'a>>,
}

#[derive(Serialize)]
struct ThinkingSetting {
    r#type: Tag,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_tokens: Option<u64>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: Tag,
    schema: std::borrow::Cow<'a, Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Mark {
    r#type: Tag,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Tag,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    body: PartBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartBody<'a> {
    Text {
        text: std::borrow::Cow<'a, str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
        #[serde(flatten)]
        extra: &'a Map<String, Value>,
    },
    RedactedThinking {
        data: &'a str,
        #[serde(flatten)]
        extra: &'a Map<String, Value>,
    },
    ToolUse {
        id: std::borrow::Cow<'a, str>,
        name: std::borrow::Cow<'a, str>,
        input: &'a Map<String, Value>,
    },
    ToolResult {
        tool_use_id: std::borrow::Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        content: Vec<Part<'a>>,
    },
    Image {
        source: Source<'a>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: Tag,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> From<PartBody<'a>> for Part<'a> {
    fn from(body: PartBody<'a>) -> Self {
        Self { body, cache_control: None }
    }
}

fn text<'a>(text: impl Into<std::borrow::Cow<'a, str>>) -> Part<'a> {
    PartBody::Text { text: text.into() }.into()
}

fn mark() -> Option<Mark> {
    Some(Mark { r#type: Tag("ephemeral") })
}

/// Writes the body.
pub(crate) fn body(target: &Target, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let mut messages: Vec<Turn<'_>> =
        request.messages.iter().map(|message| turn(message, target.images)).collect();
    for message in messages.iter_mut().rev().filter(|message| message.role.0 == "user").take(2) {
        if let Some(last) = message.content.last_mut() {
            last.cache_control = mark();
        }
    }
    let (thinking, effort, max_tokens) = thinking(target, request);
    let told = Told::of(Wire::Anthropic, target, request);
    let format = told.format.map(|it| Format { r#type: Tag("json_schema"), schema: it.schema });
    let output_config =
        (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format });
    let mut system = Vec::new();
    if !told.system.trim().is_empty() {
        system.push(Part { cache_control: mark(), ..text(told.system) });
    }
    serde_json::to_vec(&Body {
        model: &target.model,
        max_tokens,
        stream: true,
        thinking,
        output_config,
        tools: tools(request),
        system,
        messages,
    })
}

fn tools(request: &ModelRequest) -> Vec<Tool<'_>> {
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = mark();
    }
    tools
}

/// Returns the thinking setting, the effort word, and the answer's limit with room for both.
fn thinking(
    target: &Target,
    request: &ModelRequest,
) -> (Option<ThinkingSetting>, Option<Tag>, u64) {
    let default =
        target.max_output.map_or(ANSWER_TOKENS_UNKNOWN, |most| most.min(ANSWER_TOKENS_DEFAULT));
    let asked = request.max_output.unwrap_or(default).max(1);
    let limit = target.max_output.map_or(asked, |most| asked.min(most));
    let Some(effort) = request.effort else { return (None, None, limit) };
    match target.thinking {
        Thinking::None => (None, None, limit),
        Thinking::Effort => {
            let setting = ThinkingSetting { r#type: Tag("adaptive"), budget_tokens: None };
            (Some(setting), Some(Tag(word(effort))), limit)
        }
        Thinking::Budget => {
            let budget = budget(effort).min(limit / 2);
            if budget < BUDGET_TOKENS_MIN || breaks_off_thinking(request) {
                return (None, None, limit);
            }
            let setting = ThinkingSetting { r#type: Tag("enabled"), budget_tokens: Some(budget) };
            (Some(setting), None, limit)
        }
    }
}

fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 24_576,
    }
}

/// Tells whether the calls that are answered now came without a thought of this wire: with a
/// budget switched on the wire refuses such a request, for example after a change of model.
fn breaks_off_thinking(request: &ModelRequest) -> bool {
    let newest = request.messages.iter().rev().find(|message| message.role == Role::Assistant);
    newest.is_some_and(|message| {
        let calls = message.content.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        let first = sendable(message, Wire::Anthropic).next();
        let thought =
            matches!(first, Some(Block::Thinking { .. } | Block::RedactedThinking { .. }));
        calls && !thought
    })
}

fn turn(message: &Message, images: bool) -> Turn<'_> {
    let mut content: Vec<Part<'_>> =
        sendable(message, Wire::Anthropic).map(|block| part(block, images)).collect();
    if content.is_empty() {
        content.push(text(nothing()));
    }
    let role = match message.role {
        Role::Assistant => Tag("assistant"),
        Role::User | Role::Tool => Tag("user"),
    };
    Turn { role, content }
}

fn part(block: &Block, images: bool) -> Part<'_> {
    match block {
        Block::Text { text: said, .. } if said.trim().is_empty() => text(nothing()),
        Block::Text { text: said, .. } => text(said.as_str()),
        Block::Thinking { text: thought, signed } => match seal(signed.as_ref(), Wire::Anthropic) {
            Some(seal) => PartBody::Thinking {
                thinking: thought,
                signature: &seal.signature,
                extra: &seal.extra,
            }
            .into(),
            None => text(nothing()),
        },
        Block::RedactedThinking { signed } => {
            PartBody::RedactedThinking { data: &signed.signature, extra: &signed.extra }.into()
        }
        Block::ToolUse { id, name, input, .. } => {
            PartBody::ToolUse { id: call_id(id.as_str()), name: tool_name(name), input }.into()
        }
        Block::ToolResult { id, content, is_error, .. } => PartBody::ToolResult {
            tool_use_id: call_id(id.as_str()),
            is_error: *is_error,
            content: result(content, images),
        }
        .into(),
        Block::Image(image) => self::image(image, images),
    }
}

/// The parts of a result in their order.
fn result(content: &[Block], images: bool) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text: said, .. } if !said.trim().is_empty() => Some(text(said.as_str())),
            Block::Image(image) => Some(self::image(image, images)),
            _ => None,
        })
        .collect();
    if parts.is_empty() {
        parts.push(text(result_text(content, false)));
    }
    parts
}

fn image(image: &Image, images: bool) -> Part<'_> {
    if !images {
        return text(unseen(image));
    }
    let source = Source { r#type: Tag("base64"), media_type: &image.mime_type, data: &image.data };
    PartBody::Image { source }.into()
}
