//! Answers to requests that wait for a person.

use std::borrow::Cow;

use protocol::Mode;
use protocol::event::{Answer, Persist, WORDS_CHARS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

/// Characters of a rule.
const RULE_CHARS_MAX: usize = 1_000;

/// Answers to one question: no question has as many options.
const CHOSEN_MAX: usize = 100;

/// An answer, in the form of the kind of request that it answers.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct AnswerRequest(Answer);

impl JsonSchema for AnswerRequest {
    fn schema_name() -> Cow<'static, str> {
        "Answer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (mode, persist) =
            (generator.subschema_for::<Mode>(), generator.subschema_for::<Persist>());
        let words = json!({"type": ["string", "null"], "maxLength": WORDS_CHARS_MAX});
        let rule = json!({"type": ["string", "null"], "minLength": 1, "maxLength": RULE_CHARS_MAX,
            "description": "The rule to keep; the narrowest suggestion by default."});
        let chosen = json!({"type": "array", "items": {"type": "string"}, "maxItems": CHOSEN_MAX,
            "description": "Ids or labels of the chosen options."});
        let form = |title: &str, required: Value, properties: Value| {
            json!({"title": title, "type": "object", "additionalProperties": false,
                   "required": required, "properties": properties})
        };
        let inner = |title: &str, required: Value, properties: Value| {
            let answer = json!({"type": "object", "additionalProperties": false,
                                "minProperties": 1, "required": required,
                                "properties": properties});
            form(title, json!(["answer"]), json!({"answer": answer}))
        };
        json_schema!({
            "description": "An answer, in the form of the kind of request that it answers.",
            "oneOf": [
                form("AllowOnce", json!(["answer"]), json!({"answer": {"const": "allow_once"}})),
                form("AllowAlways", json!(["answer"]), json!({
                    "answer": {"const": "allow_always"}, "rule": rule, "persist": persist
                })),
                form("Deny", json!(["answer"]), json!({
                    "answer": {"const": "deny"}, "feedback": words
                })),
                inner("Chosen", json!([]), json!({"answers": chosen, "other": words})),
                inner("Dismissed", json!(["dismissed"]), json!({"dismissed": {"const": true}})),
                inner("Approved", json!(["approved"]), json!({
                    "approved": {"const": true}, "mode": mode
                })),
                inner("Rejected", json!(["approved"]), json!({
                    "approved": {"const": false}, "feedback": words
                }))
            ]
        })
    }
}

impl AnswerRequest {
    /// Holds the answer against the limits of these doors.
    ///
    /// # Errors
    /// The field that is wrong and what would be right.
    pub fn checked(self) -> Result<Answer, String> {
        match &self.0 {
            Answer::AllowSaying { .. } => {
                return Err("feedback: does not belong to this answer".to_owned());
            }
            Answer::AllowAlways { rule: Some(rule), .. } => {
                let length = rule.chars().count();
                if !(1..=RULE_CHARS_MAX).contains(&length) {
                    let what = format!("has {length} characters, expected 1 to {RULE_CHARS_MAX}");
                    return Err(format!("rule: {what}"));
                }
            }
            Answer::Chosen { answers, .. } if answers.len() > CHOSEN_MAX => {
                let what = format!("has {} items, expected at most {CHOSEN_MAX}", answers.len());
                return Err(format!("answer.answers: {what}"));
            }
            _ => {}
        }
        Ok(self.0)
    }
}
