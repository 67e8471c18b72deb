//! Keys of an answer that are misspelt, or stand where they mean nothing.
//!
//! A key that nobody knows is no fault: it belongs to other programs. But a refusal that was put
//! in the wrong place, or written nearly right, must not be taken for no refusal.

use serde_json::{Deserializer, Map, Value};

use crate::nearest::likeness;

/// How alike an unknown key has to be to a known one to count as misspelt.
const MISSPELT_MIN: f64 = 0.8;

/// From how many letters on a key that stands elsewhere may also be misspelt: shorter ones are
/// words that everybody uses.
const TELLING_LEN: usize = 12;

const TOP: [&str; 7] = [
    "continue",
    "stopReason",
    "systemMessage",
    "suppressOutput",
    "decision",
    "reason",
    "hookSpecificOutput",
];

const SPECIFIC: [&str; 6] = [
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
    "decision",
];

const ANSWER: [&str; 4] = ["behavior", "message", "updatedInput", "interrupt"];

/// The levels of an answer: where each is, how a message calls it, its keys.
const LEVELS: [(&str, &str, &[&str]); 3] = [
    ("", "at the top", &TOP),
    ("/hookSpecificOutput", "in hookSpecificOutput", &SPECIFIC),
    ("/hookSpecificOutput/decision", "in hookSpecificOutput.decision", &ANSWER),
];

/// Keys of what a hook is told, at the top. A hook that gives all of it back, as `tee` does, wants
/// nothing.
const TOLD: [&str; 2] = ["hook_event_name", "message"];

/// Keys whose values are anybody's, so that nothing in them is an answer.
const OTHERS: [&str; 4] = ["tool_input", "native_tool_input", "tool_response", "updatedInput"];

/// Keys that nobody else has: an answer is meant, however deep it lies.
const UNIQUE: [&str; 2] = ["hookSpecificOutput", "permissionDecision"];

/// Tells whether a character may stand around an answer; some programs begin with a mark of their
/// byte order.
pub(super) fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter == '\u{feff}'
}

/// Returns what is wrong with the keys of an answer, as the rest of a sentence about its hook.
pub(super) fn wrong(value: &Value) -> Option<String> {
    LEVELS.iter().find_map(|(pointer, place, known)| {
        let map = value.pointer(pointer).and_then(Value::as_object)?;
        map.iter().filter(|(key, _)| !known.contains(&key.as_str())).find_map(|(key, value)| {
            let is_near = |name: &&&str| likeness(key, name) >= MISSPELT_MIN;
            if let Some(meant) = known.iter().find(is_near) {
                return Some(format!("answered with the unknown key '{key:.40}', near '{meant}'"));
            }
            if pointer.is_empty() && TOLD.contains(&key.as_str()) {
                return None;
            }
            if let Some((meant, home)) = elsewhere(key) {
                return Some(format!(
                    "answered with '{key:.40}' {place}, where it means nothing; '{meant}' belongs \
                     {home}"
                ));
            }
            let is_deep = !OTHERS.contains(&key.as_str()) && is_answer_within(value);
            is_deep.then(|| format!("answered in another form: an answer lies within '{key:.40}'"))
        })
    })
}

/// Finds the level that a key belongs to.
fn elsewhere(key: &str) -> Option<(&'static str, &'static str)> {
    LEVELS.iter().find_map(|(_, home, known)| {
        let is_meant = |name: &&&str| {
            **name == key || (name.len() >= TELLING_LEN && likeness(key, name) >= MISSPELT_MIN)
        };
        known.iter().find(is_meant).map(|meant| (*meant, *home))
    })
}

fn is_answer_within(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| {
            let key = key.as_str();
            UNIQUE.contains(&key) || (!OTHERS.contains(&key) && is_answer_within(value))
        }),
        Value::Array(values) => values.iter().any(is_answer_within),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Tells whether a line of a text begins an answer.
pub(super) fn has_answer_within(text: &str) -> bool {
    let mut from = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        let rest = text.get(from..).unwrap_or_default();
        from += line.len();
        if !line.trim_start_matches(is_blank).starts_with(['{', '[']) {
            continue;
        }
        // It may have several lines, and other words after it.
        let rest = rest.trim_start_matches(is_blank);
        if let Some(Ok(value)) = Deserializer::from_str(rest).into_iter::<Value>().next()
            && is_answer(&value)
        {
            return true;
        }
    }
    false
}

fn is_answer(value: &Value) -> bool {
    let is_known = |key: &str| TOP.contains(&key) || SPECIFIC.contains(&key) || key == "behavior";
    let is_own = |map: &Map<String, Value>| map.keys().any(|key| is_known(key));
    value.as_object().is_some_and(is_own)
        || value.as_array().is_some_and(|values| values.iter().any(is_answer))
        || is_answer_within(value)
}
