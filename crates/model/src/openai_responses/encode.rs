//! A request as this wire wants it.

use std::borrow::Cow;

use driver_api::ModelRequest;
use protocol::{Block, Image, Message, Role, Signed, Wire};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::openai_chat::encode::{arguments_text, effort_word};
use crate::outgoing::{
    call_id, data_url, images, nothing, result_text, seal, sendable, tool_name, unseen,
};
use crate::structured::Told;
use crate::table::Thinking;
use crate::wire::{Tag, Target};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "is_empty")]
    instructions: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: Tag,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: Tag,
    name: Cow<'a, str>,
    schema: Cow<'a, Value>,
    strict: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: Tag,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    // This wire is strict unless told otherwise, and refuses optional arguments then.
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: Tag,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        extra: Option<&'a Map<String, Value>>,
        content: Vec<Part<'a>>,
    },
    Reasoning {
        #[serde(flatten)]
        extra: &'a Map<String, Value>,
        encrypted_content: &'a str,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
    InputImage { image_url: String },
}

#[allow(clippy::ptr_arg, reason = "the signature that serde asks for")]
fn is_empty(text: &Cow<'_, str>) -> bool {
    text.is_empty()
}

/// Writes the body.
pub(crate) fn body(target: &Target, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let mut input = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::Assistant => assistant(message, &mut input),
            Role::User | Role::Tool => user(message, target.images, &mut input),
        }
    }
    let reasons = target.thinking == Thinking::Effort;
    let effort = request.effort.filter(|_| reasons);
    // Models that do not reason refuse to be asked for sealed reasoning.
    let include = if reasons { vec![Tag("reasoning.encrypted_content")] } else { Vec::new() };
    let told = Told::of(Wire::OpenaiResponses, target, request);
    serde_json::to_vec(&Body {
        model: &target.model,
        stream: true,
        store: false,
        include,
        max_output_tokens: request.max_output,
        reasoning: effort.map(|effort| Reasoning { effort: effort_word(effort) }),
        prompt_cache_key: &request.cache_key,
        text: told.format.map(|format| Text {
            format: Format {
                r#type: Tag("json_schema"),
                name: format.name,
                schema: format.schema,
                strict: format.is_strict,
            },
        }),
        instructions: told.system,
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: Tag("function"),
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
                strict: false,
            })
            .collect(),
        input,
    })
}

/// Writes an assistant's message: each block is an item of its own, in the order it came.
fn assistant<'a>(message: &'a Message, items: &mut Vec<Item<'a>>) {
    let before = items.len();
    for block in sendable(message, Wire::OpenaiResponses) {
        match block {
            Block::Text { text, signed } => items.push(Item::Message {
                role: Tag("assistant"),
                extra: own(signed.as_ref()).map(|signed| &signed.extra),
                content: vec![Part::OutputText { text }],
            }),
            Block::Thinking { signed, .. } => {
                if let Some(seal) = seal(signed.as_ref(), Wire::OpenaiResponses) {
                    items.push(Item::Reasoning {
                        extra: &seal.extra,
                        encrypted_content: &seal.signature,
                    });
                }
            }
            Block::RedactedThinking { signed } => items.push(Item::Reasoning {
                extra: &signed.extra,
                encrypted_content: &signed.signature,
            }),
            Block::ToolUse { id, name, input, .. } => items.push(Item::FunctionCall {
                call_id: call_id(id.as_str()),
                name: tool_name(name),
                arguments: arguments_text(input),
            }),
            Block::ToolResult { .. } | Block::Image(_) => {}
        }
    }
    // Reasoning alone is refused: it must be followed by what came of it.
    let alone = items.iter().skip(before).all(|item| matches!(item, Item::Reasoning { .. }));
    if alone {
        items.truncate(before);
        let content = vec![Part::OutputText { text: nothing() }];
        items.push(Item::Message { role: Tag("assistant"), extra: None, content });
    }
}

/// Returns what came with a text of this wire. It is not sealed, but must come back all the same.
fn own(signed: Option<&Signed>) -> Option<&Signed> {
    signed.filter(|signed| signed.wire == Wire::OpenaiResponses)
}

fn user<'a>(message: &'a Message, reads_images: bool, items: &mut Vec<Item<'a>>) {
    let mut parts = Vec::new();
    let before = items.len();
    for block in sendable(message, Wire::OpenaiResponses) {
        match block {
            Block::ToolResult { id, content, is_error, .. } => {
                items.push(Item::FunctionCallOutput {
                    call_id: call_id(id.as_str()),
                    output: output(content, *is_error, reads_images),
                });
            }
            Block::Text { text, .. } => parts.push(Part::InputText { text: Cow::Borrowed(text) }),
            Block::Image(image) => parts.push(self::image(image, reads_images)),
            Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::ToolUse { .. } => {}
        }
    }
    if parts.is_empty() {
        if items.len() > before {
            return;
        }
        parts.push(Part::InputText { text: Cow::Borrowed(nothing()) });
    }
    items.push(Item::Message { role: Tag("user"), extra: None, content: parts });
}

fn output(content: &[Block], is_error: bool, reads_images: bool) -> Output<'_> {
    let text = result_text(content, is_error);
    if images(content).next().is_none() {
        return Output::Text(text);
    }
    let mut parts = vec![Part::InputText { text: Cow::Owned(text) }];
    parts.extend(images(content).map(|image| self::image(image, reads_images)));
    Output::Parts(parts)
}

fn image(image: &Image, reads_images: bool) -> Part<'static> {
    if reads_images {
        Part::InputImage { image_url: data_url(image) }
    } else {
        Part::InputText { text: Cow::Owned(unseen(image)) }
    }
}
