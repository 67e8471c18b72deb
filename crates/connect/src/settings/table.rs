//! One server's table.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use outbound::{HeaderName, HeaderValue, Url, header};
use serde::Deserialize;
use serde_json::{Map, Value};
use stdx::Secret;

use super::expand::{expand, is_name};
use super::{Lookup, Mistake};
use crate::{Endpoint, HttpServer, OAuthClient, Origin, Scope, Server, StdioServer};

/// How long a call may take where nothing is said.
const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// The longest that a call may take: longer work belongs into a task of the server's own.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);

/// Most arguments, variables or headers of a server.
const ENTRIES_MAX: usize = 200;

/// Headers that the protocol itself sets.
const OWN_HEADERS: [&str; 8] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A server as it stands in settings. Either `command` or `url` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTable {
    /// `stdio` or `http`; told by `command` or `url` where absent.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables to set for it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The folder to run it in, absolute.
    pub cwd: Option<String>,
    /// Where the program runs: `host` or `neuron`; on the host where absent.
    pub scope: Option<String>,
    /// The address.
    pub url: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What is known of this client at the authorization server.
    pub oauth: Option<OAuthTable>,
    /// How long one call may take, in milliseconds.
    #[serde(alias = "callTimeoutMs")]
    pub call_timeout_ms: Option<u64>,
    /// Whether it is used; true where absent.
    pub enabled: Option<bool>,
}

/// The `oauth` table of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuthTable {
    /// The id of a client that was registered by hand.
    #[serde(alias = "clientId")]
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<String>,
    /// Where this client's own description is published.
    #[serde(alias = "clientMetadataUrl")]
    pub client_metadata_url: Option<String>,
    /// The rights to ask for.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Reads a server of a JSON file; keys of other programs are passed over.
pub(super) fn from_json(field: &str, value: &Value) -> Result<ServerTable, Mistake> {
    const OURS: [&str; 11] = [
        "type",
        "command",
        "args",
        "env",
        "cwd",
        "scope",
        "url",
        "headers",
        "oauth",
        "callTimeoutMs",
        "enabled",
    ];
    let Some(fields) = value.as_object() else {
        return Err(Mistake::new(field, "expected an object with command or url"));
    };
    let ours = fields.iter().filter(|(key, _)| OURS.contains(&key.as_str()));
    let mut ours: Map<String, Value> =
        ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(oauth) = ours.get_mut("oauth").and_then(Value::as_object_mut) {
        oauth.retain(|key, _| {
            ["clientId", "clientSecret", "clientMetadataUrl", "scopes"].contains(&key.as_str())
        });
    }
    // Other programs write `disabled`.
    if fields.get("disabled") == Some(&Value::Bool(true)) {
        ours.insert("enabled".to_owned(), Value::Bool(false));
    }
    serde_path_to_error::deserialize(Value::Object(ours)).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { field.to_owned() } else { format!("{field}.{path}") };
        Mistake::new(at, error.into_inner())
    })
}

impl ServerTable {
    /// Tells whether it is switched off.
    pub(super) fn is_off(&self) -> bool {
        self.enabled == Some(false)
    }

    /// Makes a server of it.
    ///
    /// # Errors
    /// The first mistake, with the field.
    pub fn read(
        &self,
        field: &str,
        name: &str,
        origin: &Origin,
        environment: Lookup<'_>,
    ) -> Result<Server, Mistake> {
        let site = Site { field, environment };
        let endpoint = match (self.kind.as_deref(), &self.command, &self.url) {
            (_, Some(_), Some(_)) => {
                return Err(site.mistake("url", "there is a command too; keep one of them"));
            }
            (None | Some("stdio"), Some(command), None) => {
                Endpoint::Stdio(self.stdio(&site, command, origin)?)
            }
            (None | Some("http" | "streamable-http"), None, Some(url)) => {
                Endpoint::Http(self.http(&site, url)?)
            }
            (Some("sse"), ..) => {
                let reason = "'sse' is the old transport, which is not spoken: use the server's \
                              address for streamable http";
                return Err(site.mistake("type", reason));
            }
            (Some("stdio"), None, _) => return Err(site.mistake("command", "is missing")),
            (Some("http" | "streamable-http"), _, None) => {
                return Err(site.mistake("url", "is missing"));
            }
            (Some(kind), ..) => {
                let reason = format!("unknown type '{kind}': expected stdio or http");
                return Err(site.mistake("type", reason));
            }
            (None, None, None) => {
                return Err(Mistake::new(field, "has neither a command nor a url"));
            }
        };
        let call_timeout = self.call_timeout(&site)?;
        Ok(Server { name: name.to_owned(), origin: origin.clone(), endpoint, call_timeout })
    }

    fn call_timeout(&self, site: &Site<'_>) -> Result<Duration, Mistake> {
        let Some(ms) = self.call_timeout_ms else { return Ok(CALL_TIMEOUT_DEFAULT) };
        let limit = Duration::from_millis(ms);
        if ms == 0 || limit > CALL_TIMEOUT_MAX {
            let reason = format!("expected 1 to {} milliseconds", CALL_TIMEOUT_MAX.as_millis());
            return Err(site.mistake("call_timeout_ms", reason));
        }
        Ok(limit)
    }

    fn scope(&self, site: &Site<'_>, origin: &Origin) -> Result<Scope, Mistake> {
        match self.scope.as_deref() {
            None | Some("host") => Ok(Scope::Host),
            Some("neuron") if origin.is_trusted() => Ok(Scope::Neuron),
            // A folder's servers are for that folder, and neurons are not of it.
            Some("neuron") => Err(site.mistake(
                "scope",
                "only a server of your own settings runs in neurons: move it there",
            )),
            Some(other) => {
                let reason = format!("unknown scope '{other}': expected host or neuron");
                Err(site.mistake("scope", reason))
            }
        }
    }

    fn stdio(
        &self,
        site: &Site<'_>,
        command: &str,
        origin: &Origin,
    ) -> Result<StdioServer, Mistake> {
        for (key, there) in [("headers", !self.headers.is_empty()), ("oauth", self.oauth.is_some())]
        {
            if there {
                return Err(site.mistake(key, "belongs to a server with a url"));
            }
        }
        site.few("args", self.args.len())?;
        site.few("env", self.env.len())?;
        let command = site.expand("command", command)?;
        if command.trim().is_empty() {
            return Err(site.mistake("command", "is empty: name a program"));
        }
        let mut args = Vec::new();
        for (index, arg) in self.args.iter().enumerate() {
            args.push(Secret::new(site.expand(&format!("args[{index}]"), arg)?));
        }
        let mut env = Vec::new();
        for (name, value) in &self.env {
            let key = format!("env.{name}");
            if !is_name(name) {
                return Err(site.mistake(&key, "is no name of a variable"));
            }
            env.push((name.clone(), Secret::new(site.expand(&key, value)?)));
        }
        let cwd = match &self.cwd {
            None => None,
            Some(cwd) => Some(PathBuf::from(site.expand("cwd", cwd)?)),
        };
        if cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(site.mistake("cwd", "expected an absolute path"));
        }
        let scope = self.scope(site, origin)?;
        Ok(StdioServer { command, args, env, cwd, scope })
    }

    fn http(&self, site: &Site<'_>, url: &str) -> Result<HttpServer, Mistake> {
        for (key, there) in [
            ("args", !self.args.is_empty()),
            ("env", !self.env.is_empty()),
            ("cwd", self.cwd.is_some()),
            ("scope", self.scope.is_some()),
        ] {
            if there {
                return Err(site.mistake(key, "belongs to a server with a command"));
            }
        }
        site.few("headers", self.headers.len())?;
        let url = site.url("url", url)?;
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let key = format!("headers.{name}");
            let value = site.expand(&key, value)?;
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| site.mistake(&key, "is no name of a header"))?;
            if OWN_HEADERS.contains(&name.as_str()) {
                return Err(site.mistake(&key, "is set by the protocol: leave it out"));
            }
            // The value may be a secret and stays out of the message.
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| site.mistake(&key, "its value cannot be sent in a header"))?;
            value.set_sensitive(true);
            headers.push((name, Secret::new(value)));
        }
        let oauth = match &self.oauth {
            None => OAuthClient::default(),
            Some(table) => table.read(site)?,
        };
        if oauth.client_id.is_some()
            && headers.iter().any(|(name, _)| *name == header::AUTHORIZATION)
        {
            let reason = "there is an authorization header too; keep one of them";
            return Err(site.mistake("oauth", reason));
        }
        Ok(HttpServer { url, headers, oauth })
    }
}

impl OAuthTable {
    fn read(&self, site: &Site<'_>) -> Result<OAuthClient, Mistake> {
        let text = |key: &str, value: &Option<String>| match value {
            None => Ok(None),
            Some(value) => site.expand(&format!("oauth.{key}"), value).map(Some),
        };
        let client_id = text("client_id", &self.client_id)?;
        let client_secret = text("client_secret", &self.client_secret)?.map(Secret::new);
        if client_secret.is_some() && client_id.is_none() {
            return Err(site.mistake("oauth.client_id", "is missing beside client_secret"));
        }
        let key = "oauth.client_metadata_url";
        let client_metadata_url = match &self.client_metadata_url {
            None => None,
            Some(url) => Some(site.url(key, url)?),
        };
        if client_metadata_url
            .as_ref()
            .is_some_and(|url| url.scheme() != "https" || url.path() == "/")
        {
            return Err(site.mistake(key, "expected an https url with a path"));
        }
        let is_scope = |scope: &String| {
            let fits = |c: char| ('\x21'..='\x7e').contains(&c) && c != '"' && c != '\\';
            !scope.is_empty() && scope.chars().all(fits)
        };
        if let Some(index) = self.scopes.iter().position(|scope| !is_scope(scope)) {
            return Err(site.mistake(&format!("oauth.scopes[{index}]"), "is no scope"));
        }
        let scopes = self.scopes.clone();
        Ok(OAuthClient { client_id, client_secret, client_metadata_url, scopes })
    }
}

/// Where a table stands, for its messages.
struct Site<'a> {
    field: &'a str,
    environment: Lookup<'a>,
}

impl Site<'_> {
    fn mistake(&self, key: &str, reason: impl Display) -> Mistake {
        Mistake::new(format!("{}.{key}", self.field), reason)
    }

    fn expand(&self, key: &str, text: &str) -> Result<String, Mistake> {
        let whole = expand(text, self.environment).map_err(|reason| self.mistake(key, reason))?;
        if whole.contains('\0') {
            return Err(self.mistake(key, "has a NUL character"));
        }
        Ok(whole)
    }

    fn url(&self, key: &str, text: &str) -> Result<Url, Mistake> {
        let text = self.expand(key, text)?;
        // What was expanded may be a secret and stays out of the message.
        let mut url =
            Url::parse(&text).map_err(|error| self.mistake(key, format!("is no url: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(self.mistake(key, "expected http:// or https:// with a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let reason = "a name or password in a url is not sent: use headers";
            return Err(self.mistake(key, reason));
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn few(&self, key: &str, count: usize) -> Result<(), Mistake> {
        if count > ENTRIES_MAX {
            return Err(self.mistake(key, format!("has more than {ENTRIES_MAX} entries")));
        }
        Ok(())
    }
}
