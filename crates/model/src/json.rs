//! Reading JSON that providers wrote.

use serde_json::Value;

/// Parses one event's data.
///
/// Servers that cut text by UTF-16 units write half of a surrogate pair into an event; JSON
/// parsers refuse that, so such halves become U+FFFD and all else of the event is kept.
pub(crate) fn parse(data: &str) -> Result<Value, serde_json::Error> {
    match serde_json::from_str(data) {
        Ok(value) => Ok(value),
        Err(error) => {
            let mended = mend_surrogates(data).ok_or(error)?;
            serde_json::from_str(&mended)
        }
    }
}

/// Replaces lone `\udXXX` escapes by `\ufffd`; `None` where there are none.
fn mend_surrogates(data: &str) -> Option<String> {
    let mut mended = String::with_capacity(data.len());
    let mut rest = data;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let (kept, length) = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xd8..=0xdb), Some(0xdc..=0xdf)) => (escape.get(..12), 12),
            (Some(_), _) => {
                found = true;
                (Some("\\ufffd"), 6)
            }
            (None, _) => {
                let length = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
                (escape.get(..length), length)
            }
        };
        mended.push_str(kept.unwrap_or_default());
        rest = escape.get(length..).unwrap_or_default();
    }
    mended.push_str(rest);
    found.then_some(mended)
}

/// Returns the high byte of a surrogate escape at the start of `text`.
fn surrogate(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (0xd800..=0xdfff).contains(&unit).then(|| unit.to_be_bytes()[0])
}

/// Returns a text field; empty where it is absent, null or no text.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a count; 0 where it is absent, null, negative or no number.
pub(crate) fn count(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(number).unwrap_or(0)
}

/// Returns a list; empty where it is absent, null or no list.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Reads a whole number; some servers write counts as floats.
fn number(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    let rounded = |float: f64| (0.0..1e15).contains(&float).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        let value = parse(r#"{"a":"x\ud83d","b":"\ude00\n","c":"\ud83d\ude00","d":"\\ud83d"}"#);
        let expected =
            serde_json::json!({"a": "x\u{fffd}", "b": "\u{fffd}\n", "c": "😀", "d": "\\ud83d"});
        assert_eq!(value.unwrap(), expected);
    }

    #[test]
    fn broken_json_stays_broken() {
        for text in ["", "{", r#"{"a":"\"#, r#"{"a":"\ud8"}"#, "\\"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_forgive() {
        let value = serde_json::json!({"a": 3, "b": 4.0, "c": null, "d": -1, "e": "5"});
        let counts = ["a", "b", "c", "d", "e", "f"].map(|field| count(&value, field));
        assert_eq!(counts, [3, 4, 0, 0, 0, 0]);
    }
}
