//! Clients of a server of another process: the v1 door over HTTP.
//!
//! [`Client`] knows a server, [`RemoteSession`] a session of it. What the server sends is read
//! generously: fields and kinds of events that this version does not know are no errors.

mod backoff;
mod error;
mod feed;
mod leaving;
mod line;
mod remote_session;
mod run;
mod server_event;
mod shapes;

use std::path::Path;
use std::time::Duration;

use outbound::{HeaderValue, Url};
use serde::Deserialize;
use stdx::Secret;

pub use self::error::{ApiError, ClientError};
pub use self::feed::EventFeed;
use self::line::Line;
pub use self::remote_session::RemoteSession;
pub use self::server_event::{RemoteEvent, ServerEvent};
pub use self::shapes::{
    CheckpointInfo, CommandInfo, CreateSession, KeptPath, ModelInfo, PendingRequest, Prompt,
    Queued, RewindOutcome, ServerHealth, SessionState, SessionSummary, SessionUsage, UndoOutcome,
};

/// Largest `server.json` that is read, in bytes: it has a few lines.
const SERVER_FILE_BYTES_MAX: u64 = 64 * 1024;

/// How a client waits. The values of [`ClientOptions::default`] suit a server that sends a
/// heartbeat every 15 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer may take, as a whole.
    pub answer_timeout: Duration,
    /// How long an event stream may be silent before it counts as dead: three heartbeats.
    pub silence_timeout: Duration,
    /// How often a request that may be repeated is sent at most.
    pub attempts_max: u32,
    /// The first wait before another attempt; it doubles with each failure. Each wait is a random
    /// part of that, but where the server says how long, up to a minute.
    pub backoff_first: Duration,
    /// The longest wait before another attempt.
    pub backoff_max: Duration,
    /// After how long without progress an event stream gives up, and within a run the answer to a
    /// request.
    pub give_up_after: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            silence_timeout: Duration::from_secs(45),
            attempts_max: 5,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(8),
            give_up_after: Duration::from_secs(120),
        }
    }
}

/// A server. Cheap to clone; opens nothing before the first request.
#[derive(Clone, Debug)]
pub struct Client {
    line: Line,
}

/// What a server writes into its home for programs of the same user.
#[derive(Deserialize)]
struct ServerFile {
    url: String,
    token: String,
}

impl Client {
    /// Makes a client of a server. The token goes to this address alone: no redirect is followed.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when the address is none, or the token cannot stand in a header.
    pub fn connect(url: &str, token: impl Into<String>) -> Result<Self, ClientError> {
        Self::connect_with(url, token, ClientOptions::default())
    }

    /// Makes a client with waits of its own.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_with(
        url: &str,
        token: impl Into<String>,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let base = base(url)?;
        let mut token = HeaderValue::try_from(format!("Bearer {}", token.into()))
            .map_err(|_| setup("token: it cannot stand in a header"))?;
        token.set_sensitive(true);
        Ok(Self { line: Line::new(base, Secret::new(token), options) })
    }

    /// Makes a client of the server that runs with this home, by its `server.json`.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when no server runs there, or its file cannot be read.
    pub fn local(home: impl AsRef<Path>) -> Result<Self, ClientError> {
        let path = home.as_ref().join("server.json");
        let wrong = |reason: String| setup(format!("{}: {reason}", path.display()));
        let meta = std::fs::metadata(&path)
            .map_err(|error| wrong(format!("{error}; is a server running with this home?")))?;
        if meta.len() > SERVER_FILE_BYTES_MAX {
            return Err(wrong("is too large for what a server writes".to_owned()));
        }
        let text = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        // The parser's words may quote the token.
        let file: ServerFile = serde_json::from_slice(&text)
            .map_err(|_| wrong("expected a JSON object with url and token".to_owned()))?;
        Self::connect(&file.url, file.token)
    }

    /// Asks how the server is.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn health(&self) -> Result<ServerHealth, ClientError> {
        self.line.read(&["health"], &[]).await
    }

    /// Lists the models that sessions may name.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn models(&self) -> Result<Vec<ModelInfo>, ClientError> {
        let models: shapes::Models = self.line.read(&["models"], &[]).await?;
        Ok(models.models)
    }

    /// Lists the sessions that are open at the server.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, ClientError> {
        let sessions: shapes::Sessions = self.line.read(&["sessions"], &[]).await?;
        Ok(sessions.sessions)
    }

    /// Lists the sessions in a state, or those that are stored and can be resumed.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn sessions_in(
        &self,
        state: SessionState,
    ) -> Result<Vec<SessionSummary>, ClientError> {
        let query = [("state", state.as_str().to_owned())];
        let sessions: shapes::Sessions = self.line.read(&["sessions"], &query).await?;
        Ok(sessions.sessions)
    }

    /// Creates a session, or opens a stored one where `resume` names it. An answer that is lost is
    /// asked for again; that makes no second session.
    ///
    /// # Errors
    /// Any of [`ClientError`]; codes `validation_error`, `cwd_outside_roots`, `too_many_sessions`,
    /// `locked_by_policy`, `model_not_allowed`, `session_not_found`.
    pub async fn create_session(
        &self,
        session: CreateSession,
    ) -> Result<RemoteSession, ClientError> {
        let info: SessionSummary = self.line.ask_once(&["sessions"], &session).await?;
        Ok(RemoteSession::new(self.line.clone(), info.id))
    }

    /// Returns a session that is open at the server; whether it is shows with the first request.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> RemoteSession {
        RemoteSession::new(self.line.clone(), protocol::SessionId::new(id))
    }
}

fn base(text: &str) -> Result<Url, ClientError> {
    let mut url = Url::parse(text).map_err(|error| setup(format!("url: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(setup("url: must be http:// or https:// with a host"));
    }
    url.set_query(None);
    url.set_fragment(None);
    // What is joined replaces what stands after the last slash.
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

fn setup(reason: impl Into<String>) -> ClientError {
    ClientError::Setup(reason.into())
}
