//! What neurons may reach, and the secrets that are added on the way.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use stdx::Secret;

use crate::environment::Environment;
use crate::settings::document::read_text;

/// The most rules and credentials of egress: each is looked at for each connection.
pub(super) const RULES_MAX: usize = 200;

/// What neurons may reach.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EgressTable {
    /// Hosts, for example `api.example.com`, `*.example.com:8443`, or a table
    /// `{ host = "…", port = 443, methods = ["GET"], private = true }`.
    #[serde(deserialize_with = "rules")]
    #[schemars(with = "Option<Vec<AllowRule>>")]
    pub(crate) allow: Option<Vec<AllowTable>>,
    /// Secrets that are added to requests outside of the neuron, which never sees them.
    pub(crate) credentials: Option<Vec<CredentialTable>>,
}

/// A host that may be reached, as a schema shows it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum AllowRule {
    /// `host` or `host:port`.
    Text(String),
    /// With more to say.
    Table(AllowTable),
}

/// A host that may be reached.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllowTable {
    /// `api.example.com`, or `*.example.com` for every name beneath it.
    pub(crate) host: String,
    /// The port; 443 and 80 where nothing is said.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// The HTTP methods; all where nothing is said. Inside of TLS they are only seen where a
    /// credential is added.
    #[serde(default)]
    pub(crate) methods: Vec<String>,
    /// Whether it may be on this machine or in a private network.
    #[serde(default)]
    pub(crate) private: bool,
}

/// A secret that is added to requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialTable {
    /// The host, as in `allow`.
    pub(crate) host: String,
    /// The header that is set; `authorization` where nothing is said.
    #[serde(default)]
    pub(crate) header: Option<String>,
    /// The environment variable with the secret.
    #[serde(default, alias = "valueEnv")]
    pub(crate) value_env: Option<String>,
    /// The file with the secret, absolute; white space at its end does not count.
    #[serde(default, alias = "valueFile")]
    pub(crate) value_file: Option<PathBuf>,
    /// What stands before the secret in the header, for example `"Bearer "`.
    #[serde(default)]
    pub(crate) prefix: Option<String>,
    /// The variable under which commands see a placeholder.
    #[serde(default)]
    pub(crate) variable: Option<String>,
}

fn rules<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<AllowTable>>, D::Error> {
    let Some(values) = Option::<Vec<serde_json::Value>>::deserialize(from)? else {
        return Ok(None);
    };
    let read = |(place, value): (usize, serde_json::Value)| {
        let rule = match value {
            serde_json::Value::String(text) => of_text(&text),
            value => serde_json::from_value(value).map_err(|error| error.to_string()),
        };
        rule.map_err(|problem| serde::de::Error::custom(format!("[{place}]: {problem}")))
    };
    values.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
}

/// Reads `host` or `host:port`. An address of IPv6 stands in brackets.
fn of_text(text: &str) -> Result<AllowTable, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => {
            let wrong = || format!("'{port}' of '{text}' is no port: expected 1 to 65535");
            (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?))
        }
        _ => (text, None),
    };
    if host.trim().is_empty() {
        return Err(format!("'{text}' names no host"));
    }
    Ok(AllowTable { host: host.to_owned(), port, ..AllowTable::default() })
}

impl AllowTable {
    pub(super) fn shown(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let methods = match self.methods.is_empty() {
            true => String::new(),
            false => format!(" {}", self.methods.join(",")),
        };
        let private = if self.private { " private" } else { "" };
        format!("{}{port}{methods}{private}", self.host)
    }
}

impl CredentialTable {
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.value_env, &self.value_file) {
            (Some(_), Some(_)) => Err("has value_env and value_file: keep one".to_owned()),
            (None, None) => {
                Err("needs value_env (the variable with the secret) or value_file (the \
                                 file with it)"
                    .to_owned())
            }
            (None, Some(path)) if !path.is_absolute() => {
                Err(format!("value_file '{}' is no absolute path", path.display()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn shown(&self) -> String {
        match (&self.value_env, &self.value_file) {
            (Some(name), _) => format!("(of ${name})"),
            (None, Some(path)) => format!("(of {})", path.display()),
            (None, None) => String::new(),
        }
    }

    /// Reads the secret.
    pub(super) fn value(&self, environment: &Environment) -> Result<Secret<String>, String> {
        let secret = match (&self.value_env, &self.value_file) {
            (Some(name), _) => environment
                .variable(name)
                .map(str::to_owned)
                .ok_or_else(|| format!("value_env: the variable {name} is not set"))?,
            (None, Some(path)) => of_file(path)?,
            (None, None) => return self.check().map(|()| Secret::new(String::new())),
        };
        Ok(Secret::new(secret))
    }
}

fn of_file(path: &Path) -> Result<String, String> {
    let text =
        read_text(path).map_err(|error| format!("value_file: read {}: {error}", path.display()))?;
    match text.trim_end() {
        "" => Err(format!("value_file: {} is empty", path.display())),
        secret => Ok(secret.to_owned()),
    }
}
