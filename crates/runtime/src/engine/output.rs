//! Output formats: what the last answer of a turn has to fit.

use protocol::event::OutputFormat;
use protocol::{Refusal, RefusalCode};
use serde_json::Value;

use super::gate::faults;

/// Bytes of a schema, as compact JSON: it is sent with every request of its turn, and providers
/// take no larger ones.
const SCHEMA_BYTES_MAX: usize = 32 * 1024;

/// Characters of a format's name: what providers take.
const NAME_CHARS_MAX: usize = 64;

/// How often the model is told in one turn that its last answer does not fit. What it gets wrong
/// twice with the faults before its eyes it gets wrong again, and each time is paid for.
pub(crate) const ASKS_MAX: u32 = 2;

/// An output format, ready to be held against an answer.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) asked: OutputFormat,
    validator: jsonschema::Validator,
}

impl Format {
    /// Checks a format and makes it ready.
    ///
    /// # Errors
    /// `invalid`, with the field that is wrong.
    pub(crate) fn new(asked: OutputFormat) -> Result<Self, Refusal> {
        let invalid = |message: String| Refusal::new(RefusalCode::Invalid, message);
        if let Some(name) = &asked.name {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.bytes().all(fits) {
                return Err(invalid(format!(
                    "output.name: expected 1 to {NAME_CHARS_MAX} letters, digits, '_' and '-'"
                )));
            }
        }
        if !asked.schema.is_object() {
            let message = "output.schema: expected an object, a JSON Schema";
            return Err(invalid(message.to_owned()));
        }
        let bytes = asked.schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(invalid(format!(
                "output.schema: it has {bytes} bytes, the limit is {SCHEMA_BYTES_MAX}"
            )));
        }
        let validator = jsonschema::validator_for(&asked.schema)
            .map_err(|error| invalid(format!("output.schema: it is no JSON Schema: {error}")))?;
        Ok(Self { asked, validator })
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it, for the model.
    pub(crate) fn read(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(bare(answer))
            .map_err(|error| format!("it is not JSON and nothing else ({error})"))?;
        match faults(&self.validator, &value) {
            Some(faults) => Err(faults),
            None => Ok(value),
        }
    }
}

/// Returns an answer without the fence that some models put around whatever is code.
fn bare(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inside = fenced.and_then(|fenced| fenced.split_once('\n'));
    match inside {
        Some((tag, inside)) if matches!(tag.trim(), "" | "json") => inside.trim(),
        _ => answer,
    }
}

/// Tells the model that its answer does not fit.
pub(crate) fn misfit(faults: &str) -> String {
    format!(
        "Your answer has to fit the output format that was asked for, and it does not: {faults}. \
         Answer again, with the JSON alone."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format(schema: Value) -> Result<Format, Refusal> {
        Format::new(OutputFormat { name: None, schema, strict: true })
    }

    #[test]
    fn an_answer_fits_or_is_told_what_is_wrong() {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": false
        });
        let format = format(schema).unwrap();
        for good in [
            r#"{"name": "Ada"}"#,
            "\n {\"name\": \"Ada\", \"age\": 36}\n",
            "```json\n{\"name\": \"Ada\"}\n```",
            "```\n{\"name\": \"Ada\"}\n```",
        ] {
            assert_eq!(format.read(good).unwrap()["name"], "Ada", "{good}");
        }
        for (bad, why) in [
            ("", "not JSON"),
            ("Here you are: {\"name\": \"Ada\"}", "not JSON"),
            ("```python\n{\"name\": \"Ada\"}\n```", "not JSON"),
            ("{}", "\"name\" is a required property"),
            (r#"{"name": "Ada", "age": "old"}"#, "/age: "),
            (r#"{"name": "Ada", "other": 1}"#, "other"),
        ] {
            let told = format.read(bad).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
        let long = json!({"name": 1, "age": "x".repeat(100_000)}).to_string();
        assert!(format.read(&long).unwrap_err().len() < 2_000, "a fault is not the answer again");
    }

    #[test]
    fn what_is_wrong_with_a_format_is_named() {
        let deep = (0..120).fold(json!({}), |inner, _| json!({ "not": inner }));
        for (schema, start) in [
            (json!("text"), "output.schema: expected an object"),
            (json!({"type": "nothing"}), "output.schema: it is no JSON Schema"),
            (json!({"pattern": "("}), "output.schema: it is no JSON Schema"),
            (json!({"$ref": "https://example.com/schema"}), "output.schema: it is no JSON Schema"),
            (json!({"title": "x".repeat(33_000)}), "output.schema: it has 33012 bytes"),
        ] {
            let refusal = format(schema).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::Invalid);
            assert!(refusal.message.starts_with(start), "{}", refusal.message);
        }
        assert!(format(deep).is_ok_and(|format| format.read("1").is_ok()));
        for name in ["", "a b", "é", &"x".repeat(65)] {
            let name = Some(name.to_owned());
            let asked = OutputFormat { name, schema: json!({}), strict: false };
            assert!(Format::new(asked).unwrap_err().message.starts_with("output.name: "));
        }
    }

    /// What refers to itself without end ends all the same.
    #[test]
    fn schemas_that_lead_back_to_themselves_do_no_harm() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"anyOf": [{"$ref": "#"}, {"type": "string"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]}),
            json!({"unevaluatedProperties": false, "allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"oneOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref":
                "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
        ] {
            if let Ok(format) = format(schema) {
                let _whatever = format.read(r#"{"a": [1, {"b": null}]}"#);
            }
        }
    }
}
