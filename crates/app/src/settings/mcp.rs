//! What the settings and files say about MCP servers: `[mcp]`, `mcp.json` of the home folder, and
//! `.mcp.json` of a project.

mod files;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use connect::settings::{OAuthTable, ServerTable, from_tables};
use connect::{Endpoint, Origin as ServerOrigin, Server};
use door_cli::Setting;
use narthex::LayerName;
use schemars::JsonSchema;
use serde::Deserialize;

use super::cortex::Variables;
use super::document::Document;
use super::providers::shown_url;
use super::{Origin, Sourced};
use crate::environment::Environment;

use self::variables::Noting;
pub(crate) use files::{ServersFile, home_file};

/// Above how many tools they are found on demand where nothing else is said.
const DEFER_THRESHOLD: u32 = 10;
/// How much of a command is shown.
const COMMAND_CHARS_MAX: usize = 200;

/// MCP servers. Not in a project's file: the servers of a project stand in `.mcp.json`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpTable {
    /// Up to how many tools of servers are offered as they are; above it there is `mcp_find_tools`
    /// alone, which finds them. 10 where nothing is said.
    #[serde(alias = "deferThreshold")]
    pub(crate) defer_threshold: Option<u32>,
    /// The servers by name. `${NAME}` in their values stands for a variable of the environment.
    pub(crate) servers: BTreeMap<String, McpServerTable>,
}

/// An MCP server: a program (`command`) or an address (`url`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpServerTable {
    /// `stdio` or `http`; told by `command` or `url` where nothing is said.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// The program.
    pub(crate) command: Option<String>,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Variables that are set for it.
    pub(crate) env: BTreeMap<String, String>,
    /// The folder that it runs in, absolute; the working folder, of this program or of the neuron,
    /// where nothing is said.
    pub(crate) cwd: Option<String>,
    /// Where the program runs: `host`, once on this machine, or `neuron`, once inside of each
    /// neuron that sessions act in. On the host where nothing is said.
    pub(crate) scope: Option<String>,
    /// The address, for example `https://mcp.example.com/mcp`.
    pub(crate) url: Option<String>,
    /// Headers of every request.
    pub(crate) headers: BTreeMap<String, String>,
    /// What is known of this program at the server's authorization server.
    pub(crate) oauth: Option<McpOauthTable>,
    /// How long one call may take, in milliseconds; 60,000 where nothing is said.
    #[serde(alias = "callTimeoutMs")]
    pub(crate) call_timeout_ms: Option<u64>,
    /// Whether it is used; it is where nothing is said.
    pub(crate) enabled: Option<bool>,
}

/// What is known of this program at an authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpOauthTable {
    /// The id of a client that was registered by hand.
    #[serde(alias = "clientId")]
    pub(crate) client_id: Option<String>,
    /// Its secret.
    #[serde(alias = "clientSecret")]
    pub(crate) client_secret: Option<String>,
    /// Where this program's own description is published.
    #[serde(alias = "clientMetadataUrl")]
    pub(crate) client_metadata_url: Option<String>,
    /// The rights to ask for, in place of those that the server names.
    pub(crate) scopes: Vec<String>,
}

impl McpServerTable {
    /// Returns the table as it is read; here it stands with a schema.
    fn table(&self) -> ServerTable {
        ServerTable {
            kind: self.kind.clone(),
            command: self.command.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            scope: self.scope.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            oauth: self.oauth.as_ref().map(|oauth| OAuthTable {
                client_id: oauth.client_id.clone(),
                client_secret: oauth.client_secret.clone(),
                client_metadata_url: oauth.client_metadata_url.clone(),
                scopes: oauth.scopes.clone(),
            }),
            call_timeout_ms: self.call_timeout_ms,
            enabled: self.enabled,
        }
    }
}

/// A server with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct KnownMcpServer {
    pub(crate) server: Server,
    pub(crate) origin: Origin,
}

/// The settings of MCP servers, each with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct McpSettings {
    pub(crate) defer_threshold: Sourced<u32>,
    /// Those that are to be used, each name once.
    pub(crate) servers: Vec<KnownMcpServer>,
    /// What is wrong with variables: it stops whoever opens the cortex door, and nobody else.
    pub(crate) mistakes: Vec<String>,
    /// Names that a stronger file has switched off or got wrong.
    taken: BTreeSet<String>,
    /// Variables that the user's own servers read and that may hold a secret.
    pub(super) secret_variables: BTreeSet<String>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            defer_threshold: Sourced::built_in(DEFER_THRESHOLD),
            servers: Vec::new(),
            mistakes: Vec::new(),
            taken: BTreeSet::new(),
            secret_variables: BTreeSet::new(),
        }
    }
}

impl McpSettings {
    /// Takes the threshold that a file names.
    pub(super) fn take_document(&mut self, document: &Document, origin: &Origin) {
        self.defer_threshold.take(document.mcp.defer_threshold, origin);
    }

    /// Takes what variables say. What is wrong with one is kept in `mistakes`.
    pub(super) fn take_environment(&mut self, environment: &Environment) {
        let mut read = Variables { environment, mistakes: Vec::new() };
        let name = "NSYS_CORTEX_MCP_DEFER_THRESHOLD";
        read.number(name, "a whole number of tools", &mut self.defer_threshold);
        self.mistakes.append(&mut read.mistakes);
    }

    /// Takes the servers of a settings file, after those of all stronger ones. Returns what is
    /// wrong with those that are left out, one sentence each.
    pub(super) fn take_tables(
        &mut self,
        document: &Document,
        origin: &Origin,
        environment: &Environment,
    ) -> Vec<String> {
        let tables: BTreeMap<String, ServerTable> = document
            .mcp
            .servers
            .iter()
            .filter(|(name, _)| !self.taken.contains(*name))
            .map(|(name, table)| (name.clone(), table.table()))
            .collect();
        let noting = Noting::new(environment);
        let lookup = |name: &str| noting.look(name);
        let read = from_tables("mcp.servers", &tables, &ServerOrigin::Settings, &lookup);
        self.secret_variables.extend(noting.secret());
        self.taken.extend(tables.into_keys());
        let told = read.mistakes.iter();
        let told = told.map(|mistake| format!("{origin}: {mistake}; the server is left out"));
        let told = told.collect();
        self.add(read.servers, origin);
        told
    }

    fn add(&mut self, servers: Vec<Server>, origin: &Origin) {
        let known = servers.into_iter();
        self.servers.extend(known.map(|server| KnownMcpServer { server, origin: origin.clone() }));
    }

    /// Lists the settings, without what may be secret.
    pub(super) fn list(&self) -> Vec<Setting> {
        let mut list = vec![Setting {
            key: "mcp.defer_threshold".to_owned(),
            value: self.defer_threshold.value.to_string(),
            origin: self.defer_threshold.origin.to_string(),
        }];
        list.extend(self.servers.iter().map(|known| Setting {
            key: format!("mcp.servers.{}", known.server.name),
            value: toml::Value::String(shown(&known.server)).to_string(),
            origin: known.origin.to_string(),
        }));
        list
    }
}

/// Says what a server is, without arguments, variables and headers, which may hold keys.
pub(crate) fn shown(server: &Server) -> String {
    match &server.endpoint {
        Endpoint::Stdio(program) => {
            let more = if program.args.is_empty() { "" } else { " …" };
            let command: String = program.command.chars().take(COMMAND_CHARS_MAX).collect();
            format!("{command}{more}")
        }
        Endpoint::Http(http) => shown_url(http.url.as_str()),
    }
}

/// Says what a server of a file that nobody trusts yet would do. The file itself is shown to
/// whoever is asked, so that nothing of it has to be hidden here.
fn offered(server: &Server) -> String {
    let name = &server.name;
    match &server.endpoint {
        Endpoint::Stdio(program) => {
            let args = program.args.iter().map(|arg| format!(" {}", arg.expose()));
            let command = format!("{}{}", program.command, args.collect::<String>());
            format!("run the MCP server {name}: {command}")
        }
        Endpoint::Http(http) => {
            format!("use the MCP server {name} at {}", shown_url(http.url.as_str()))
        }
    }
}

/// Returns the layer that a file of servers counts to.
fn layer_of(path: &Path, is_project: bool) -> Origin {
    let layer = if is_project { LayerName::Project } else { LayerName::User };
    Origin::File(layer, path.to_owned())
}
