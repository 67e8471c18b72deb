//! Unknown keys are errors with the nearest known key. What is known is read from the schema, so
//! that it cannot differ from what is understood.

use serde_json::Value as Json;

use super::Document;

/// How alike two keys must be for one to be offered for the other.
const LIKENESS_MIN: f64 = 0.5;

/// Checks every key of a settings file.
///
/// # Errors
/// A sentence that names the first unknown key and the nearest known one.
pub(crate) fn check(table: &toml::Table) -> Result<(), String> {
    if table.is_empty() {
        return Ok(());
    }
    let schema = schemars::schema_for!(Document);
    let root = schema.as_value();
    check_table(table, root, root, "")
}

fn check_table(table: &toml::Table, node: &Json, root: &Json, path: &str) -> Result<(), String> {
    for (key, value) in table {
        let whole = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let Some(inner) = child(node, key) else {
            return Err(unknown(&whole, key, node));
        };
        if let toml::Value::Table(table) = value {
            check_table(table, resolve(inner, root), root, &whole)?;
        }
    }
    Ok(())
}

/// Finds the schema of a key: a property, in snake or camel case, or any key of a map.
fn child<'a>(node: &'a Json, key: &str) -> Option<&'a Json> {
    let properties = node.get("properties").and_then(Json::as_object);
    let found = properties.and_then(|known| known.get(key).or_else(|| known.get(&snake(key))));
    found.or_else(|| node.get("additionalProperties").filter(|any| any.is_object()))
}

fn resolve<'a>(node: &'a Json, root: &'a Json) -> &'a Json {
    let reference = node.get("$ref").and_then(Json::as_str);
    reference.and_then(|reference| root.pointer(reference.trim_start_matches('#'))).unwrap_or(node)
}

fn snake(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn unknown(whole: &str, key: &str, node: &Json) -> String {
    let known: Vec<&String> = node
        .get("properties")
        .and_then(Json::as_object)
        .map(|properties| properties.keys().collect())
        .unwrap_or_default();
    // Of two that are as near, the one of the same length: letters are swapped more often than
    // left out.
    let written = snake(key);
    let nearest = known
        .iter()
        .filter(|name| strsim::normalized_damerau_levenshtein(&written, name) >= LIKENESS_MIN)
        .min_by_key(|name| {
            (strsim::damerau_levenshtein(&written, name), name.len().abs_diff(written.len()))
        });
    match nearest {
        Some(candidate) => {
            format!("unknown key '{whole}'; did you mean '{candidate}'?")
        }
        None => {
            let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
            format!("unknown key '{whole}'; known here: {}", names.join(", "))
        }
    }
}
