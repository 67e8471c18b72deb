//! What the user configured, read: `mcpServers` of JSON files and `[mcp.servers.NAME]` of
//! settings.
//!
//! Reads no file and no environment: both are handed in.

mod expand;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::names::NAME_CHARS_MAX;
use crate::{Origin, Server};

pub use table::{OAuthTable, ServerTable};

/// Most servers of one file or of the settings: each is a process or a connection that stays.
pub const SERVERS_MAX: usize = 64;

/// Looks a variable of the environment up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with one entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Mistake {
    /// The field, with its way from the top: `mcpServers.github.url`.
    pub field: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl Mistake {
    pub(crate) fn new(field: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { field: field.into(), reason: reason.to_string() }
    }
}

/// What a file says: the servers that can be used, and what is wrong with the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// The servers, in the order of their names.
    pub servers: Vec<Server>,
    /// What is wrong; such a server is left out.
    pub mistakes: Vec<Mistake>,
}

/// Reads a JSON file with `mcpServers`, as `.mcp.json` is one. Keys of other programs are passed
/// over. `${NAME}` and `${NAME:-default}` stand for a variable of the environment.
///
/// # Errors
/// A [`Mistake`] where the file as a whole cannot be used; a single server that cannot is in
/// [`Configured::mistakes`].
pub fn from_json(
    text: &str,
    origin: &Origin,
    environment: Lookup<'_>,
) -> Result<Configured, Mistake> {
    let whole: Value = serde_json::from_str(text)
        .map_err(|error| Mistake::new("mcpServers", format!("the file is no JSON: {error}")))?;
    let Some(fields) = whole.as_object() else {
        return Err(Mistake::new("mcpServers", "expected an object at the top of the file"));
    };
    let servers = match fields.get("mcpServers") {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err(Mistake::new("mcpServers", "expected an object of servers by name")),
        None => return Ok(Configured::default()),
    };
    let mut tables = BTreeMap::new();
    let mut mistakes = Vec::new();
    for (name, value) in servers {
        match table::from_json(&format!("mcpServers.{name}"), value) {
            Ok(table) => drop(tables.insert(name.clone(), table)),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let mut configured = from_tables("mcpServers", &tables, origin, environment);
    mistakes.append(&mut configured.mistakes);
    Ok(Configured { mistakes, ..configured })
}

/// Reads tables that settings hold, for example `[mcp.servers.NAME]`; `at` is their place there,
/// for messages.
pub fn from_tables(
    at: &str,
    tables: &BTreeMap<String, ServerTable>,
    origin: &Origin,
    environment: Lookup<'_>,
) -> Configured {
    let mut configured = Configured::default();
    for (name, table) in tables {
        if table.is_off() {
            continue;
        }
        let field = format!("{at}.{name}");
        let read = if configured.servers.len() >= SERVERS_MAX {
            Err(Mistake::new(&field, format!("there are more than {SERVERS_MAX} servers")))
        } else {
            check_name(&field, name).and_then(|()| table.read(&field, name, origin, environment))
        };
        match read {
            Ok(server) => configured.servers.push(server),
            Err(mistake) => configured.mistakes.push(mistake),
        }
    }
    configured
}

fn check_name(field: &str, name: &str) -> Result<(), Mistake> {
    let is_named = name.chars().any(|c| c.is_ascii_alphanumeric());
    if !is_named || name.chars().count() > NAME_CHARS_MAX {
        let reason = format!(
            "the name of a server has a letter or digit and at most {NAME_CHARS_MAX} characters"
        );
        return Err(Mistake::new(field, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
