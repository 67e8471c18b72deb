//! Answers to interactions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Mode;

/// The longest feedback or free answer, in characters: some pages, and a model reads them all.
pub const WORDS_CHARS_MAX: usize = 10_000;

/// How long a rule that was allowed for good is kept.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Persist {
    /// As long as the session.
    #[default]
    Session,
    /// For every session in the project.
    Project,
    /// For every session of the user.
    User,
}

/// An answer to an interaction.
///
/// On the wire: `{"answer": "allow_once", "feedback"?}`, `{"answer": "allow_always", "rule"?,
/// "persist"?}`, `{"answer": "deny", "feedback"?}` for permissions; `{"answer": {"answers": [..],
/// "other"?}}` or `{"answer": {"dismissed": true}}` for questions; `{"answer": {"approved": true,
/// "mode"?}}` or `{"answer": {"approved": false, "feedback"?}}` for plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Value")]
pub enum Answer {
    /// This call may run.
    AllowOnce,
    /// This call may run, and these words stay with the decision.
    AllowSaying {
        /// Why, for whoever reads the log; the model does not hear it.
        feedback: String,
    },
    /// This call may run, and all that the rule matches.
    AllowAlways {
        /// The rule; the narrowest suggestion where absent.
        rule: Option<String>,
        /// For how long.
        persist: Persist,
    },
    /// It may not.
    Deny {
        /// Words for the model.
        feedback: Option<String>,
    },
    /// Options of a question, by id.
    Chosen {
        /// Ids of the chosen options.
        answers: Vec<String>,
        /// Words of one's own.
        other: Option<String>,
    },
    /// The question stays without an answer.
    Dismissed,
    /// The plan is approved.
    Approved {
        /// The mode to go on in; `ask` where absent.
        mode: Option<Mode>,
    },
    /// The plan is not approved.
    Rejected {
        /// Words for the model.
        feedback: Option<String>,
    },
}

impl Answer {
    /// Returns which kind of interaction it answers.
    pub fn kind(&self) -> super::InteractionKind {
        use super::InteractionKind::{Permission, Plan, Question};
        match self {
            Answer::AllowOnce
            | Answer::AllowSaying { .. }
            | Answer::AllowAlways { .. }
            | Answer::Deny { .. } => Permission,
            Answer::Chosen { .. } | Answer::Dismissed => Question,
            Answer::Approved { .. } | Answer::Rejected { .. } => Plan,
        }
    }
}

impl From<Answer> for Value {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::AllowOnce => json!({"answer": "allow_once"}),
            Answer::AllowSaying { feedback } => {
                json!({"answer": "allow_once", "feedback": feedback})
            }
            Answer::AllowAlways { rule, persist } => {
                let mut value = json!({"answer": "allow_always", "persist": persist});
                put(&mut value, "rule", rule);
                value
            }
            Answer::Deny { feedback } => {
                let mut value = json!({"answer": "deny"});
                put(&mut value, "feedback", feedback);
                value
            }
            Answer::Chosen { answers, other } => {
                let mut inner = json!({"answers": answers});
                put(&mut inner, "other", other);
                json!({"answer": inner})
            }
            Answer::Dismissed => json!({"answer": {"dismissed": true}}),
            Answer::Approved { mode } => {
                let mut inner = json!({"approved": true});
                put(&mut inner, "mode", mode.map(|mode| mode.as_str().to_owned()));
                json!({"answer": inner})
            }
            Answer::Rejected { feedback } => {
                let mut inner = json!({"approved": false});
                put(&mut inner, "feedback", feedback);
                json!({"answer": inner})
            }
        }
    }
}

fn put(value: &mut Value, key: &str, text: Option<String>) {
    if let (Some(fields), Some(text)) = (value.as_object_mut(), text) {
        fields.insert(key.to_owned(), Value::String(text));
    }
}

impl TryFrom<Map<String, Value>> for Answer {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, Self::Error> {
        let answer = fields.remove("answer").ok_or("answer: is missing")?;
        match answer {
            Value::String(word) => permission(&word, fields),
            Value::Object(inner) => {
                only(&fields, &[], "")?;
                detailed(inner)
            }
            _ => Err("answer: expected a word or an object".to_owned()),
        }
    }
}

fn permission(word: &str, mut fields: Map<String, Value>) -> Result<Answer, String> {
    match word {
        "allow_once" => {
            only(&fields, &["feedback"], "")?;
            let feedback = words(&mut fields, "feedback", "")?;
            Ok(feedback.map_or(Answer::AllowOnce, |feedback| Answer::AllowSaying { feedback }))
        }
        "allow_always" => {
            only(&fields, &["rule", "persist"], "")?;
            let persist = match text(&mut fields, "persist")?.as_deref() {
                None | Some("session") => Persist::Session,
                Some("project") => Persist::Project,
                Some("user") => Persist::User,
                Some(other) => {
                    let right = "expected session, project or user";
                    return Err(format!("persist: '{other}' is unknown; {right}"));
                }
            };
            Ok(Answer::AllowAlways { rule: text(&mut fields, "rule")?, persist })
        }
        "deny" => {
            only(&fields, &["feedback"], "")?;
            Ok(Answer::Deny { feedback: words(&mut fields, "feedback", "")? })
        }
        other => Err(format!(
            "answer: '{other}' is unknown; expected allow_once, allow_always, deny or an object"
        )),
    }
}

fn detailed(mut inner: Map<String, Value>) -> Result<Answer, String> {
    if inner.contains_key("answers") || inner.contains_key("other") {
        only(&inner, &["answers", "other"], "answer.")?;
        let other = words(&mut inner, "other", "answer.")?;
        let answers = match inner.remove("answers") {
            None => Vec::new(),
            Some(list) => serde_json::from_value(list)
                .map_err(|_| "answer.answers: expected a list of texts".to_owned())?,
        };
        return Ok(Answer::Chosen { answers, other });
    }
    match (inner.remove("dismissed"), inner.remove("approved")) {
        (Some(Value::Bool(true)), None) => {
            only(&inner, &[], "answer.")?;
            Ok(Answer::Dismissed)
        }
        (None, Some(Value::Bool(true))) => {
            only(&inner, &["mode"], "answer.")?;
            let mode = text(&mut inner, "mode").map_err(|what| format!("answer.{what}"))?;
            let mode = mode.map(|mode| mode.parse()).transpose();
            Ok(Answer::Approved { mode: mode.map_err(|error| format!("answer.mode: {error}"))? })
        }
        (None, Some(Value::Bool(false))) => {
            only(&inner, &["feedback"], "answer.")?;
            Ok(Answer::Rejected { feedback: words(&mut inner, "feedback", "answer.")? })
        }
        _ => Err("answer: expected answers, dismissed: true or approved: true/false".to_owned()),
    }
}

fn only(fields: &Map<String, Value>, known: &[&str], place: &str) -> Result<(), String> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{place}{key}: does not belong to this answer")),
        None => Ok(()),
    }
}

fn text(fields: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key}: expected a text")),
    }
}

fn words(
    fields: &mut Map<String, Value>,
    key: &str,
    place: &str,
) -> Result<Option<String>, String> {
    let text = text(fields, key).map_err(|what| format!("{place}{what}"))?;
    let length = text.as_ref().map_or(0, |words| words.chars().count());
    if length > WORDS_CHARS_MAX {
        let right = format!("expected at most {WORDS_CHARS_MAX}");
        return Err(format!("{place}{key}: has {length} characters, {right}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_goes_there_and_back() {
        let rule = Some("run_shell(npm test *)".to_owned());
        let words = Some("use make".to_owned());
        let table = [
            Answer::AllowOnce,
            Answer::AllowSaying { feedback: "looks fine".to_owned() },
            Answer::AllowAlways { rule, persist: Persist::Project },
            Answer::AllowAlways { rule: None, persist: Persist::Session },
            Answer::Deny { feedback: words.clone() },
            Answer::Deny { feedback: None },
            Answer::Chosen { answers: vec!["a".to_owned()], other: words.clone() },
            Answer::Dismissed,
            Answer::Approved { mode: Some(Mode::AutoEdit) },
            Answer::Approved { mode: None },
            Answer::Rejected { feedback: words },
        ];
        for answer in table {
            let text = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer, "{text}");
        }
    }

    #[test]
    fn wrong_answers_name_the_field() {
        for (text, expected) in [
            (r"{}", "answer: is missing"),
            (r#"{"answer": 7}"#, "answer: expected a word or an object"),
            (r#"{"answer": "yes"}"#, "answer: 'yes' is unknown"),
            (r#"{"answer": "allow_once", "rule": "x"}"#, "rule: does not belong"),
            (r#"{"answer": "allow_always", "persist": "ever"}"#, "persist: 'ever' is unknown"),
            (r#"{"answer": "allow_always", "rule": 1}"#, "rule: expected a text"),
            (r#"{"answer": {"approved": true, "mode": "wild"}}"#, "answer.mode: unknown mode"),
            (r#"{"answer": {"answers": "a"}}"#, "answer.answers: expected a list"),
            (r#"{"answer": {"answers": [], "other": 1}}"#, "answer.other: expected a text"),
            (r#"{"answer": {"approved": true, "mode": 1}}"#, "answer.mode: expected a text"),
            (r#"{"answer": {"dismissed": false}}"#, "answer: expected answers"),
            (r#"{"answer": {"dismissed": true, "x": 1}}"#, "answer.x: does not belong"),
        ] {
            let error = serde_json::from_str::<Answer>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        // A letter counts as one, however many bytes it has.
        let deny = |words: usize| json!({"answer": "deny", "feedback": "ä".repeat(words)});
        assert!(serde_json::from_value::<Answer>(deny(WORDS_CHARS_MAX)).is_ok());
        let error = serde_json::from_value::<Answer>(deny(WORDS_CHARS_MAX + 1)).unwrap_err();
        assert!(error.to_string().starts_with("feedback: has 10001 characters"), "{error}");
    }
}
