//! What providers refuse of the schema of an answer.

use serde_json::Value;

use super::{Findings, is_name};
use crate::model_server::request::{items, text_at};

/// Keywords that Anthropic refuses.
const ANTHROPIC_UNKNOWN: [&str; 10] = [
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "oneOf",
    "not",
    "patternProperties",
    "$schema",
];

/// Keywords that `OpenAI` refuses where it is to be strict.
const STRICT_UNKNOWN: [&str; 8] =
    ["allOf", "oneOf", "not", "minLength", "maxLength", "default", "patternProperties", "$schema"];

/// Checks `output_config.format`.
pub(super) fn anthropic(body: &Value, findings: &mut Findings) {
    let Some(format) = body.pointer("/output_config/format") else { return };
    let place = "output_config.format";
    findings.when(text_at(format, "type") != "json_schema", place, "the type is not json_schema");
    let schema = format.get("schema").unwrap_or(&Value::Null);
    findings.when(!schema.is_object(), place, "no schema");
    check(schema, place, &ANTHROPIC_UNKNOWN, false, findings);
}

/// Checks a format of `OpenAI`: `text.format`, or `response_format.json_schema`.
pub(super) fn openai(format: Option<&Value>, place: &str, findings: &mut Findings) {
    let Some(format) = format else { return };
    findings.when(!is_name(text_at(format, "name")), place, "the name is not [A-Za-z0-9_-]{1,64}");
    let schema = format.get("schema").unwrap_or(&Value::Null);
    let is_object = text_at(schema, "type") == "object" && schema.get("anyOf").is_none();
    findings.when(!is_object, place, "the schema is no object at its top");
    if format.get("strict") == Some(&Value::Bool(true)) {
        check(schema, place, &STRICT_UNKNOWN, true, findings);
    }
}

/// Checks `generationConfig`. Models before 3 take no format beside tools.
pub(super) fn gemini(body: &Value, model: &str, findings: &mut Findings) {
    let config = body.get("generationConfig").unwrap_or(&Value::Null);
    let Some(schema) = config.get("responseJsonSchema") else { return };
    let place = "generationConfig.responseJsonSchema";
    let is_json = text_at(config, "responseMimeType") == "application/json";
    findings.when(!is_json, place, "responseMimeType is not application/json");
    findings.when(schema.get("$schema").is_some(), place, "$schema is not known");
    let is_old = model.starts_with("gemini-1") || model.starts_with("gemini-2");
    let has_tools = !items(body, "tools").is_empty();
    findings.when(is_old && has_tools, place, "this model takes no schema beside tools");
}

/// Checks that all objects are closed and that no keyword is unknown.
fn check(
    schema: &Value,
    place: &str,
    unknown: &[&str],
    requires_all: bool,
    findings: &mut Findings,
) {
    let Some(fields) = schema.as_object() else { return };
    for word in unknown {
        findings.when(fields.contains_key(*word), place, &format!("{word} is not known"));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    if text_at(schema, "type") == "object" || properties.is_some() {
        let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        findings.when(!is_closed, place, "additionalProperties is not false");
    }
    for (name, property) in properties.into_iter().flatten() {
        let is_required = items(schema, "required").iter().any(|item| item == name);
        let is_missing = requires_all && !is_required;
        findings.when(is_missing, place, &format!("{name} is not required"));
        check(property, &format!("{place}.{name}"), unknown, requires_all, findings);
    }
    for word in ["$defs", "definitions"] {
        for (name, part) in fields.get(word).and_then(Value::as_object).into_iter().flatten() {
            check(part, &format!("{place}.{name}"), unknown, requires_all, findings);
        }
    }
    let choices = items(schema, "anyOf").iter().chain(fields.get("items"));
    choices.for_each(|part| check(part, place, unknown, requires_all, findings));
}
