//! What the door asks of the program about MCP servers.

use std::future::Future;

use serde::Serialize;
use terminal::Failure;

use crate::args::Globals;

/// A configured MCP server, and how it stands with it where it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionInfo {
    /// Its name in the settings.
    pub name: String,
    /// Its program or address, without what may be secret.
    pub what: String,
    /// Where it is configured.
    pub origin: String,
    /// How it stands, for example `connected`; none where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How many tools it has; none where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// What is wrong, or was left out of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it can be used as it is.
    #[serde(skip)]
    pub is_connected: bool,
}

/// The part of the program that knows MCP servers.
pub trait ConnectionMachine {
    /// Lists the configured servers by name, and what is wrong with those that were left out.
    ///
    /// # Errors
    /// When the settings cannot be read.
    fn connections(&self, globals: &Globals)
    -> Result<(Vec<ConnectionInfo>, Vec<String>), Failure>;

    /// Starts or reaches every configured server, and ends them again.
    ///
    /// # Errors
    /// As [`ConnectionMachine::connections`].
    fn try_connections(
        &self,
        globals: &Globals,
    ) -> impl Future<Output = Result<(Vec<ConnectionInfo>, Vec<String>), Failure>>;

    /// Lets a person authorize this program at a server; `show` is given the address to open.
    /// Dropping it gives up.
    ///
    /// # Errors
    /// For a server that there is not, that takes no tokens, or that refuses.
    fn authorize(
        &self,
        globals: &Globals,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> impl Future<Output = Result<(), Failure>>;

    /// Forgets the tokens of a server. Returns whether there were any.
    ///
    /// # Errors
    /// As [`ConnectionMachine::authorize`].
    fn forget_tokens(
        &self,
        globals: &Globals,
        name: &str,
    ) -> impl Future<Output = Result<bool, Failure>>;
}
