//! The table of models: what is publicly known of the well-known ones.
//!
//! `data/models.toml` holds the figures with their date; an unknown model has none, so that no
//! cost is shown where none is known.

use std::sync::OnceLock;

use driver_api::Price;
use protocol::Wire;
use serde::Deserialize;

use crate::provider::Error;

const DATA: &str = include_str!("../data/models.toml");

/// How a model is told how hard to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Thinking {
    /// It takes no such setting, or none is known.
    #[default]
    None,
    /// By a number of tokens.
    Budget,
    /// By a word; the model decides how much.
    Effort,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Names; a `*` at the end stands for anything.
    names: Vec<String>,
    /// Names in the vendor's spelling that are offered to choose from.
    #[serde(default)]
    pub(crate) listed: Vec<String>,
    /// The wires on which the prices are the vendor's own.
    #[serde(default)]
    pub(crate) price_wires: Vec<Wire>,
    pub(crate) context_window: Option<u64>,
    pub(crate) max_output: Option<u64>,
    #[serde(default)]
    pub(crate) images: bool,
    #[serde(default)]
    pub(crate) thinking: Thinking,
    price: Option<PriceRow>,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Entry {
    /// Returns the price, where the wire is the vendor's own: others resell at their own prices.
    pub(crate) fn price_on(&self, wire: Wire) -> Option<Price> {
        let row = self.price.filter(|_| self.price_wires.contains(&wire))?;
        Some(Price {
            input: row.input,
            output: row.output,
            cache_read: row.cache_read.unwrap_or(row.input),
            cache_write: row.cache_write.unwrap_or(row.input),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[allow(dead_code, reason = "a date for readers of the file, checked by a test")]
    as_of: String,
    /// Models that take no schema for an answer by their wire's own means.
    without_schemas: Vec<String>,
    /// Models that take one in requests without tools alone.
    without_schemas_beside_tools: Vec<String>,
    model: Vec<Entry>,
}

/// Returns the file.
///
/// # Errors
/// When it cannot be read: a bug of the build.
fn table() -> Result<&'static Table, Error> {
    static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();
    let read = || toml::from_str(DATA).map_err(|error| error.to_string());
    TABLE.get_or_init(read).as_ref().map_err(|error| Error::Table(error.clone()))
}

/// Returns the rows, in the order of the file.
///
/// # Errors
/// When the built-in file cannot be read: a bug of the build.
pub(crate) fn rows() -> Result<&'static [Entry], Error> {
    Ok(&table()?.model)
}

/// Tells whether a model is known to take no schema for its answers.
pub(crate) fn refuses_schemas(model: &str) -> bool {
    table().is_ok_and(|table| is_among(&table.without_schemas, model))
}

/// Tells whether a model is known to take no schema in requests with tools.
pub(crate) fn refuses_schemas_beside_tools(model: &str) -> bool {
    table().is_ok_and(|table| is_among(&table.without_schemas_beside_tools, model))
}

fn is_among(patterns: &[String], model: &str) -> bool {
    let name = plain(model);
    patterns.iter().any(|pattern| fits(pattern, &name))
}

/// Finds a model's row by the last part of its name.
///
/// # Errors
/// When the built-in file cannot be read: a bug of the build.
pub(crate) fn find(model: &str) -> Result<Option<&'static Entry>, Error> {
    let name = plain(model);
    Ok(rows()?.iter().find(|entry| entry.names.iter().any(|pattern| fits(pattern, &name))))
}

/// Brings the spellings of resellers to one: `anthropic/claude-sonnet-4.5:beta` is
/// `claude-sonnet-4-5`.
fn plain(model: &str) -> String {
    let last = model.rsplit('/').next().unwrap_or(model);
    let name = last.split(':').next().unwrap_or(last);
    name.to_ascii_lowercase().replace('.', "-")
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern || is_dated(pattern, name),
    }
}

/// A name with the date of a release behind it is the same model.
fn is_dated(pattern: &str, name: &str) -> bool {
    name.strip_prefix(pattern).and_then(|rest| rest.strip_prefix('-')).is_some_and(|date| {
        date.len() >= 8 && date.chars().all(|letter| letter.is_ascii_digit() || letter == '-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str) -> Option<u64> {
        find(name).unwrap().and_then(|entry| entry.context_window)
    }

    #[test]
    fn the_file_is_sound() {
        let table: Table = toml::from_str(DATA).unwrap();
        assert_eq!(table.as_of, "2026-11-30");
        for name in table.without_schemas.iter().chain(&table.without_schemas_beside_tools) {
            assert_eq!(*name, plain(name), "patterns are written in the plain spelling");
        }
        for entry in &table.model {
            assert!(entry.price.is_none() || !entry.price_wires.is_empty(), "{:?}", entry.names);
            for name in &entry.names {
                assert_eq!(*name, plain(name), "patterns are written in the plain spelling");
            }
            for name in &entry.listed {
                let found = find(name).unwrap().map(|found| &found.names);
                assert_eq!(found, Some(&entry.names), "{name} is listed in another row");
            }
        }
    }

    #[test]
    fn models_without_schemas_are_known() {
        for name in ["claude-opus-4-20250514", "anthropic/claude-3.7-sonnet", "gpt-4", "gpt-3.5-x"]
        {
            assert!(refuses_schemas(name), "{name}");
        }
        for name in ["claude-opus-4-1", "claude-sonnet-4-6", "gpt-4o", "gpt-4.1", "gpt-5", "m"] {
            assert!(!refuses_schemas(name), "{name}");
        }
        assert!(refuses_schemas_beside_tools("gemini-2.5-pro"));
        assert!(!refuses_schemas_beside_tools("gemini-3-pro-preview"));
    }

    #[test]
    fn spellings_lead_to_one_row() {
        for name in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4.5",
            "Claude-Sonnet-4.5:beta",
        ] {
            let entry = find(name).unwrap().unwrap();
            assert_eq!(entry.price_on(Wire::Anthropic).map(|price| price.output), Some(15.0));
            assert_eq!(entry.price_on(Wire::OpenaiChat), None, "resold under {name}");
        }
        assert_eq!(window("gpt-5"), Some(400_000));
        assert_eq!(window("gpt-4.1"), Some(1_047_576));
        assert_eq!(window("gpt-5-2025-08-07"), Some(400_000));
        assert_eq!(window("mock-model"), None);
        assert_eq!(window("gpt-99"), None);
    }

    #[test]
    fn models_of_one_family_are_told_apart() {
        let input = |name: &str| {
            let price = find(name).unwrap().unwrap().price_on(Wire::OpenaiResponses);
            price.map(|price| price.input)
        };
        assert_eq!(input("gpt-5"), Some(1.25));
        assert_eq!(input("gpt-5-mini"), Some(0.25));
        assert_eq!(input("gpt-4o-mini"), Some(0.15));
        assert_eq!(input("gpt-4o"), Some(2.5));
    }
}
