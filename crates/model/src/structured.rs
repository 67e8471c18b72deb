//! The JSON that an answer must be: told to a server by its wire's own means where that works,
//! else in words at the end of the system prompt.

mod fit;

use std::borrow::Cow;

use driver_api::ModelRequest;
use protocol::Wire;
use protocol::event::OutputFormat;
use serde::Deserialize;
use serde_json::Value;

use crate::outgoing::tool_name;
use crate::table;
use crate::wire::Target;

pub(crate) use fit::without_dialect;

/// The name of a format that has none: two wires insist on one.
const NAME_DEFAULT: &str = "answer";

/// How a server is told what JSON an answer must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// By the wire's own means where that is known to work for the model, else in words. Servers
    /// that merely speak a wire of others are told in words once there are tools: many of them
    /// let a model call none while a schema binds what it writes.
    #[default]
    Auto,
    /// By the wire's own means, whatever is known.
    Native,
    /// In words at the end of the system prompt: for servers that refuse the field, or ignore it.
    Prompt,
}

/// When a model takes a schema by its wire's own means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schemas {
    /// Always.
    Taken,
    /// In requests without tools.
    TakenAlone,
    /// Never.
    Refused,
}

impl Schemas {
    /// Decides for a model of a server.
    pub(crate) fn of(setting: StructuredOutput, wire: Wire, model: &str, is_vendor: bool) -> Self {
        match setting {
            StructuredOutput::Native => Schemas::Taken,
            StructuredOutput::Prompt => Schemas::Refused,
            StructuredOutput::Auto if table::refuses_schemas(model) => Schemas::Refused,
            StructuredOutput::Auto
                if table::refuses_schemas_beside_tools(model)
                    || wire == Wire::OpenaiChat && !is_vendor =>
            {
                Schemas::TakenAlone
            }
            StructuredOutput::Auto => Schemas::Taken,
        }
    }
}

/// A format as a wire carries it.
#[derive(Debug)]
pub(crate) struct Format<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) schema: Cow<'a, Value>,
    /// Whether the provider makes sure of it; on the wires that know the word.
    pub(crate) is_strict: bool,
}

/// The system prompt and the format of one request: what is not in one is in the other.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) system: Cow<'a, str>,
    pub(crate) format: Option<Format<'a>>,
}

impl<'a> Told<'a> {
    /// Decides how a request tells its format, where it has one.
    pub(crate) fn of(wire: Wire, target: &Target, request: &'a ModelRequest) -> Self {
        let system = Cow::Borrowed(&*request.system);
        let Some(output) = &request.output else { return Self { system, format: None } };
        let is_taken = match target.schemas {
            Schemas::Taken => true,
            Schemas::TakenAlone => request.tools.is_empty(),
            Schemas::Refused => false,
        };
        match is_taken.then(|| native(wire, output)).flatten() {
            Some(format) => Self { system, format: Some(format) },
            None => Self { system: Cow::Owned(in_words(&system, output)), format: None },
        }
    }
}

/// Returns a format as the provider takes it; none where it would refuse it.
fn native(wire: Wire, output: &OutputFormat) -> Option<Format<'_>> {
    let name = output.name.as_deref().filter(|name| !name.is_empty());
    let name = name.map_or(Cow::Borrowed(NAME_DEFAULT), tool_name);
    let (schema, is_strict) = match wire {
        Wire::Anthropic => (Cow::Owned(fit::anthropic(&output.schema)?), true),
        Wire::Gemini => (fit::gemini(&output.schema), true),
        Wire::OpenaiResponses | Wire::OpenaiChat | Wire::Scripted => {
            fit::openai(&output.schema, output.strict)?
        }
    };
    Some(Format { name, schema, is_strict })
}

/// Writes the system prompt with the format behind it: the prompt's own bytes stay the start.
fn in_words(system: &str, output: &OutputFormat) -> String {
    let name = output.name.as_deref().map(|name| format!(" of \"{name}\"")).unwrap_or_default();
    let schema = &output.schema;
    let gap = if system.trim().is_empty() { "" } else { "\n\n" };
    format!(
        "{system}{gap}Your last answer, when no more tools are needed, must be JSON and nothing \
         else: no words before or behind it and no code fence. It must fit this JSON \
         Schema{name}:\n{schema}"
    )
}

#[cfg(test)]
mod tests;
