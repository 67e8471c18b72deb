//! One field of a form: a flat, primitive schema.

use driver_api::Asks;
use protocol::event::QuestionOption;
use serde_json::{Map, Number, Value, json};

use super::{DECLINE, decline, option};
use crate::words::cut;

/// Most options of a field.
const OPTIONS_MAX: usize = 100;

/// Most characters of a title, a description or a label.
const WORDS_CHARS_MAX: usize = 1_000;

/// The option that leaves a field out.
const SKIP: &str = "skip";

/// The option that takes what the server proposes.
const DEFAULT: &str = "default";

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    title: String,
    description: String,
    is_required: bool,
    kind: Kind,
    default: Option<Value>,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Text { chars_min: usize, chars_max: usize, format: Option<String> },
    Number { is_whole: bool, least: Option<f64>, most: Option<f64> },
    Boolean,
    One(Vec<Choice>),
    Several { choices: Vec<Choice>, least: usize, most: usize },
}

/// A value that may be chosen.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    value: String,
    label: String,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Value(Value),
    Nothing,
    Declined,
}

impl Field {
    /// Reads the schema of a form; no schema is a form without fields.
    ///
    /// # Errors
    /// For a schema that is not flat, or has more than a person can be shown.
    pub(super) fn read_all(schema: &Value) -> Result<Vec<Self>, ()> {
        let Some(properties) = schema.get("properties") else { return Ok(Vec::new()) };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = properties.as_object().ok_or(())?;
        properties
            .iter()
            .map(|(name, schema)| {
                let schema = schema.as_object().ok_or(())?;
                let words = |key: &str| {
                    let words = schema.get(key).and_then(Value::as_str).unwrap_or_default();
                    cut(words.trim(), WORDS_CHARS_MAX)
                };
                let kind = Kind::read(schema)?;
                let title = Some(words("title")).filter(|title| !title.is_empty());
                let default = schema.get("default").filter(|value| kind.fits(value)).cloned();
                Ok(Self {
                    name: name.clone(),
                    title: title.unwrap_or_else(|| cut(name, WORDS_CHARS_MAX)),
                    description: words("description"),
                    is_required: required.contains(&name.as_str()),
                    kind,
                    default,
                })
            })
            .collect()
    }

    /// Says what is asked for.
    pub(super) fn question(&self) -> String {
        let mut text = self.title.clone();
        if !self.description.is_empty() {
            text.push_str(&format!(": {}", self.description));
        }
        let hint = self.kind.hint();
        let optional = if self.is_required { "" } else { "optional" };
        let notes: Vec<&str> =
            [hint.as_str(), optional].into_iter().filter(|note| !note.is_empty()).collect();
        if !notes.is_empty() {
            text.push_str(&format!(" ({})", notes.join("; ")));
        }
        text
    }

    /// Makes the question of it.
    pub(super) fn asks(&self, question: String) -> Asks {
        let mut options = self.values();
        if !self.is_required {
            options.push(option(self.id_of(SKIP).as_str(), "Leave it out", None));
        }
        let no = decline();
        options.push(QuestionOption { id: self.id_of(DECLINE), ..no });
        let multi_select = matches!(self.kind, Kind::Several { .. });
        let allow_other = matches!(self.kind, Kind::Text { .. } | Kind::Number { .. });
        Asks::Question { question, options, multi_select, allow_other }
    }

    /// The options that stand for values.
    fn values(&self) -> Vec<QuestionOption> {
        let proposed = |is: bool| is.then_some("the default");
        match &self.kind {
            Kind::Text { .. } | Kind::Number { .. } => {
                let label = match &self.default {
                    None => return Vec::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                };
                vec![option(DEFAULT, &cut(&label, WORDS_CHARS_MAX), proposed(true))]
            }
            Kind::Boolean => [("true", "Yes", true), ("false", "No", false)]
                .map(|(id, label, value)| {
                    option(id, label, proposed(self.default == Some(Value::Bool(value))))
                })
                .into(),
            Kind::One(choices) | Kind::Several { choices, .. } => choices
                .iter()
                .map(|choice| option(&choice.value, &choice.label, proposed(self.proposes(choice))))
                .collect(),
        }
    }

    fn proposes(&self, choice: &Choice) -> bool {
        match &self.default {
            Some(Value::String(value)) => *value == choice.value,
            Some(Value::Array(values)) => values.iter().any(|value| *value == *choice.value),
            _ => false,
        }
    }

    /// Returns the id of an option of ours that no value has.
    fn id_of(&self, word: &str) -> String {
        let mut id = word.to_owned();
        if let Kind::One(choices) | Kind::Several { choices, .. } = &self.kind {
            while choices.iter().any(|choice| choice.value == id) {
                id.insert(0, '_');
            }
        }
        id
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What would be right.
    pub(super) fn read(&self, answers: &[String], other: Option<&str>) -> Result<Given, String> {
        let has = |id: &str| answers.iter().any(|answer| answer == id);
        if has(&self.id_of(DECLINE)) {
            return Ok(Given::Declined);
        }
        if !self.is_required && has(&self.id_of(SKIP)) {
            return Ok(Given::Nothing);
        }
        let value = match &self.kind {
            Kind::Text { .. } | Kind::Number { .. } => match (other, &self.default) {
                (None, Some(default)) if has(DEFAULT) => default.clone(),
                (Some(words), _) => self.kind.parse(words)?,
                (None, _) => return Err("an answer is needed".to_owned()),
            },
            Kind::Boolean => match answers {
                [answer] if answer == "true" => Value::Bool(true),
                [answer] if answer == "false" => Value::Bool(false),
                _ => return Err("choose yes or no".to_owned()),
            },
            Kind::One(_) => match answers {
                [answer] => json!(answer),
                _ => return Err("choose one".to_owned()),
            },
            Kind::Several { .. } => json!(answers),
        };
        if !self.kind.fits(&value) {
            return Err(format!("expected {}", self.kind.hint()));
        }
        Ok(Given::Value(value))
    }
}

impl Kind {
    fn read(schema: &Map<String, Value>) -> Result<Self, ()> {
        let count = |key: &str| {
            schema.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())
        };
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => match choices(schema)? {
                Some(choices) => Ok(Self::One(choices)),
                None => Ok(Self::Text {
                    chars_min: count("minLength").unwrap_or(0),
                    chars_max: count("maxLength").unwrap_or(usize::MAX),
                    format: schema.get("format").and_then(Value::as_str).map(|f| cut(f, 40)),
                }),
            },
            Some(kind @ ("number" | "integer")) => Ok(Self::Number {
                is_whole: kind == "integer",
                least: bound("minimum"),
                most: bound("maximum"),
            }),
            Some("boolean") => Ok(Self::Boolean),
            Some("array") => {
                let items = schema.get("items").and_then(Value::as_object).ok_or(())?;
                let choices = choices(items)?.ok_or(())?;
                let least = count("minItems").unwrap_or(0);
                let most = count("maxItems").unwrap_or(choices.len());
                Ok(Self::Several { choices, least, most })
            }
            _ => Err(()),
        }
    }

    /// Says what fits.
    fn hint(&self) -> String {
        match self {
            Self::Text { chars_min: 0, chars_max: usize::MAX, format } => {
                format.clone().unwrap_or_default()
            }
            Self::Text { chars_min, chars_max: usize::MAX, .. } => {
                format!("at least {chars_min} characters")
            }
            Self::Text { chars_min, chars_max, .. } => {
                format!("{chars_min} to {chars_max} characters")
            }
            Self::Number { is_whole, least, most } => {
                let kind = if *is_whole { "a whole number" } else { "a number" };
                match (least, most) {
                    (None, None) => kind.to_owned(),
                    (Some(least), None) => format!("{kind} from {least}"),
                    (None, Some(most)) => format!("{kind} up to {most}"),
                    (Some(least), Some(most)) => format!("{kind} from {least} to {most}"),
                }
            }
            Self::Boolean | Self::One(_) => String::new(),
            Self::Several { choices, least, most } if *least > 0 || *most < choices.len() => {
                format!("{least} to {most} of them")
            }
            Self::Several { .. } => String::new(),
        }
    }

    /// Tells whether a value may be sent.
    fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text { chars_min, chars_max, .. }, Value::String(text)) => {
                (*chars_min..=*chars_max).contains(&text.chars().count())
            }
            (Self::Number { is_whole, least, most }, Value::Number(number)) => {
                let Some(plain) = number.as_f64() else { return false };
                let is_kind = !is_whole || number.is_i64() || number.is_u64();
                is_kind && least.is_none_or(|l| plain >= l) && most.is_none_or(|m| plain <= m)
            }
            (Self::Boolean, Value::Bool(_)) => true,
            (Self::One(choices), Value::String(text)) => {
                choices.iter().any(|choice| choice.value == *text)
            }
            (Self::Several { choices, least, most }, Value::Array(values)) => {
                let is_one = |value: &Value| choices.iter().any(|c| *value == *c.value);
                (*least..=*most).contains(&values.len()) && values.iter().all(is_one)
            }
            _ => false,
        }
    }

    /// Reads words of a person's own.
    fn parse(&self, words: &str) -> Result<Value, String> {
        match self {
            Self::Number { is_whole: true, .. } => {
                let number: i64 =
                    words.trim().parse().map_err(|_| format!("expected {}", self.hint()))?;
                Ok(json!(number))
            }
            Self::Number { .. } => {
                let number: Option<f64> = words.trim().replace(',', ".").parse().ok();
                let number = number.and_then(Number::from_f64);
                number.map(Value::Number).ok_or_else(|| format!("expected {}", self.hint()))
            }
            _ => Ok(json!(words)),
        }
    }
}

/// Reads the values of an enumeration in its four spellings; none where it is no enumeration.
fn choices(schema: &Map<String, Value>) -> Result<Option<Vec<Choice>>, ()> {
    let label = |text: &str| cut(text, WORDS_CHARS_MAX);
    let read = if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let names = schema.get("enumNames").and_then(Value::as_array);
        let name = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
        let choice = |(at, value): (usize, &Value)| {
            let value = value.as_str()?.to_owned();
            let label = label(name(at).unwrap_or(&value));
            Some(Choice { value, label })
        };
        values.iter().enumerate().map(choice).collect::<Option<Vec<_>>>()
    } else if let Some(values) =
        schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
    {
        let choice = |entry: &Value| {
            let value = entry.get("const")?.as_str()?.to_owned();
            let label = label(entry.get("title").and_then(Value::as_str).unwrap_or(&value));
            Some(Choice { value, label })
        };
        values.iter().map(choice).collect::<Option<Vec<_>>>()
    } else {
        return Ok(None);
    };
    match read {
        Some(choices) if !choices.is_empty() && choices.len() <= OPTIONS_MAX => Ok(Some(choices)),
        _ => Err(()),
    }
}
