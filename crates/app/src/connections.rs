//! `narthex connections`: how it stands with MCP servers.

mod redirect;

use std::time::Duration;

use connect::Origin as ServerOrigin;
use door_cli::{ConnectionInfo, ConnectionMachine, Failure, Globals};
use narthex::{Narthex, Pool, ServerState, ServerStatus};

use self::redirect::Listener;
use crate::machine::{self, Program};
use crate::settings::{KnownMcpServer, Settings, shown_server};

/// How long each server is waited for: a program that is fetched first takes as long.
const STATUS_WAIT: Duration = Duration::from_secs(30);

impl ConnectionMachine for Program {
    fn connections(
        &self,
        globals: &Globals,
    ) -> Result<(Vec<ConnectionInfo>, Vec<String>), Failure> {
        let settings = Settings::load_what_is_right(self.want(globals))?;
        let list = settings.mcp.servers.iter().map(listed).collect();
        Ok((by_name(list), settings.notices))
    }

    async fn try_connections(
        &self,
        globals: &Globals,
    ) -> Result<(Vec<ConnectionInfo>, Vec<String>), Failure> {
        let settings = Settings::load(self.want(globals))?;
        let notices = settings.notices.clone();
        let known = settings.mcp.servers.clone();
        let pool = pool(settings, &known)?;
        pool.settled(STATUS_WAIT).await;
        let stands = pool.status();
        pool.stop().await;
        let list = known.iter().map(|known| {
            let server = &known.server;
            if server.is_in_neurons() {
                return in_neurons(known);
            }
            let stand =
                stands.iter().find(|it| it.name == server.name && it.origin == server.origin);
            stand.map_or_else(|| listed(known), |stand| stood(known, stand))
        });
        Ok((by_name(list.collect()), notices))
    }

    async fn authorize(
        &self,
        globals: &Globals,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let (pool, origin) = self.one(globals, name)?;
        let listener = Listener::bind(show).await?;
        let authorized = pool.authorize(&origin, name, &listener).await;
        pool.stop().await;
        authorized.map_err(|error| Failure::failed(format!("{name}: {error}")))
    }

    async fn forget_tokens(&self, globals: &Globals, name: &str) -> Result<bool, Failure> {
        let (pool, origin) = self.one(globals, name)?;
        let forgotten = pool.forget(&origin, name).await;
        pool.stop().await;
        forgotten.map_err(|error| Failure::failed(format!("{name}: {error}")))
    }
}

impl Program {
    /// Makes a pool of one server alone.
    fn one(
        &self,
        globals: &Globals,
        name: &str,
    ) -> Result<(std::sync::Arc<Pool>, ServerOrigin), Failure> {
        let settings = Settings::load(self.want(globals))?;
        let servers = &settings.mcp.servers;
        let Some(known) = servers.iter().find(|known| known.server.name == name).cloned() else {
            let names: Vec<&str> = servers.iter().map(|known| known.server.name.as_str()).collect();
            let there = match names.is_empty() {
                true => "none is configured".to_owned(),
                false => format!("there are: {}", names.join(", ")),
            };
            return Err(Failure::usage(format!("no MCP server is named '{name}'; {there}")));
        };
        let origin = known.server.origin.clone();
        Ok((pool(settings, &[known])?, origin))
    }
}

/// Starts or reaches servers.
fn pool(
    mut settings: Settings,
    servers: &[KnownMcpServer],
) -> Result<std::sync::Arc<Pool>, Failure> {
    settings.mcp.servers = servers.to_vec();
    let mode = settings.mode.value;
    let mcp = machine::mcp(&settings);
    let mut options = machine::options(settings, None, mode);
    options.mcp = mcp;
    narthex::connections(options).map_err(|error| Failure::failed(error.to_string()))
}

/// Says of each server that is not there why its tools are missing, one sentence each.
pub(crate) fn missing(house: &Narthex) -> Vec<String> {
    let absent = house.servers().into_iter().filter(|it| it.state != ServerState::Connected);
    absent.map(|stand| said(&stand)).collect()
}

fn said(stand: &ServerStatus) -> String {
    let ServerStatus { name, state, error, .. } = stand;
    let why = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let mend = match state {
        ServerState::Unauthorized => format!("; let it in: narthex connections login {name}"),
        _ => String::new(),
    };
    format!("the MCP server {name} is {}, so that its tools are missing{why}{mend}", state.as_str())
}

fn listed(known: &KnownMcpServer) -> ConnectionInfo {
    ConnectionInfo {
        name: known.server.name.clone(),
        what: shown_server(&known.server),
        origin: known.origin.to_string(),
        state: None,
        tools: None,
        error: None,
        is_connected: false,
    }
}

/// Says of a server that runs in neurons that there is nothing to try here.
fn in_neurons(known: &KnownMcpServer) -> ConnectionInfo {
    let state = Some("started in each neuron".to_owned());
    ConnectionInfo { state, is_connected: true, ..listed(known) }
}

fn stood(known: &KnownMcpServer, stand: &ServerStatus) -> ConnectionInfo {
    let mut error = stand.error.clone();
    if stand.state == ServerState::Unauthorized {
        let how = format!("let it in: narthex connections login {}", stand.name);
        error = Some(error.map_or_else(|| how.clone(), |error| format!("{error}; {how}")));
    } else if stand.state == ServerState::Connecting {
        let limit = STATUS_WAIT.as_secs();
        let silent = format!("it did not begin to speak within {limit} s: is it an MCP server?");
        error = error.or(Some(silent));
    }
    ConnectionInfo {
        state: Some(stand.state.as_str().to_owned()),
        tools: Some(stand.tools),
        error,
        is_connected: stand.state == ServerState::Connected,
        ..listed(known)
    }
}

fn by_name(mut list: Vec<ConnectionInfo>) -> Vec<ConnectionInfo> {
    list.sort_by(|one, other| one.name.cmp(&other.name));
    list
}

#[cfg(test)]
mod tests {
    use protocol::Timestamp;

    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_told_with_what_helps() {
        let stand = |state, error: Option<&str>| ServerStatus {
            name: "issues".to_owned(),
            origin: ServerOrigin::Settings,
            neuron: None,
            state,
            tools: 0,
            error: error.map(str::to_owned),
            since: Timestamp(0),
        };
        for (state, error, expected) in [
            (
                ServerState::Waiting,
                Some("it ended"),
                "the MCP server issues is waiting, so that its tools are missing: it ended",
            ),
            (
                ServerState::Unauthorized,
                None,
                "the MCP server issues is unauthorized, so that its tools are missing; let it in: \
                 narthex connections login issues",
            ),
        ] {
            assert_eq!(said(&stand(state, error)), expected);
        }
    }
}
