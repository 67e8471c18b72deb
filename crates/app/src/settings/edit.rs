//! Changing one value of a settings file, leaving every other byte of it alone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use door_cli::Failure;
use toml::de::{DeTable, DeValue};

use super::document::{Document, read_text, unreadable};
use super::mistake;
use super::project::write_private;

/// Sets `key` (dots between tables) to `value` in a file, which is made when it is missing.
///
/// # Errors
/// For an unknown key, a value that does not fit it, or a file that `check` refuses as a whole; the
/// file is unchanged then.
pub(crate) fn set(
    path: &Path,
    key: &str,
    value: &str,
    check: impl Fn(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let keys: Vec<&str> = key.split('.').collect();
    if keys.iter().any(|part| part.trim().is_empty()) {
        return Err(Failure::usage(format!("'{key}' is no key")));
    }
    // A value is taken as TOML where it is TOML that fits (numbers, lists, quoted texts), and as
    // the text it is otherwise.
    let as_text = toml::Value::String(value.to_owned());
    let as_toml = parse_value(value);
    let mut changed = match &as_toml {
        Some(wanted) => attempt(&text, &keys, (value, wanted), path),
        None => attempt(&text, &keys, (&as_text.to_string(), &as_text), path),
    };
    if changed.is_err() && as_toml.is_some() {
        changed = attempt(&text, &keys, (&as_text.to_string(), &as_text), path).or(changed);
    }
    let changed = changed?;
    if let Err(failure) = check(&changed) {
        // What was wrong before is not this change's fault, and must not keep it from being made.
        let is_old = check(&text).is_err_and(|before| before.message == failure.message);
        if !is_old {
            return Err(failure);
        }
    }
    write(path, &changed)
}

fn parse_value(text: &str) -> Option<toml::Value> {
    let mut table = format!("value = {text}").parse::<toml::Table>().ok()?;
    // More than one key means that the text was more than one value.
    table.remove("value").filter(|_| table.is_empty())
}

fn attempt(
    text: &str,
    keys: &[&str],
    (value, wanted): (&str, &toml::Value),
    path: &Path,
) -> Result<String, Failure> {
    let shown = keys.join(".");
    let changed = replace(text, keys, value).unwrap_or_else(|| insert(text, keys, value));
    Document::parse(&changed, path).map_err(|failure| {
        let problem = failure.message.replace(&format!("{}: ", path.display()), "");
        Failure::usage(format!("set {shown}: {problem}"))
    })?;
    // The proof that the edit did what it should, whatever the file looks like.
    let table: toml::Table = changed.parse().map_err(|error| {
        Failure::failed(format!("set {shown}: {}", mistake::tell(&error, &changed)))
    })?;
    match find(&table, keys) {
        Some(found) if found == wanted => Ok(changed),
        _ => Err(Failure::failed(format!(
            "'{shown}' cannot be set in {} as it is written; edit the file itself",
            path.display()
        ))),
    }
}

fn find<'a>(table: &'a toml::Table, keys: &[&str]) -> Option<&'a toml::Value> {
    let (last, tables) = keys.split_last()?;
    let mut table = table;
    for key in tables {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)
}

/// Replaces the value of a key that is there.
fn replace(text: &str, keys: &[&str], value: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let (last, tables) = keys.split_last()?;
    let mut table = document.get_ref();
    for key in tables {
        match table.get(*key)?.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return None,
        }
    }
    let span = table.get(*last)?.span();
    Some(format!("{}{value}{}", text.get(..span.start)?, text.get(span.end..)?))
}

/// Adds a key: after its table's header where the file has one, before the first table for a key
/// of the top, else with a header of its own at the end.
fn insert(text: &str, keys: &[&str], value: &str) -> String {
    let Some((last, tables)) = keys.split_last() else { return text.to_owned() };
    let line = format!("{} = {value}\n", bare_or_quoted(last));
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(end) = lines.last_mut()
        && !end.ends_with('\n')
    {
        end.push('\n');
    }
    if tables.is_empty() {
        let place = lines.iter().position(|line| is_header(line)).unwrap_or(lines.len());
        lines.insert(place, line);
        return lines.concat();
    }
    let names: Vec<String> = tables.iter().map(|name| bare_or_quoted(name)).collect();
    let header = format!("[{}]", names.join("."));
    match lines.iter().position(|line| line.trim_end() == header) {
        Some(place) => lines.insert(place + 1, line),
        None => {
            let gap = if lines.is_empty() { "" } else { "\n" };
            lines.push(format!("{gap}{header}\n{line}"));
        }
    }
    lines.concat()
}

fn bare_or_quoted(key: &str) -> String {
    let is_bare =
        key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if is_bare { key.to_owned() } else { toml::Value::String(key.to_owned()).to_string() }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    // A link stays a link: people keep such files among others of their own.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    write_private(&real, text)
}

#[cfg(test)]
mod tests;
