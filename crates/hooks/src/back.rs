//! Arguments that a hook changed, back in native words.

use driver_api::HookedCall;
use serde_json::{Map, Value, json};

use crate::names::{View, argument_of, grep_output};

/// Translates changed arguments. What the hook left as it was told comes back as the call had it.
/// Whether the result is possible at all is for the tool's schema to say.
///
/// # Errors
/// A change that the call cannot take over.
pub(crate) fn native(
    updated: Map<String, Value>,
    view: &View,
    call: &HookedCall,
) -> Result<Map<String, Value>, String> {
    if view.is_native {
        return Ok(updated);
    }
    if updated == view.input {
        return Ok(call.input.clone());
    }
    match call.tool.as_str() {
        "apply_patch" => Err(format!(
            "the arguments of a patch cannot be changed by a hook that knows it as {}",
            view.tool
        )),
        "edit_file" => edit(&updated, view, call),
        "ask_question" => {
            let first = updated.get("questions").and_then(|questions| questions.get(0));
            let first = first.and_then(Value::as_object).ok_or("questions is empty")?;
            Ok(first.iter().map(|(key, value)| back(key, value, view, call)).collect())
        }
        _ => Ok(updated.iter().map(|(key, value)| back(key, value, view, call)).collect()),
    }
}

fn back(key: &str, value: &Value, view: &View, call: &HookedCall) -> (String, Value) {
    let ours = argument_of(&call.tool, key).unwrap_or(key);
    let value = match call.input.get(ours) {
        Some(before) if view.input.get(key) == Some(value) => before.clone(),
        _ if (call.tool.as_str(), ours) == ("grep", "output") => grep_output(value),
        _ => value.clone(),
    };
    (ours.to_owned(), value)
}

fn edit(
    updated: &Map<String, Value>,
    view: &View,
    call: &HookedCall,
) -> Result<Map<String, Value>, String> {
    let path = match updated.get("file_path") {
        Some(path) if view.input.get("file_path") != Some(path) => path,
        _ => call.input.get("path").ok_or("file_path is missing")?,
    };
    let is_same = |key| updated.get(key) == view.input.get(key);
    let pieces = ["old_string", "new_string", "replace_all"];
    let edits = if let (true, Some(edits)) = (view.input.contains_key("edits"), listed(updated)) {
        if view.tool == "Edit" && !pieces.into_iter().all(is_same) {
            return Err("a call with several edits cannot become one piece; change edits".into());
        }
        edits
    } else if view.input.contains_key("edits") {
        return Err(match view.tool.as_str() {
            "Edit" => "a call with several edits cannot become one piece; change edits",
            _ => "edits is missing",
        }
        .to_owned());
    } else {
        vec![piece(&Value::Object(updated.clone()))]
    };
    Ok(Map::from_iter([
        ("path".to_owned(), path.clone()),
        ("edits".to_owned(), Value::Array(edits)),
    ]))
}

fn listed(updated: &Map<String, Value>) -> Option<Vec<Value>> {
    Some(updated.get("edits")?.as_array()?.iter().map(piece).collect())
}

fn piece(edit: &Value) -> Value {
    let mut ours = json!({"old": edit.get("old_string"), "new": edit.get("new_string")});
    let is_all = edit.get("replace_all").and_then(Value::as_bool) == Some(true);
    if let (true, Some(map)) = (is_all, ours.as_object_mut()) {
        map.insert("all".to_owned(), true.into());
    }
    ours
}
