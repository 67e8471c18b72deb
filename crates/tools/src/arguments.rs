//! What a model is told about a tool, and the arguments that it sends back.

use driver_api::{ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Makes a tool's description. The schemas are written by hand: they go out with each request, so
/// every byte counts, and derived ones carry formats and null types that providers dislike.
#[allow(clippy::needless_pass_by_value, reason = "the literal at the call site is moved in")]
pub(crate) fn spec(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    }
}

/// Reads arguments; text is borrowed, so that a large file is not copied.
pub(crate) fn parse<'a, T: Deserialize<'a>>(input: &'a Map<String, Value>) -> Result<T, ToolError> {
    T::deserialize(input).map_err(|error| ToolError::Invalid(format!("wrong arguments: {error}")))
}
