//! The arguments of a tool call, as models write them.

use protocol::{Block, Signed, ToolCallId};
use serde_json::{Map, Value};

/// A call whose arguments come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Call {
    /// Makes the block.
    pub(crate) fn into_block(self, signed: Option<Signed>) -> Block {
        let (input, malformed) = read(self.arguments);
        let id = ToolCallId::new(self.id);
        Block::ToolUse { id, name: self.name, input, malformed, signed }
    }
}

/// Reads arguments. Nothing, blanks and `null` are what models write for a tool without
/// arguments; all else that is no JSON object is kept as written, and such a call never runs.
pub(crate) fn read(written: String) -> (Map<String, Value>, Option<String>) {
    let trimmed = written.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return (Map::new(), None);
    }
    match serde_json::from_str::<Map<String, Value>>(trimmed) {
        Ok(input) => (input, None),
        Err(_) => (Map::new(), Some(written)),
    }
}

/// Writes arguments that a server gave as JSON instead of text.
pub(crate) fn from_value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_no_arguments_and_what_as_malformed() {
        for text in ["", "  \n", "null", "{}", " {} "] {
            assert_eq!(read(text.into()), (Map::new(), None), "{text:?}");
        }
        for text in ["{\"a\":", "[1]", "\"x\"", "7", "{\"a\":1}}", "{a:1}", "true"] {
            assert_eq!(read(text.into()), (Map::new(), Some(text.into())), "{text:?}");
        }
        assert_eq!(read("{\"a\":1}".into()).0.get("a"), Some(&Value::from(1)));
    }

    #[test]
    fn nesting_beyond_reason_is_malformed_and_no_crash() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(deep).1.is_some());
    }
}
