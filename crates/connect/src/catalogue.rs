//! What a server says about its tools, made fit for a model and a policy.

use std::collections::HashSet;

use driver_api::ToolSpec;
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::names;
use crate::words::cut;

/// Most tools of one server: a model is never shown so many, and finding them is a scan.
pub(crate) const TOOLS_MAX: usize = 1_000;

/// Most characters of a description: it goes out with each request.
const DESCRIPTION_CHARS_MAX: usize = 2_000;

/// Largest schema of one tool's arguments, in bytes as JSON: it goes out with each request.
const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Most bytes of all names, descriptions and schemas of one server: ten times what large servers
/// have, and each neuron may hold a list of its own.
const CATALOGUE_BYTES_MAX: usize = 4 << 20;

/// One tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The server's own name for it.
    pub(crate) remote: String,
    /// What the model sees.
    pub(crate) spec: ToolSpec,
    /// What a call may do.
    pub(crate) effect: Effect,
}

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Catalogue {
    /// In the order of the server's own names.
    pub(crate) entries: Vec<Entry>,
    /// Why tools were left out, if any were.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Option<Map<String, Value>>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Annotations {
    title: Option<String>,
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
}

impl Catalogue {
    /// Reads what `tools/list` answered. `is_trusted` says whether the server's word that a tool
    /// only reads counts.
    pub(crate) fn read(server_part: &str, is_trusted: bool, tools: Vec<Value>) -> Self {
        let mut left_out = Vec::new();
        let mut listed = Vec::new();
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
            match serde_json::from_value::<Listed>(tool) {
                Ok(tool) => listed.push(tool),
                Err(error) => left_out.push(format!("{}: {error}", cut(&name, 80))),
            }
        }
        // The order of the server may change from one answer to the next; the prompt must not.
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        listed.dedup_by(|one, other| one.name == other.name);
        let mut taken = HashSet::new();
        let mut entries = Vec::new();
        let mut len = 0;
        for tool in listed {
            if entries.len() == TOOLS_MAX {
                left_out.push(format!("all after the first {TOOLS_MAX}"));
                break;
            }
            let schema = match fit_schema(tool.input_schema.unwrap_or_default()) {
                Ok(schema) => schema,
                Err(reason) => {
                    left_out.push(format!("{}: {reason}", cut(&tool.name, 80)));
                    continue;
                }
            };
            let name = names::tool_name(server_part, &tool.name, &taken);
            taken.insert(name.clone());
            let title = tool.title.or(tool.annotations.title);
            let description = tool.description.filter(|text| !text.trim().is_empty());
            let description = description.or(title).unwrap_or_else(|| tool.name.clone());
            let effect = effect(
                is_trusted,
                tool.annotations.read_only_hint,
                tool.annotations.destructive_hint,
            );
            let description = cut(description.trim(), DESCRIPTION_CHARS_MAX);
            len += tool.name.len() + description.len() + schema.to_string().len();
            if len > CATALOGUE_BYTES_MAX {
                let limit = stdx::bytes(CATALOGUE_BYTES_MAX as u64);
                left_out.push(format!("all after the first {limit}"));
                break;
            }
            let spec = ToolSpec { name, description, input_schema: schema };
            entries.push(Entry { remote: tool.name, spec, effect });
        }
        let note = (!left_out.is_empty()).then(|| {
            let shown: Vec<&str> = left_out.iter().take(5).map(String::as_str).collect();
            format!(
                "{} left out: {}",
                stdx::plural(left_out.len() as u64, "tool"),
                shown.join("; ")
            )
        });
        Self { entries, note }
    }
}

/// The server's word makes a call more dangerous whoever it is, and less only where the server is
/// trusted. What is not said reaches another machine, for all one knows.
fn effect(is_trusted: bool, read_only: Option<bool>, destructive: Option<bool>) -> Effect {
    match (read_only, destructive) {
        (Some(true), _) if is_trusted => Effect::Read,
        (Some(true), _) => Effect::Network,
        (_, Some(true)) => Effect::Destructive,
        _ => Effect::Network,
    }
}

/// Makes a schema one that every provider takes: an object with properties.
fn fit_schema(mut schema: Map<String, Value>) -> Result<Value, String> {
    match schema.get("type") {
        None => drop(schema.insert("type".to_owned(), json!("object"))),
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its arguments are no object".to_owned()),
    }
    if !schema.get("properties").is_none_or(Value::is_object) {
        return Err("the properties of its arguments are no object".to_owned());
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(schema);
    if schema.to_string().len() > SCHEMA_BYTES_MAX {
        let limit = stdx::bytes(SCHEMA_BYTES_MAX as u64);
        return Err(format!("the schema of its arguments has more than {limit}"));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tools: &Value) -> Catalogue {
        Catalogue::read("s", true, tools.as_array().unwrap().clone())
    }

    #[test]
    fn the_order_is_that_of_the_names_and_collisions_are_numbered() {
        let catalogue = read(&json!([
            {"name": "b", "inputSchema": {"type": "object"}},
            {"name": "a_b", "inputSchema": {}},
            {"name": "a.b", "description": "  x  "},
            {"name": "b", "inputSchema": {"type": "object"}},
        ]));
        let names: Vec<_> =
            catalogue.entries.iter().map(|e| (e.remote.as_str(), e.spec.name.as_str())).collect();
        assert_eq!(names, [("a.b", "mcp__s__a_b"), ("a_b", "mcp__s__a_b_2"), ("b", "mcp__s__b")]);
        assert_eq!(catalogue.entries[0].spec.description, "x");
        let empty = json!({"type": "object", "properties": {}});
        assert!(catalogue.entries.iter().all(|entry| entry.spec.input_schema == empty));
        assert_eq!(catalogue.note, None);
    }

    #[test]
    fn what_cannot_be_offered_is_left_out_and_named() {
        let catalogue = read(&json!([
            {"name": "list", "inputSchema": {"type": "array"}},
            {"name": "odd", "inputSchema": {"properties": []}},
            {"name": "huge", "inputSchema": {"description": "x".repeat(SCHEMA_BYTES_MAX)}},
            {"inputSchema": {}},
            {"name": "good"},
        ]));
        assert_eq!(catalogue.entries.len(), 1);
        let note = catalogue.note.unwrap();
        for word in ["4 tools left out", "list: its arguments are no object", "odd:", "huge:", "?:"]
        {
            assert!(note.contains(word), "{note}");
        }
    }

    #[test]
    fn there_is_a_limit_to_tools_and_descriptions() {
        let many: Vec<Value> =
            (0..TOOLS_MAX + 7).map(|n| json!({"name": format!("t{n:05}")})).collect();
        let catalogue = Catalogue::read("s", true, many);
        assert_eq!(catalogue.entries.len(), TOOLS_MAX);
        assert!(catalogue.note.unwrap().contains("all after the first 1000"));
        let long = read(&json!([{"name": "a", "description": "ü".repeat(5_000)}]));
        assert_eq!(long.entries[0].spec.description.chars().count(), DESCRIPTION_CHARS_MAX);
    }

    #[test]
    fn all_texts_of_a_server_together_have_a_limit() {
        let text = "x".repeat(SCHEMA_BYTES_MAX - 1_000);
        let large = |n: usize| {
            let schema = json!({"description": text.clone()});
            json!({"name": format!("t{n:05}"), "inputSchema": schema})
        };
        let catalogue = Catalogue::read("s", true, (0..200).map(large).collect());
        let count = catalogue.entries.len();
        assert!((64..=66).contains(&count), "{count}");
        assert!(catalogue.note.unwrap().contains("all after the first 4"));
    }

    #[test]
    fn hints_lower_the_effect_of_trusted_servers_only() {
        for (is_trusted, read_only, destructive, expected) in [
            (true, Some(true), None, Effect::Read),
            (true, Some(true), Some(true), Effect::Read),
            (false, Some(true), None, Effect::Network),
            (true, None, None, Effect::Network),
            (true, Some(false), Some(false), Effect::Network),
            (false, None, Some(true), Effect::Destructive),
            (true, Some(false), Some(true), Effect::Destructive),
        ] {
            assert_eq!(effect(is_trusted, read_only, destructive), expected);
        }
    }
}
