//! Model servers: those that are built in, those of settings, and their keys.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use door_cli::Failure;
pub(crate) use narthex::{KNOWN_SERVERS as BUILT_IN, KnownServer as BuiltIn};
use narthex::{LayerName, Provider};
use stdx::Secret;

use super::document::{Document, ProviderTable, read_text, unreadable};
use super::project::write_private;
use super::{KnownProvider, Origin};
use crate::environment::Environment;

/// Keys that `narthex login` keeps, and their file.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptKeys {
    path: PathBuf,
    keys: BTreeMap<String, Secret<String>>,
}

fn keys_file(home: &Path) -> PathBuf {
    home.join("keys.json")
}

/// Reads the kept keys.
pub(crate) fn kept_keys(home: &Path) -> Result<KeptKeys, Failure> {
    let path = keys_file(home);
    let plain: BTreeMap<String, String> = match read_text(&path) {
        // The parser's message may quote what it read; a key must not reach a screen.
        Ok(text) => serde_json::from_str(&text).map_err(|_| {
            Failure::usage(format!("{}: expected a JSON object of keys", path.display()))
        })?,
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let keys = plain.into_iter().map(|(name, key)| (name, Secret::new(key))).collect();
    Ok(KeptKeys { path, keys })
}

/// Keeps a key for a provider that takes one.
pub(crate) fn keep_key(
    home: &Path,
    known: &[KnownProvider],
    name: &str,
    key: &Secret<String>,
) -> Result<PathBuf, Failure> {
    if !known.iter().any(|known| known.provider.name == name) {
        let names: Vec<&str> = known.iter().map(|known| known.provider.name.as_str()).collect();
        let text = format!("unknown provider '{name}'; known: {}", names.join(", "));
        return Err(Failure::usage(text));
    }
    let mut kept = kept_keys(home)?;
    kept.keys.insert(name.to_owned(), key.clone());
    let plain: BTreeMap<&String, &String> =
        kept.keys.iter().map(|(name, key)| (name, key.expose())).collect();
    let json = serde_json::to_string_pretty(&plain)
        .map_err(|_| Failure::failed("write keys: a key has no JSON form"))?;
    write_private(&kept.path, &json)?;
    Ok(kept.path)
}

/// Lists the variables that may hold keys of model servers: the usual ones of every server that is
/// known by name, and those that the files name.
pub(super) fn key_variables(from_files: [(&Document, &Origin); 2]) -> Vec<String> {
    let usual = BUILT_IN.iter().filter_map(|known| known.key_variable.map(str::to_owned));
    let named = from_files.into_iter().flat_map(|(document, _)| document.providers.values());
    let mut names: Vec<String> =
        usual.chain(named.filter_map(|table| table.key_env.clone())).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns an address without what may be a secret in it: the name and password before its host,
/// and what follows a question mark.
pub(crate) fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, "?…"),
        None => (rest, ""),
    };
    // A password may hold a slash that should have been written otherwise: rather too much is
    // hidden than too little.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("…@", rest),
        None => ("", rest),
    };
    format!("{scheme}{separator}{user}{rest}{query}")
}

/// Puts the servers together: built in, machine's file, user's file, environment.
pub(super) fn resolve(
    from_files: [(&Document, &Origin); 2],
    kept: &KeptKeys,
    environment: &Environment,
) -> Result<Vec<KnownProvider>, Failure> {
    let mut tables: BTreeMap<&str, Table<'_>> = BTreeMap::new();
    for (document, origin) in from_files {
        for (name, table) in &document.providers {
            let merged = tables.entry(name).or_default();
            merged.take(table, origin);
        }
    }
    let mut known = Vec::new();
    for built_in in BUILT_IN {
        let table = tables.remove(built_in.name).unwrap_or_default();
        known.push(build(built_in.name, Some(built_in), &table, kept, environment)?);
    }
    for (name, table) in tables {
        known.push(build(name, None, &table, kept, environment)?);
    }
    Ok(known)
}

/// The tables of one name in several files; the stronger file's fields win one by one.
#[derive(Default)]
struct Table<'a> {
    fields: ProviderTable,
    address: Option<&'a Origin>,
    key: Option<&'a Origin>,
    origin: Option<&'a Origin>,
}

impl<'a> Table<'a> {
    fn take(&mut self, table: &ProviderTable, origin: &'a Origin) {
        self.origin = Some(origin);
        if table.wire.is_some() {
            self.fields.wire = table.wire;
        }
        if table.base_url.is_some() {
            self.fields.base_url.clone_from(&table.base_url);
            self.address = Some(origin);
        }
        if table.key.is_some() {
            self.fields.key.clone_from(&table.key);
            self.key = Some(origin);
        }
        if table.key_env.is_some() {
            self.fields.key_env.clone_from(&table.key_env);
        }
        self.fields.headers.extend(table.headers.clone());
        self.fields.structured_output = table.structured_output.or(self.fields.structured_output);
    }

    fn missing(&self, name: &str, key: &str) -> Failure {
        let place = match self.origin {
            Some(Origin::File(_, path)) => path.display().to_string(),
            _ => "settings".to_owned(),
        };
        Failure::usage(format!(
            "{place}: providers.{name} needs '{key}' (both at once: narthex config set \
             providers.{name} '{{ wire = \"openai-chat\", base_url = \"http://127.0.0.1:8000/v1\" \
             }}')"
        ))
    }
}

fn build(
    name: &str,
    built_in: Option<&BuiltIn>,
    table: &Table<'_>,
    kept: &KeptKeys,
    environment: &Environment,
) -> Result<KnownProvider, Failure> {
    let wire = table.fields.wire.or(built_in.map(|known| known.wire));
    let wire = wire.ok_or_else(|| table.missing(name, "wire"))?;
    let (base_url, address) =
        address(built_in, table, environment).ok_or_else(|| table.missing(name, "base_url"))?;
    let key = key(name, built_in, table, kept, environment);
    let (key, key_origin) = key.map_or((None, None), |(key, origin)| (Some(key), Some(origin)));
    let headers = table.fields.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.expose().clone())).collect();
    let structured_output = table.fields.structured_output.unwrap_or_default();
    let name = name.to_owned();
    let provider = Provider { name, wire, base_url, key, headers, structured_output };
    Ok(KnownProvider { provider, address, key: key_origin })
}

fn address(
    built_in: Option<&BuiltIn>,
    table: &Table<'_>,
    environment: &Environment,
) -> Option<(String, Origin)> {
    if let Some(variable) = built_in.and_then(|known| known.url_variable)
        && let Some(text) = environment.variable(variable)
    {
        let url = built_in.map_or_else(|| text.to_owned(), |known| known.address_of(text));
        return Some((url, Origin::Variable(variable.to_owned())));
    }
    if let (Some(url), Some(origin)) = (&table.fields.base_url, table.address) {
        return Some((url.clone(), origin.clone()));
    }
    built_in.map(|known| (known.base_url.to_owned(), Origin::BuiltIn))
}

fn key(
    name: &str,
    built_in: Option<&BuiltIn>,
    table: &Table<'_>,
    kept: &KeptKeys,
    environment: &Environment,
) -> Option<(Secret<String>, Origin)> {
    let variables =
        [table.fields.key_env.as_deref(), built_in.and_then(|known| known.key_variable)];
    for variable in variables.into_iter().flatten() {
        if let Some(key) = environment.variable(variable) {
            let key = Secret::new(key.to_owned());
            return Some((key, Origin::Variable(variable.to_owned())));
        }
    }
    if let Some(key) = &table.fields.key {
        let origin = table.key.cloned();
        return Some((
            key.clone(),
            origin.unwrap_or(Origin::File(LayerName::User, PathBuf::new())),
        ));
    }
    kept.keys.get(name).map(|key| (key.clone(), Origin::Keys(kept.path.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let table = [
            ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
            ("https://me:pass@box/v1", "https://…@box/v1"),
            ("https://me:p/a@ss@box/v1?key=sk", "https://…@box/v1?…"),
            ("me:pass@box", "…@box"),
        ];
        for (url, shown) in table {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }
}
