//! What `narthex doctor` says about servers.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use door_cli::Check;
use outbound::{AllowedTarget, Client, HeaderValue, Limits, Options, StatusCode, header};
use serde::Deserialize;

use super::{ok, warn};
use crate::serve::{self, ServerRecord};
use crate::settings::Settings;

/// How long a server of this machine may take to say that it is well.
const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// The largest answer to that question.
const HEALTH_BYTES_MAX: u64 = 64 * 1024;

/// What a server says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Health {
    status: String,
    version: Option<String>,
    sessions: Option<u64>,
}

/// Looks for a server of this home folder, and for whoever has its port.
pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    let home = &settings.places.home;
    if let Some(record) = serve::running(home) {
        return vec![running(&record).await];
    }
    let mut checks = Vec::new();
    match serve::kept(home) {
        Ok(None) => {}
        Ok(Some(record)) => checks.push(ok(
            "server",
            "server.json",
            format!("left of process {}, which has ended; the next start replaces it", record.pid),
        )),
        Err(problem) => {
            let fix = "the next start of narthex serve replaces it";
            checks.push(warn("server", "server.json", problem, fix));
        }
    }
    checks.push(port(settings));
    checks
}

async fn running(record: &ServerRecord) -> Check {
    let (url, pid) = (&record.url, record.pid);
    match ask(record).await {
        Ok(Health { status, version, sessions }) if status == "ok" => {
            let version = version.unwrap_or_else(|| record.version.clone());
            let sessions = stdx::plural(sessions.unwrap_or(0), "open session");
            ok("server", "running", format!("{url}, process {pid}, version {version}, {sessions}"))
        }
        Ok(Health { status, .. }) => {
            let fix = "look into its log, which it writes to standard error";
            warn("server", "running", format!("{url}, process {pid}, says it is {status}"), fix)
        }
        Err(problem) => {
            let message = format!("process {pid} holds {url} and does not answer: {problem}");
            let fix = format!("look into its log, or stop it: kill {pid}");
            warn("server", "running", message, &fix)
        }
    }
}

/// Asks a server how it is.
async fn ask(record: &ServerRecord) -> Result<Health, String> {
    let place = record.url.strip_prefix("http://").unwrap_or(&record.url);
    let place: AllowedTarget = place.parse().map_err(|error| format!("{place}: {error}"))?;
    let limits = Limits {
        response_bytes_max: HEALTH_BYTES_MAX,
        total_timeout: HEALTH_WAIT,
        ..Limits::default()
    };
    let options = Options { allow: vec![place], limits, ..Options::default() };
    let client = Client::new(options).map_err(|error| error.to_string())?;
    let url = format!("{}/v1/health", record.url);
    let bearer = HeaderValue::from_str(&format!("Bearer {}", record.token))
        .map_err(|_| "its token fits into no header".to_owned())?;
    let request = client.get(&url).header(header::AUTHORIZATION, bearer);
    let response = request.send().await.map_err(|error| error.to_string())?;
    // One that is not well says so with another status, and with the same words.
    let is_health = matches!(response.status(), StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE);
    if !is_health {
        return Err(format!("it answered {}", response.status()));
    }
    let bytes = response.bytes().await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|_| "its answer is not one of narthex".to_owned())
}

/// Tells whether a server could start.
fn port(settings: &Settings) -> Check {
    let server = &settings.server;
    let (host, port) = (&server.host.value, server.port.value);
    let Ok(address) = host.parse() else {
        return ok("server", "port", format!("{port} of {host}; no server runs"));
    };
    match TcpListener::bind(SocketAddr::new(address, port)) {
        Ok(_) => ok("server", "port", format!("{port} of {host} is free; no server runs")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let who = match serve::port_owner(port) {
                Some(owner) => format!(" by {owner}"),
                None => String::new(),
            };
            let message = format!("{port} of {host} is in use{who}");
            warn("server", "port", message, "narthex serve --port 0 takes any that is free")
        }
        Err(error) => {
            let message = format!("{port} of {host}: {error}");
            warn("server", "port", message, "narthex serve --port 0 takes any that is free")
        }
    }
}
