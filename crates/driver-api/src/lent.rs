//! What the client of a session lends it: an application that embeds the program, or an editor.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use protocol::SessionId;

use crate::ExitStatus;

/// What a client lends. What it does not lend the workspace does itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lends {
    /// Text files are read through it: it may hold newer text than the disk.
    pub reads_files: bool,
    /// Text files are written through it.
    pub writes_files: bool,
    /// Commands run in its terminals.
    pub runs_commands: bool,
}

/// Why a client did not do what it lends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LendError {
    /// It says that there is no such file.
    #[error("{0} does not exist")]
    NotFound(String),
    /// It refused, in its own words.
    #[error("the application refused: {0}")]
    Refused(String),
    /// It does not answer: it went away, or took longer than it may.
    #[error("the application does not answer")]
    Gone,
}

/// A command for a terminal of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder to run in, absolute.
    pub cwd: PathBuf,
    /// Variables to set on top of the client's own.
    pub env: Vec<(String, String)>,
    /// How many bytes of output the client keeps at most, the newest.
    pub output_max: u64,
}

/// What a terminal of a client shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentOutput {
    /// The text that it keeps.
    pub text: String,
    /// Whether older text was dropped.
    pub is_truncated: bool,
    /// How the command ended, once it has.
    pub exit: Option<ExitStatus>,
}

/// A command in a terminal of the client. Whoever drops it has released it before.
#[async_trait]
pub trait LentTerminal: Send + Sync + Debug {
    /// Returns the output so far.
    ///
    /// # Errors
    /// [`LendError`].
    async fn output(&self) -> Result<LentOutput, LendError>;

    /// Waits for the end of the command. Cancel-safe.
    ///
    /// # Errors
    /// [`LendError`].
    async fn wait(&self) -> Result<ExitStatus, LendError>;

    /// Ends the command; its output can still be read.
    ///
    /// # Errors
    /// [`LendError`].
    async fn kill(&self) -> Result<(), LendError>;

    /// Gives the terminal back; a command that still runs is ended.
    ///
    /// # Errors
    /// [`LendError`].
    async fn release(&self) -> Result<(), LendError>;
}

/// A client that lends its files and terminals to the sessions that it opens. Every call has a
/// limit of time of its own and ends with [`LendError::Gone`] when the client went away. Paths are
/// real and absolute, and were judged before.
#[async_trait]
pub trait Lender: Send + Sync + Debug {
    /// Returns what it lends. It stays the same as long as the client is connected.
    fn lends(&self) -> Lends;

    /// Reads a text file whole.
    ///
    /// # Errors
    /// [`LendError`].
    async fn read_text(&self, session: &SessionId, path: &Path) -> Result<String, LendError>;

    /// Writes a text file whole; creates it where it is missing.
    ///
    /// # Errors
    /// [`LendError`].
    async fn write_text(
        &self,
        session: &SessionId,
        path: &Path,
        text: &str,
    ) -> Result<(), LendError>;

    /// Starts a command in a terminal.
    ///
    /// # Errors
    /// [`LendError`].
    async fn run(
        &self,
        session: &SessionId,
        command: LentCommand,
    ) -> Result<Arc<dyn LentTerminal>, LendError>;
}
