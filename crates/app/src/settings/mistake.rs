//! What is wrong with a settings file, said without a line of it: a line may hold a key.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

/// The tables whose values may be secrets.
const SECRET_TABLES: [&str; 3] = ["mcp", "providers", "telemetry"];

/// Tells line, column, key and what is wrong there.
pub(super) fn tell(error: &Error, text: &str) -> String {
    let place = error.span().map(|span| span.start);
    let key = place.and_then(|place| key_at(text, place));
    let table = key.as_ref().and_then(|key| key.split('.').next());
    let may_show = table.is_some_and(|table| !SECRET_TABLES.contains(&table));
    let message = error.message().trim_end();
    let message = if may_show { message.to_owned() } else { without_value(message) };
    let key = key.map_or_else(String::new, |key| format!("{key}: "));
    match place.and_then(|place| text.get(..place)) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("line {line}, column {column}: {key}{message}")
        }
        None => format!("{key}{message}"),
    }
}

/// Finds the key whose value stands at a place of the text, where the text is TOML at all.
fn key_at(text: &str, place: usize) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut keys: Vec<&str> = Vec::new();
    // A header of a table that is wrong as a whole stands outside of every value: then the table
    // around it is named.
    while let Some((key, value)) = table.iter().find(|(key, value)| {
        holds(&key.span(), place) || holds(&value.span(), place) || inner_holds(value, place)
    }) {
        keys.push(key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    (!keys.is_empty()).then(|| keys.join("."))
}

fn holds(span: &Range<usize>, place: usize) -> bool {
    span.contains(&place)
}

/// The span of a table with a header is its header alone.
fn inner_holds(value: &toml::Spanned<DeValue<'_>>, place: usize) -> bool {
    match value.get_ref() {
        DeValue::Table(inner) => inner.iter().any(|(key, value)| {
            holds(&key.span(), place) || holds(&value.span(), place) || inner_holds(value, place)
        }),
        _ => false,
    }
}

/// Takes the value out of a message such as `invalid type: string "…", expected a map`, and out of
/// `unknown variant`.
fn without_value(message: &str) -> String {
    let Some(start) = message.find(['`', '"']) else { return message.to_owned() };
    match message.rfind(", expected") {
        Some(end) if start < end => {
            let (before, after) = (message.get(..start), message.get(end..));
            format!("{}{}", before.unwrap_or_default().trim_end(), after.unwrap_or_default())
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Document;

    fn problem(text: &str) -> String {
        Document::parse(text, Path::new("c.toml")).unwrap_err().message
    }

    #[test]
    fn a_mistake_is_told_without_the_line_that_holds_it() {
        let table = [
            ("mode = \"plan\"\nmodel = [", "c.toml: line 2, column"),
            ("\n[retry]\nbudget_ms = \"x\"", "c.toml: line 3, column 13: retry.budget_ms: invalid"),
            ("mode = \"reckless\"", "mode: unknown variant `reckless`"),
        ];
        for (text, part) in table {
            let problem = problem(text);
            assert!(problem.contains(part), "{problem:?} should contain {part:?}");
            assert_eq!(problem.lines().count(), 1, "{problem:?}");
        }
    }

    #[test]
    fn no_mistake_shows_a_secret() {
        for text in [
            "[providers.openai]\nkey = \"sk-very-secret",
            "[providers.openai]\nkey = sk-very-secret",
            "[providers.openai]\nkey = [\"sk-very-secret\"]",
            "[providers.openai]\nheaders = \"sk-very-secret\"",
            "[providers.openai]\nheaders = { X = [\"sk-very-secret\"] }",
            "[providers.openai]\nheaders = { X = sk-very-secret }",
            "[providers.openai]\nwire = \"sk-very-secret\"",
            "providers.openai = \"sk-very-secret\"",
            "providers = \"sk-very-secret\"",
            "[providers.openai]\nkey = \"sk-very-secret\" oops",
            "[providers.openai]\nkey = 'a'\nkey = 'sk-very-secret'",
        ] {
            let problem = problem(text);
            assert!(!problem.contains("sk-very-secret"), "{text:?}: {problem:?}");
            assert!(problem.contains("c.toml: line "), "{text:?}: {problem:?}");
        }
    }
}
