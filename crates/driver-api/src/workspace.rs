//! Where tools act: files and processes.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::Fault;

/// What a workspace may answer instead of doing as told.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// No such file or folder.
    #[error("{0} does not exist")]
    NotFound(String),
    /// It is not what was asked for, for example a folder instead of a file.
    #[error("{0}")]
    Unfit(String),
    /// The operating system forbids it.
    #[error("permission denied: {0}")]
    Forbidden(String),
    /// It is larger than the limit.
    #[error("{path} has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The path changed between the check and the use, for example a folder became a link.
    #[error("{0} changed while it was used")]
    Raced(String),
    /// The workspace failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A path after all links were followed: what policies judge and what is then opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The real absolute path. The last parts may not exist yet.
    pub real: PathBuf,
    /// The real root that it lies beneath, if it lies beneath one.
    pub root: Option<PathBuf>,
    /// What is there now.
    pub stat: Option<FileStat>,
}

impl Located {
    /// Returns the path relative to its root, or the whole path when it lies outside.
    pub fn shown(&self) -> String {
        let inner = self.root.as_ref().and_then(|root| self.real.strip_prefix(root).ok());
        match inner {
            Some(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Some(path) => path.display().to_string(),
            None => self.real.display().to_string(),
        }
    }
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link (only in listings: [`Workspace::locate`] follows links).
    Link,
    /// A device, socket or pipe.
    Other,
}

/// The facts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// When it was last changed, in nanoseconds since the epoch.
    pub modified_ns: i128,
}

/// A file's bytes and facts, read together.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The facts of the file that was opened.
    pub stat: FileStat,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder to run in.
    pub cwd: PathBuf,
    /// Variables to set on top of the workspace's own; a value `None` removes one.
    pub env: Vec<(String, Option<String>)>,
    /// What it reads on standard input, then the end of it; at most [`Spawn::STDIN_MAX`] bytes.
    pub stdin: Vec<u8>,
}

impl Spawn {
    /// How many bytes a process may be given on standard input: they are held in memory on their
    /// whole way, so that more belongs into a file.
    pub const STDIN_MAX: usize = 4 << 20;
}

/// A piece of a process's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// From standard output.
    Stdout(Bytes),
    /// From standard error.
    Stderr(Bytes),
}

/// How a process ended: its true wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It ended by itself with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// The end of a process and its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The true wait status of the process itself.
    pub status: ExitStatus,
    /// How many descendants were still running when it ended, and were ended with it.
    pub leftovers: u32,
    /// Whether [`Process::kill`] ended it.
    pub killed: bool,
}

/// A running process and everything that descends from it.
#[async_trait]
pub trait Process: Send + Sync + Debug {
    /// Waits for the end. When this returns the whole tree is gone, whatever it did to get away
    /// (`setsid`, `disown`, ignored signals), and its output has been sent.
    /// Cancel-safe: it may be called again after its future was dropped.
    ///
    /// # Errors
    /// A fault when the process cannot be watched any more; its tree is ended all the same.
    async fn wait(&mut self) -> Result<Exit, WorkspaceError>;

    /// Asks for the end of the whole tree: SIGTERM to all, then SIGKILL after `grace`. Returns at
    /// once; [`Process::wait`] tells when it is done.
    fn kill(&self, grace: std::time::Duration);
}

/// Files and processes of one place. Dropping a [`Process`] ends its tree.
#[async_trait]
pub trait Workspace: Send + Sync + Debug {
    /// Returns the working folder, real and absolute.
    fn cwd(&self) -> &Path;

    /// Returns every root, real and absolute; the working folder is beneath the first.
    fn roots(&self) -> &[PathBuf];

    /// Returns the home folder of the commands that run here, where that is another one than this
    /// machine's user has.
    fn home(&self) -> Option<&Path> {
        None
    }

    /// Returns whether the paths of this workspace are paths of this process too, so that search
    /// tools may walk them.
    fn is_local(&self) -> bool;

    /// Finds where a path (relative to the working folder, absolute, or with `~/`) really leads.
    ///
    /// # Errors
    /// [`WorkspaceError::Unfit`] for an empty path or one with a NUL byte;
    /// [`WorkspaceError::NotFound`] is no error here: `stat` is then `None`.
    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError>;

    /// Reads a file of at most `limit` bytes. Opens beneath the root that [`Located`] names
    /// without following links, so that what is read is what was checked.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::Unfit`] for a folder or device,
    /// [`WorkspaceError::TooLarge`], [`WorkspaceError::Raced`].
    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError>;

    /// Writes a file in one step (temporary file beside it, fsync, rename), keeps the permission
    /// bits of an existing one, creates missing folders.
    ///
    /// # Errors
    /// As [`Workspace::read`]; nothing is changed then and no temporary file is left.
    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError>;

    /// Writes a file as [`Workspace::write`] does; a file that was not there gets the permission
    /// bits `mode` (`0o777` at most, whatever the process's mask), an existing one keeps its own.
    ///
    /// A workspace that cannot set bits writes the file with its usual ones.
    ///
    /// # Errors
    /// As [`Workspace::write`].
    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        let _ = mode;
        self.write(file, bytes).await
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As [`Workspace::read`].
    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError>;

    /// Starts a process in a tree of its own. Output goes to
    /// `output` piece by piece; a full queue makes the process wait.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] for a missing program or folder, [`WorkspaceError::TooLarge`]
    /// for more standard input than [`Spawn::STDIN_MAX`].
    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError>;
}

/// Opens workspaces.
#[async_trait]
pub trait Workspaces: Send + Sync + Debug {
    /// Opens the folder `cwd` with further `roots`.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::Unfit`] when it is no folder.
    async fn open(
        &self,
        cwd: &str,
        roots: &[String],
    ) -> Result<std::sync::Arc<dyn Workspace>, WorkspaceError>;

    /// Begins whatever commands will need, without waiting for it.
    fn prepare(&self);

    /// Puts what the client of a session lends over a workspace of this machine: texts and
    /// commands go through the client as far as it lends them.
    fn lent(
        &self,
        own: std::sync::Arc<dyn Workspace>,
        lender: std::sync::Arc<dyn crate::Lender>,
        session: &protocol::SessionId,
    ) -> std::sync::Arc<dyn Workspace>;
}
