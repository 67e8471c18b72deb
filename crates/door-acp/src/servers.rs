//! MCP servers that a client brings along.

use agent_client_protocol_schema::v1::{EnvVariable, Error, HttpHeader, McpServer};
use stdx::Secret;

use crate::access::{Brought, Reach};
use crate::error::invalid;

/// Servers of one session: no editor has as many.
const SERVERS_MAX: usize = 64;

/// Reads the servers of a request.
///
/// # Errors
/// Names the field.
pub(crate) fn of(servers: Vec<McpServer>) -> Result<Vec<Brought>, Error> {
    if servers.len() > SERVERS_MAX {
        let count = servers.len();
        return Err(invalid(format!(
            "mcpServers: has {count} items, expected at most {SERVERS_MAX}"
        )));
    }
    servers.into_iter().enumerate().map(|(place, server)| one(place, server)).collect()
}

fn one(place: usize, server: McpServer) -> Result<Brought, Error> {
    let wrong = |what: &str| invalid(format!("mcpServers[{place}].{what}"));
    match server {
        McpServer::Stdio(server) => {
            let command = server.command.into_os_string().into_string();
            let command = command.map_err(|_| wrong("command: expected UTF-8 text"))?;
            let args = server.args.into_iter().map(Secret::new).collect();
            let env = server
                .env
                .into_iter()
                .map(|EnvVariable { name, value, .. }| (name, Secret::new(value)));
            let reach = Reach::Program { command, args, env: env.collect() };
            Ok(Brought { name: server.name, reach })
        }
        McpServer::Http(server) => {
            let headers = server
                .headers
                .into_iter()
                .map(|HttpHeader { name, value, .. }| (name, Secret::new(value)));
            let reach = Reach::Http { url: server.url, headers: headers.collect() };
            Ok(Brought { name: server.name, reach })
        }
        _ => Err(wrong("type: is not supported, expected a program or http")),
    }
}
