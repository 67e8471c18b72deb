//! What the door needs of the program beside the runtime: whether a model can be talked to.

use std::fmt::Debug;

use async_trait::async_trait;
use runtime_api::{Handle, SharedTools};
use stdx::Secret;

/// A provider whose key a person can type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its name in the settings, for example `anthropic`.
    pub provider: String,
    /// What to append to the command of the agent: a terminal with it asks for the key.
    pub args: Vec<String>,
}

/// An MCP server that a client brings along for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// Its name, which the names of its tools are made of.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A program that speaks over its standard streams.
    Program {
        /// The program: a name to look up, or a path.
        command: String,
        /// Its arguments; they may hold keys.
        args: Vec<Secret<String>>,
        /// Variables to set on top of what every command inherits.
        env: Vec<(String, Secret<String>)>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Secret<String>)>,
    },
}

/// What came of bringing servers.
#[derive(Debug)]
pub struct Bringing {
    /// Their tools; the last clone ends the servers.
    pub tools: SharedTools,
    /// What a person should know of servers that are not there, one sentence each.
    pub notices: Vec<String>,
}

/// The runtime, and the way to a model.
#[async_trait]
pub trait Access: Send + Sync + Debug {
    /// Returns the runtime. Another one after [`Access::renew`] found a model that was missing
    /// before; sessions of the one before are gone then, of which none could be prompted.
    fn handle(&self) -> Handle;

    /// Says what is missing until a session can talk to a model; none where nothing is.
    fn lacks(&self) -> Option<String>;

    /// Looks for what was missing again, for example a key that was kept meanwhile. At once where
    /// nothing was missing.
    ///
    /// # Errors
    /// What is still missing and what to do about it, for people.
    async fn renew(&self) -> Result<(), String>;

    /// Starts or reaches the MCP servers of one session, which works in `cwd`, and waits a moment
    /// for them: a session is offered what is there when it begins. There is at least one.
    ///
    /// # Errors
    /// Names the field of one that is wrong, after `mcpServers`: `[0].url: …`.
    async fn bring(&self, servers: Vec<Brought>, cwd: &str) -> Result<Bringing, String>;

    /// Lists the providers whose keys can be typed at a terminal.
    fn logins(&self) -> Vec<Login>;
}
