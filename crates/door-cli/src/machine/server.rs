//! What the door asks of the program about servers and their tokens.

use std::future::Future;
use std::path::PathBuf;

use protocol::{Mode, Timestamp};
use serde::Serialize;
use stdx::Secret;
use terminal::Failure;
use tokio::sync::oneshot;

use crate::args::{CortexArgs, Globals, HostArgs, ServeArgs};

/// Who gave a server its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOrigin {
    /// The flag `--token`.
    Flag,
    /// The environment variable of this name.
    Variable(String),
}

/// A server that listens.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// Where it is, for example `http://127.0.0.1:7420`.
    pub url: String,
    /// Its port.
    pub port: u16,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its token; none where every program of this machine is let in.
    pub token: Option<Secret<String>>,
    /// Who gave the token; none where the server made it, and then it is shown.
    pub token_origin: Option<TokenOrigin>,
    /// The folders in which sessions may work.
    pub roots: Vec<String>,
    /// The mode of sessions that name none.
    pub mode: Mode,
    /// The model of sessions that name none.
    pub model: Option<String>,
    /// The file with url and token; none where another server has it.
    pub file: Option<PathBuf>,
    /// How many sessions were taken up whose turns were cut or wait for a person; 0 before
    /// [`Server::begin`].
    pub taken_up: u64,
    /// The cortex door, where it is open.
    pub cortex: Option<CortexFacts>,
    /// What a person should know, one sentence each.
    pub notices: Vec<String>,
}

/// The cortex door of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CortexFacts {
    /// Where its routes begin, for example `/api/v1/cortex`.
    pub base: &'static str,
    /// What keeps new neurons apart.
    pub driver: &'static str,
    /// How far this machine can: `full`, `partial` or `none`.
    pub isolation: &'static str,
    /// Which tools are offered.
    pub preset: &'static str,
}

/// A server whose port is open. It is gone when it is dropped, which is an orderly end only before
/// [`Server::begin`].
pub trait Server {
    /// Returns what people and programs want to know of it.
    fn facts(&self) -> &ServerFacts;

    /// Takes up the sessions that a crash cut, and answers requests. May be dropped at any point;
    /// what it began goes on until [`Server::stop`].
    fn begin(&mut self) -> impl Future<Output = ()>;

    /// Waits until it ends by itself, which it only does when it fails. Cancel-safe.
    fn failed(&mut self) -> impl Future<Output = Failure>;

    /// Stops it: running turns end, streams are closed, requests that were begun are answered.
    ///
    /// # Errors
    /// When that takes too long; the message says what did not end.
    fn stop(&mut self) -> impl Future<Output = Result<(), Failure>>;
}

/// The server of this home folder that runs.
#[derive(Clone, Debug)]
pub struct RunningServer {
    /// Where it is.
    pub url: String,
    /// Its token.
    pub token: Secret<String>,
    /// Its process.
    pub pid: u32,
}

/// A token that was made.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The token, which nobody can tell again.
    pub token: Secret<String>,
    /// What is kept of it.
    pub info: TokenInfo,
}

/// What is kept of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenInfo {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is good; for ever where absent.
    pub expires_at: Option<Timestamp>,
}

/// The part of the program that serves.
pub trait ServerMachine {
    /// A server that runs.
    type Server: Server;

    /// Prepares a server: requests wait at its port, and nothing is done before
    /// [`Server::begin`]. May be dropped at any point.
    ///
    /// # Errors
    /// Names the flag, setting, variable or port, and what would be right.
    fn serve(
        &self,
        globals: &Globals,
        args: ServeArgs,
    ) -> impl Future<Output = Result<Self::Server, Failure>>;

    /// Prepares a server of the cortex door alone, as [`ServerMachine::serve`] does.
    ///
    /// # Errors
    /// As there.
    fn cortex(
        &self,
        globals: &Globals,
        args: CortexArgs,
    ) -> impl Future<Output = Result<Self::Server, Failure>>;

    /// Speaks with an editor over the standard streams until it is gone, or `stopped` is: then it
    /// stops in order.
    ///
    /// # Errors
    /// Names the flag, setting or variable, and what would be right; or what failed.
    fn acp(
        &self,
        globals: &Globals,
        stopped: oneshot::Receiver<()>,
    ) -> impl Future<Output = Result<(), Failure>>;

    /// Serves an application that embeds the program until it is gone or asks for the end, or
    /// `stopped` is: then it stops in order.
    ///
    /// # Errors
    /// Names the flag, file, setting or variable, and what would be right; or what failed.
    fn host(
        &self,
        globals: &Globals,
        args: HostArgs,
        stopped: oneshot::Receiver<()>,
    ) -> impl Future<Output = Result<(), Failure>>;

    /// Finds the server of this home folder that runs.
    ///
    /// # Errors
    /// When none does.
    fn running_server(&self, globals: &Globals) -> Result<RunningServer, Failure>;

    /// Makes a token that is good for `life_ms` milliseconds, or for ever.
    ///
    /// # Errors
    /// For a name that is taken or no name, and when there are too many.
    fn make_token(
        &self,
        globals: &Globals,
        name: &str,
        life_ms: Option<i64>,
    ) -> Result<NewToken, Failure>;

    /// Lists the tokens, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn tokens(&self, globals: &Globals) -> Result<Vec<TokenInfo>, Failure>;

    /// Takes a token away.
    ///
    /// # Errors
    /// When there is none of that name.
    fn revoke_token(&self, globals: &Globals, name: &str) -> Result<(), Failure>;
}
