//! A configured server.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use outbound::{HeaderName, HeaderValue, Url};
use stdx::Secret;

/// Who configured a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The settings of the user or of the machine: its word about its own tools counts, and it is
    /// offered everywhere.
    Settings,
    /// A file in a folder that somebody trusted: offered in that folder and beneath it.
    Folder(PathBuf),
}

impl Origin {
    /// Tells whether what the server says about its tools counts.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Settings)
    }
}

/// A configured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name in the settings.
    pub name: String,
    /// Who configured it.
    pub origin: Origin,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// How long one call may take, waits for a person left out.
    pub call_timeout: Duration,
}

impl Server {
    /// Tells whether it runs inside of neurons.
    #[must_use]
    pub fn is_in_neurons(&self) -> bool {
        matches!(&self.endpoint, Endpoint::Stdio(program) if program.scope == Scope::Neuron)
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that speaks over its standard streams.
    Stdio(StdioServer),
    /// Streamable HTTP.
    Http(HttpServer),
}

/// Where a server's program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// On this machine, once for all sessions.
    #[default]
    Host,
    /// Inside of neurons: once in each neuron that a session acts in, under what holds there.
    /// Sessions that act in none do not have its tools.
    Neuron,
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioServer {
    /// The program: a name to look up, or a path.
    pub command: String,
    /// Its arguments; they may hold keys.
    pub args: Vec<Secret<String>>,
    /// Variables to set on top of what every command inherits.
    pub env: Vec<(String, Secret<String>)>,
    /// The folder to run in; the launcher's choice where absent.
    pub cwd: Option<PathBuf>,
    /// Where it runs.
    pub scope: Scope,
}

/// An address to reach.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpServer {
    /// The endpoint, `http` or `https`.
    pub url: Url,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, Secret<HeaderValue>)>,
    /// What is known of this client at the server's authorization server.
    pub oauth: OAuthClient,
}

impl fmt::Debug for HttpServer {
    // Path and query of an address may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpServer")
            .field("host", &self.url.host_str().unwrap_or_default())
            .field("headers", &names)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

/// What is known of this client at an authorization server before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthClient {
    /// The id of a client that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret, where it has one.
    pub client_secret: Option<Secret<String>>,
    /// Where this client's own description is published, `https` with a path; it is the id at
    /// authorization servers that read such descriptions.
    pub client_metadata_url: Option<Url>,
    /// The rights to ask for in place of those that the server names.
    pub scopes: Vec<String>,
}
