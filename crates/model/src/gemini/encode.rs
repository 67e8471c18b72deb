//! A request as this wire wants it. Thought signatures go back on the very part that had them.

use std::borrow::Cow;

use driver_api::{Effort, ModelRequest, ToolSpec};
use protocol::{Block, Image, Message, Role, Signed, Wire};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::outgoing::{call_id, images, nothing, result_text, seal, sendable, tool_name, unseen};
use crate::structured::{Told, without_dialect};
use crate::table::Thinking;
use crate::wire::{Tag, Target};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Config::is_empty")]
    generation_config: Config<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl Config<'_> {
    fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none()
            && self.response_json_schema.is_none()
            && self.thinking_config.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<Tag>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [TextPart<'a>; 1],
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: Cow<'a, Value>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: Tag,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    args: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    response: Response,
}

/// The two keys that the wire gives a meaning.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

/// Writes the body. The model's name stands in the address.
pub(crate) fn body(target: &Target, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let told = Told::of(Wire::Gemini, target, request);
    let system = told.system;
    let declarations: Vec<Declaration<'_>> = request.tools.iter().map(declaration).collect();
    let has_tools = !declarations.is_empty();
    let schema = told.format.map(|format| format.schema);
    let mut contents = Vec::with_capacity(request.messages.len());
    let mut before = None;
    for message in &request.messages {
        contents.push(content(message, before, target.images));
        before = Some(&**message);
    }
    serde_json::to_vec(&Body {
        generation_config: Config {
            max_output_tokens: request.max_output,
            response_mime_type: schema.as_ref().map(|_| Tag("application/json")),
            response_json_schema: schema,
            thinking_config: request.effort.and_then(|effort| thinking(target.thinking, effort)),
        },
        system_instruction: (!system.trim().is_empty())
            .then_some(Instruction { parts: [TextPart { text: system }] }),
        tools: has_tools
            .then_some(Tools { function_declarations: declarations })
            .into_iter()
            .collect(),
        contents,
    })
}

fn declaration(tool: &ToolSpec) -> Declaration<'_> {
    Declaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: without_dialect(&tool.input_schema),
    }
}

fn thinking(style: Thinking, effort: Effort) -> Option<ThinkingConfig> {
    let (budget, level) = match (style, effort) {
        (Thinking::None, _) => return None,
        (Thinking::Budget, Effort::Low) => (Some(2_048), None),
        (Thinking::Budget, Effort::Medium) => (Some(8_192), None),
        (Thinking::Budget, Effort::High) => (Some(24_576), None),
        // Not every model of the family knows a level between the two.
        (Thinking::Effort, Effort::Low) => (None, Some(Tag("low"))),
        (Thinking::Effort, Effort::Medium | Effort::High) => (None, Some(Tag("high"))),
    };
    Some(ThinkingConfig { include_thoughts: true, thinking_budget: budget, thinking_level: level })
}

fn content<'a>(
    message: &'a Message,
    before: Option<&'a Message>,
    reads_images: bool,
) -> Content<'a> {
    let mut parts = Vec::new();
    let mut shown = Vec::new();
    for block in sendable(message, Wire::Gemini) {
        match block {
            Block::Text { text, signed } => parts.push(Part {
                text: Some(Cow::Borrowed(text)),
                thought_signature: signature(signed.as_ref()),
                ..Part::default()
            }),
            Block::Thinking { text, signed } => parts.push(Part {
                text: Some(Cow::Borrowed(text)),
                thought: Some(true),
                thought_signature: signature(signed.as_ref()),
                ..Part::default()
            }),
            Block::ToolUse { id, name, input, signed, .. } => parts.push(Part {
                function_call: Some(FunctionCall {
                    id: call_id(id.as_str()),
                    name: tool_name(name),
                    args: input,
                }),
                thought_signature: signature(signed.as_ref()),
                ..Part::default()
            }),
            Block::ToolResult { id, name, content, is_error } => {
                let called = called_name(before, id.as_str()).unwrap_or(name);
                parts.push(answer(id.as_str(), called, content, *is_error));
                shown.extend(images(content).map(|image| self::image(image, reads_images)));
            }
            Block::Image(image) => parts.push(self::image(image, reads_images)),
            Block::RedactedThinking { .. } => {}
        }
    }
    // A result has no place for an image; it follows behind all results.
    let results = parts.iter().take_while(|part| part.function_response.is_some()).count();
    parts.splice(results..results, shown);
    if parts.is_empty() {
        parts.push(text(nothing()));
    }
    let role = match message.role {
        Role::Assistant => Tag("model"),
        Role::User | Role::Tool => Tag("user"),
    };
    Content { role, parts }
}

fn signature(signed: Option<&Signed>) -> Option<&str> {
    seal(signed, Wire::Gemini).map(|signed| signed.signature.as_str())
}

/// Finds the name under which the model called: an answer must repeat it.
fn called_name<'a>(before: Option<&'a Message>, wanted: &str) -> Option<&'a str> {
    before?.content.iter().find_map(|block| match block {
        Block::ToolUse { id, name, .. } if id.as_str() == wanted => Some(name.as_str()),
        _ => None,
    })
}

fn answer<'a>(id: &'a str, name: &'a str, content: &'a [Block], is_error: bool) -> Part<'a> {
    let text = result_text(content, false);
    let response = if is_error { Response::Error(text) } else { Response::Output(text) };
    let function_response = FunctionResponse { id: call_id(id), name: tool_name(name), response };
    Part { function_response: Some(function_response), ..Part::default() }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part { text: Some(text.into()), ..Part::default() }
}

fn image(image: &Image, reads_images: bool) -> Part<'_> {
    if !reads_images {
        return text(unseen(image));
    }
    let inline_data = InlineData { mime_type: &image.mime_type, data: &image.data };
    Part { inline_data: Some(inline_data), ..Part::default() }
}
