//! The v1 server in this process, over a runtime that is there already.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{Ids, SystemIds};
use http_kit::{GateOptions, OneToken, ServerOptions as ListenerOptions};
use protocol::Mode;
use runtime_api::{AgentSettings, Handle};
use stdx::Secret;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;

/// The fewest characters of a token that is given, as for `narthex serve`.
const TOKEN_CHARS_MIN: usize = 16;

/// The most characters of a token that is given: it goes through headers, whose size is bounded.
const TOKEN_CHARS_MAX: usize = 1024;

/// After how long an unanswered request of a session is decided against.
const PERMISSION_TIMEOUT: Duration = Duration::from_secs(300);

/// What a server is made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The runtime that it serves, for example that of an [`Agent`](crate::Agent).
    pub runtime: Handle,
    /// The folders that sessions may work in; the first is the default.
    pub roots: Vec<PathBuf>,
    /// The mode of sessions that name none.
    pub mode: Mode,
    /// The model of sessions that name none; the runtime's default where absent.
    pub model: Option<String>,
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The token that every request must bring, 16 to 1,024 visible ASCII characters; a new one
    /// where absent.
    pub token: Option<Secret<String>>,
    /// After how long an unanswered request is decided against; zero means never.
    pub permission_timeout: Duration,
}

impl ServerOptions {
    /// Serves a runtime for sessions in a folder and below.
    pub fn new(runtime: Handle, root: impl Into<PathBuf>) -> Self {
        Self {
            runtime,
            roots: vec![root.into()],
            mode: Mode::default(),
            model: None,
            port: 0,
            token: None,
            permission_timeout: PERMISSION_TIMEOUT,
        }
    }
}

/// A server in this process, on 127.0.0.1 alone. The program `narthex serve` does more: it writes
/// `server.json`, listens elsewhere, takes cut sessions up again, and reads the settings.
///
/// Dropping it stops it as [`Server::stop`] does, without waiting.
#[derive(Debug)]
pub struct Server {
    url: String,
    token: Secret<String>,
    stopping: CancellationToken,
    serving: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Starts a server. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Option`] names what is missing or wrong, for example a port that is taken.
    pub async fn start(options: ServerOptions) -> Result<Self, Error> {
        let roots = options.roots.iter().map(|root| {
            let wrong = |error| Error::option("roots", format!("{}: {error}", root.display()));
            root.canonicalize().map_err(wrong)
        });
        let roots: Vec<PathBuf> = roots.collect::<Result<_, _>>()?;
        if roots.is_empty() {
            return Err(Error::option("roots", "say in which folders sessions may work"));
        }
        let token = options.token.map_or_else(|| Ok(new_token()), checked)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let wrong = |error: io::Error| Error::option("port", format!("{address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let url = format!("http://{}", listener.local_addr().map_err(wrong)?);
        let timeout = options.permission_timeout.as_millis();
        let stopping = CancellationToken::new();
        let router = door_v1::router(door_v1::Options {
            handle: options.runtime,
            roots,
            agent: AgentSettings {
                is_attended: true,
                interaction_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
                ..AgentSettings::default()
            },
            mode: Some(options.mode),
            model: options.model,
            version: env!("CARGO_PKG_VERSION"),
            stopping: stopping.clone(),
        });
        let gate = GateOptions {
            tokens: Arc::new(OneToken::new(&token, "token")),
            is_loopback: true,
            origins: Vec::new(),
            open: door_v1::OPEN,
            render: door_v1::problem,
        };
        let app = http_kit::gated(router, gate);
        let serving = http_kit::serve(listener, app, ListenerOptions::default(), stopping.clone());
        // It ends when it is told to, by the token that this server holds.
        let serving = TaskTracker::new().spawn(serving);
        Ok(Self { url, token, stopping, serving: Some(serving) })
    }

    /// Returns the address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the token. Whoever has it can run tools with this user's rights.
    #[must_use]
    pub fn token(&self) -> &Secret<String> {
        &self.token
    }

    /// Stops: nothing new is accepted, requests that run may end, within ten seconds. Sessions
    /// stay open in the runtime.
    ///
    /// # Errors
    /// [`Error::Failed`] when the listener failed.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stopping.cancel();
        match self.serving.take() {
            Some(serving) => match serving.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(runtime_api::Fault::with("serve http", error).into()),
                Err(error) => Err(runtime_api::Fault::with("serve http", error).into()),
            },
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// Takes a token that is hard enough to guess and fits into a header. It is not shown.
fn checked(token: Secret<String>) -> Result<Secret<String>, Error> {
    let text = token.expose();
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || !(TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len()) {
        let right = format!(
            "expected {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} visible ASCII characters, no spaces"
        );
        return Err(Error::option("token", right));
    }
    Ok(token)
}

/// Makes a token of 256 bits that nobody can guess.
fn new_token() -> Secret<String> {
    let ids = SystemIds;
    Secret::new((0..4).map(|_| format!("{:016x}", ids.random())).collect())
}
