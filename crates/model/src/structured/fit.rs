//! Schemas as providers take them.
//!
//! Nothing is added that makes an answer fit the provider's schema and not the caller's. Closing
//! an object that lists its properties only narrows what the model may write; requiring a property
//! that the caller left open, or closing an object that lists none, would change what was asked
//! for, and is not done.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// What a provider understands of JSON Schema.
#[derive(Debug)]
struct Dialect {
    /// Keywords that it takes as they are, besides those that hold schemas.
    keeps: &'static [&'static str],
    /// Keywords that it refuses and whose meaning is told in the description instead. The caller
    /// checks the answer against the whole schema in any case.
    tells: &'static [&'static str],
    /// The formats of texts that it knows.
    formats: &'static [&'static str],
    /// Whether every property must be required.
    requires_all: bool,
    /// Whether a schema may refer to itself.
    is_recursive: bool,
    /// How many levels of schemas in schemas it takes.
    depth_max: usize,
}

const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// `OpenAI`, where it is to make sure of a schema.
const OPENAI_STRICT: Dialect = Dialect {
    keeps: &[
        "type",
        "required",
        "enum",
        "const",
        "$ref",
        "description",
        "title",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ],
    tells: &[],
    formats: FORMATS,
    requires_all: true,
    is_recursive: true,
    depth_max: 10,
};

/// Anthropic.
const ANTHROPIC: Dialect = Dialect {
    keeps: &["type", "required", "enum", "const", "$ref", "description", "title", "default"],
    tells: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "format",
        "examples",
    ],
    formats: FORMATS,
    requires_all: false,
    is_recursive: false,
    // No limit is published; schemas of people stay far below, and our own walk ends.
    depth_max: 32,
};

/// Keywords that say nothing about an answer and that providers stumble over.
const SILENT: &[&str] = &["$schema", "$id", "$comment"];

/// What may not stand at the top on the wires of `OpenAI`.
const NOT_AT_TOP: &[&str] = &["anyOf", "oneOf", "allOf", "enum", "not"];

/// Returns a schema for the wires of `OpenAI`, and whether the provider may be asked to make sure
/// of it. None where it refuses the schema in either way.
pub(super) fn openai(schema: &Value, is_strict: bool) -> Option<(Cow<'_, Value>, bool)> {
    let fields = schema.as_object()?;
    let is_object = fields.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || NOT_AT_TOP.iter().any(|word| fields.contains_key(*word)) {
        return None;
    }
    match is_strict.then(|| OPENAI_STRICT.fit_all(schema)).flatten() {
        Some(fitted) => Some((Cow::Owned(fitted), true)),
        None => Some((without_dialect(schema), false)),
    }
}

/// Returns a schema for Anthropic's wire. None where it refuses what the schema says.
pub(super) fn anthropic(schema: &Value) -> Option<Value> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    is_object.then(|| ANTHROPIC.fit_all(schema)).flatten()
}

/// Returns a schema for Gemini's wire, which passes over what it does not know.
pub(super) fn gemini(schema: &Value) -> Cow<'_, Value> {
    without_dialect(schema)
}

/// Takes out the keyword that names a schema's dialect, which providers refuse.
pub(crate) fn without_dialect(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(fields) if fields.contains_key("$schema") => {
            let kept = fields.iter().filter(|(name, _)| *name != "$schema");
            Cow::Owned(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        other => Cow::Borrowed(other),
    }
}

impl Dialect {
    fn fit_all(&self, schema: &Value) -> Option<Value> {
        if !self.is_recursive && refers_to_itself(schema) {
            return None;
        }
        self.fit(schema, self.depth_max)
    }

    /// Returns one schema as the provider takes it; none where something in it is beyond it.
    fn fit(&self, schema: &Value, depth: usize) -> Option<Value> {
        let (fields, depth) = (schema.as_object()?, depth.checked_sub(1)?);
        let mut fitted = Map::new();
        let mut told = Map::new();
        for (word, value) in fields {
            let kept = match word.as_str() {
                "properties" | "$defs" | "definitions" => self.fit_each(value, depth)?,
                "items" => self.fit(value, depth)?,
                "anyOf" => {
                    let fit = |choice| self.fit(choice, depth);
                    Value::Array(value.as_array()?.iter().map(fit).collect::<Option<_>>()?)
                }
                "additionalProperties" if *value == Value::Bool(false) => value.clone(),
                "$ref" if !value.as_str()?.starts_with('#') => return None,
                "enum" if value.as_array()?.iter().any(is_nested) => return None,
                "format" if self.formats.iter().any(|known| value == known) => value.clone(),
                "minItems" if matches!(value.as_u64(), Some(0 | 1)) => value.clone(),
                word if self.keeps.contains(&word) => value.clone(),
                word if self.tells.contains(&word) => {
                    told.insert(word.to_owned(), value.clone());
                    continue;
                }
                word if SILENT.contains(&word) => continue,
                _ => return None,
            };
            fitted.insert(word.clone(), kept);
        }
        self.close(&mut fitted)?;
        if !told.is_empty() {
            describe(&mut fitted, told);
        }
        Some(Value::Object(fitted))
    }

    fn fit_each(&self, schemas: &Value, depth: usize) -> Option<Value> {
        let fit =
            |(name, schema): (&String, &Value)| Some((name.clone(), self.fit(schema, depth)?));
        schemas.as_object()?.iter().map(fit).collect::<Option<Map<_, _>>>().map(Value::Object)
    }

    /// Closes an object that lists its properties. None where it may hold others.
    fn close(&self, fitted: &mut Map<String, Value>) -> Option<()> {
        let says = ["type", "anyOf", "enum", "const", "$ref"];
        if !says.iter().any(|word| fitted.contains_key(*word)) {
            // Anything would fit; no provider takes such a schema.
            return None;
        }
        let is_object = match fitted.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => fitted.contains_key("properties"),
        };
        if !is_object {
            return Some(());
        }
        let is_closed = fitted.contains_key("additionalProperties");
        let none = Map::new();
        let properties = fitted.get("properties").and_then(Value::as_object).unwrap_or(&none);
        if properties.is_empty() && !is_closed {
            return None;
        }
        let required = fitted.get("required").and_then(Value::as_array);
        let required = required.map(Vec::as_slice).unwrap_or_default();
        if self.requires_all && !properties.keys().all(|name| required.iter().any(|it| it == name))
        {
            return None;
        }
        if !is_closed {
            fitted.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        Some(())
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Says in a description what the provider does not take as a keyword.
fn describe(fitted: &mut Map<String, Value>, told: Map<String, Value>) {
    let said = fitted.get("description").and_then(Value::as_str).unwrap_or_default();
    let gap = if said.is_empty() { "" } else { "\n" };
    let text = format!("{said}{gap}{}", Value::Object(told));
    fitted.insert("description".to_owned(), json!(text));
}

/// Tells whether a schema refers to itself, or one of its named parts does, over however many
/// steps.
fn refers_to_itself(schema: &Value) -> bool {
    let mut named: Vec<(String, &Value)> = vec![("#".to_owned(), schema)];
    for word in ["$defs", "definitions"] {
        let parts = schema.get(word).and_then(Value::as_object);
        let parts = parts.into_iter().flatten();
        named.extend(parts.map(|(name, part)| (format!("#/{word}/{name}"), part)));
    }
    // Each round takes out what refers to nothing that is left; what stays refers in a circle.
    loop {
        let before = named.len();
        let names: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
        named.retain(|(name, part)| {
            let is_top = name == "#";
            let mut found = Vec::new();
            references(part, is_top, &mut found);
            found.iter().any(|wanted| names.iter().any(|name| name == wanted))
        });
        if named.len() == before {
            return before > 0;
        }
    }
}

/// Collects where a schema refers to; of the top its named parts are left out.
fn references<'a>(schema: &'a Value, is_top: bool, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            for (word, value) in fields {
                match (word.as_str(), value) {
                    ("$ref", Value::String(to)) => found.push(to),
                    ("$defs" | "definitions", _) if is_top => {}
                    (_, value) => references(value, false, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, false, found)),
        _ => {}
    }
}
