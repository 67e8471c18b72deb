//! Bodies, field by field: everything that is wrong is told at once, each by its path. Keys that
//! nobody asked for are ignored.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::{Detail, Refused};
use crate::tree::Tree;

/// What a text must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRule {
    /// Characters at least and at most.
    chars: (usize, usize),
    form: Option<Form>,
}

/// What a text must be beside, and how that is said.
#[derive(Clone, Copy, Debug)]
struct Form {
    is_right: fn(&str) -> bool,
    right: &'static str,
}

impl TextRule {
    /// Any text of so many characters.
    pub(crate) const fn of(min: usize, max: usize) -> Self {
        Self { chars: (min, max), form: None }
    }

    /// Such a text that is also of a form.
    pub(crate) const fn that(self, is_right: fn(&str) -> bool, right: &'static str) -> Self {
        Self { form: Some(Form { is_right, right }), ..self }
    }

    /// Says what is wrong with a text.
    pub(crate) fn check(&self, text: &str) -> Result<(), (&'static str, String)> {
        let (min, max) = self.chars;
        // A character has at least one byte: most texts need no counting.
        let length = if text.len() <= max { text.len() } else { text.chars().count() };
        if text.len() < min {
            return Err(("too_small", format!("expected {min} to {max} characters")));
        }
        if length > max {
            return Err(("too_big", format!("expected {min} to {max} characters")));
        }
        match self.form {
            Some(form) if !(form.is_right)(text) => {
                Err(("invalid_format", format!("expected {}", form.right)))
            }
            _ => Ok(()),
        }
    }
}

/// Tells whether text is made of letters, digits, `_` and `-`.
pub(crate) fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// An object that is read field by field.
#[derive(Debug)]
pub(crate) struct Fields {
    object: Map<String, Value>,
    /// The path of the object, with a dot at its end.
    at: String,
    details: Vec<Detail>,
}

impl Fields {
    /// Begins to read a body.
    pub(crate) fn of(Tree(body): Tree) -> Result<Self, Refused> {
        match body {
            Value::Object(object) => Ok(Self { object, at: String::new(), details: Vec::new() }),
            _ => Err(Refused::field("", "invalid_type", "expected a JSON object")),
        }
    }

    /// Takes a field out, whatever it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.object.shift_remove(name)
    }

    /// Says that a field is wrong; the path goes on from this object.
    pub(crate) fn refuse(&mut self, name: &str, code: &'static str, message: impl Into<String>) {
        let path = format!("{}{name}", self.at);
        self.details.push(Detail { path, code, message: message.into() });
    }

    /// Reads a text, if it is there.
    pub(crate) fn text(&mut self, name: &str, rule: &TextRule) -> Option<String> {
        let value = self.take(name)?;
        self.as_text(name, value, rule)
    }

    /// Reads a text that has to be there; empty where it is wrong, which is told.
    pub(crate) fn needed_text(&mut self, name: &str, rule: &TextRule) -> String {
        let Some(value) = self.take(name) else {
            self.refuse(name, "invalid_type", "is missing, expected a text");
            return String::new();
        };
        self.as_text(name, value, rule).unwrap_or_default()
    }

    /// Takes a value for a text.
    pub(crate) fn as_text(&mut self, name: &str, value: Value, rule: &TextRule) -> Option<String> {
        let Value::String(text) = value else {
            self.refuse(name, "invalid_type", "expected a text");
            return None;
        };
        match rule.check(&text) {
            Ok(()) => Some(text),
            Err((code, message)) => {
                self.refuse(name, code, message);
                None
            }
        }
    }

    /// Reads a whole number, if it is there.
    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(name)?;
        let (low, high) = (range.start(), range.end());
        let right = format!("expected a whole number of {low} to {high}");
        // 3.0 is as whole as 3.
        let number = value.as_u64().or_else(|| {
            let number = value.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0 && *it < 1e15);
            number.and_then(|it| format!("{it:.0}").parse().ok())
        });
        match number {
            Some(number) if range.contains(&number) => return Some(number),
            Some(number) if number < *low => self.refuse(name, "too_small", right),
            Some(_) => self.refuse(name, "too_big", right),
            None if value.as_f64().is_some_and(|it| it < 0.0) => {
                self.refuse(name, "too_small", right);
            }
            None => self.refuse(name, "invalid_type", right),
        }
        None
    }

    /// Reads one word of a list, if it is there.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.take(name)?;
        let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        if found.is_none() {
            self.refuse(name, "invalid_value", one_of(words));
        }
        found.map(|(_, meant)| *meant)
    }

    /// Reads one word of a list that has to be there.
    pub(crate) fn word_needed<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.object.get(name);
        if value.is_none() {
            self.refuse(name, "invalid_type", format!("is missing, {}", one_of(words)));
        }
        self.word(name, words)
    }

    /// Reads a yes or no, if it is there.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Value::Bool(flag) => Some(flag),
            _ => {
                self.refuse(name, "invalid_type", "expected true or false");
                None
            }
        }
    }

    /// Reads an object whole, if it is there.
    pub(crate) fn object(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(object) => Some(object),
            _ => {
                self.refuse(name, "invalid_type", "expected an object");
                None
            }
        }
    }

    /// Reads a list, if it is there.
    pub(crate) fn list(&mut self, name: &str, counts: RangeInclusive<usize>) -> Option<Vec<Value>> {
        let right = format!("expected a list of {} to {} items", counts.start(), counts.end());
        match self.take(name)? {
            Value::Array(items) if counts.contains(&items.len()) => return Some(items),
            Value::Array(items) if items.len() < *counts.start() => {
                self.refuse(name, "too_small", right);
            }
            Value::Array(_) => self.refuse(name, "too_big", right),
            _ => self.refuse(name, "invalid_type", right),
        }
        None
    }

    /// Reads a list that has to be there.
    pub(crate) fn list_needed(
        &mut self,
        name: &str,
        counts: RangeInclusive<usize>,
    ) -> Option<Vec<Value>> {
        if !self.object.contains_key(name) {
            self.refuse(name, "invalid_type", "is missing, expected a list");
        }
        self.list(name, counts)
    }

    /// Reads what stands in a field, an object, field by field. `read` gets it; what it finds
    /// wrong is told here.
    pub(crate) fn inside<T>(
        &mut self,
        name: &str,
        object: Map<String, Value>,
        read: impl FnOnce(&mut Fields) -> T,
    ) -> T {
        let at = format!("{}{name}.", self.at);
        let mut inner = Fields { object, at, details: Vec::new() };
        let found = read(&mut inner);
        self.details.append(&mut inner.details);
        found
    }

    /// Ends the reading.
    pub(crate) fn finish(self) -> Result<(), Refused> {
        if self.details.is_empty() { Ok(()) } else { Err(Refused::invalid(self.details)) }
    }
}

fn one_of<T>(words: &[(&str, T)]) -> String {
    let right: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    format!("expected one of {}", right.join(", "))
}

#[cfg(test)]
mod tests;
