//! JSON that may be signed: RFC 8785, and a reader that takes nothing that has two readings.
//!
//! No key of a bundle takes a number with a fraction, and such numbers are where writers of JSON
//! differ most. So they are refused, and what is left (whole numbers that every reader of JSON
//! holds exactly) is written the same by all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The largest whole number that every reader of JSON holds exactly, 2^53 - 1.
const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Reads JSON text. Keys that stand twice in one object are refused, since readers differ in
/// which of the two counts.
///
/// # Errors
/// A text that says what is wrong and where.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0).map_err(|error| error.to_string())
}

/// Writes the canonical form: keys in the order of their UTF-16 code units, no white space.
///
/// # Errors
/// For a number with a fraction, or one beyond 2^53 - 1 either way.
pub(crate) fn write(value: &Value) -> Result<String, String> {
    let mut text = String::new();
    write_value(&mut text, value)?;
    Ok(text)
}

fn write_value(text: &mut String, value: &Value) -> Result<(), String> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(is_true) => text.push_str(if *is_true { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&whole(number)?),
        Value::String(string) => write_string(text, string)?,
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_value(text, value)?;
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_string(text, key)?;
                text.push(':');
                write_value(text, value)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

/// The escapes of this writer are those of the RFC: the short ones where there are any, else four
/// small hexadecimal digits, and none beyond the control characters, `"` and `\`.
fn write_string(text: &mut String, string: &str) -> Result<(), String> {
    text.push_str(&serde_json::to_string(string).map_err(|error| error.to_string())?);
    Ok(())
}

fn whole(number: &Number) -> Result<String, String> {
    let refuse = || format!("the number {number} is not a whole one between -(2^53-1) and 2^53-1");
    if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
        let is_whole = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0;
        // Both zeros are `0`.
        return if is_whole { Ok(format!("{:.0}", float + 0.0)) } else { Err(refuse()) };
    }
    let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    if size.is_none_or(|size| size > WHOLE_MAX) { Err(refuse()) } else { Ok(number.to_string()) }
}

/// A value that was read without doubt.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key '{key}' stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
