//! The workspace: what the client lends goes through it, the rest through the one beneath.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, FileStat, LendError, Lender, Lends, LentCommand, Located, Output, Process,
    Spawn, Workspace, WorkspaceError,
};
use protocol::SessionId;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::process;

/// Bytes of output that a client is asked to keep of a command: far more than a model is shown,
/// and what one message carries between two looks at a command that prints much.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The permission bits that a file is said to have which the client alone holds.
const UNSAVED_MODE: u32 = 0o644;

/// Puts what a client lends over a workspace, for one session. Where a path leads is told by the
/// workspace beneath, and so are files that are no text, those outside of its roots, and commands
/// that read standard input, which no terminal of a client offers.
pub fn over(
    own: Arc<dyn Workspace>,
    lender: Arc<dyn Lender>,
    session: SessionId,
) -> Arc<dyn Workspace> {
    let lends = lender.lends();
    if lends == Lends::default() {
        return own;
    }
    Arc::new(Lent { own, lender, lends, session, terminals: TaskTracker::new() })
}

#[derive(Debug)]
struct Lent {
    own: Arc<dyn Workspace>,
    lender: Arc<dyn Lender>,
    lends: Lends,
    session: SessionId,
    /// What minds commands; each ends with its terminal.
    terminals: TaskTracker,
}

impl Lent {
    /// Reads a text through the client. `on_disk` is what lies there, if anything does.
    async fn read_lent(
        &self,
        file: &Located,
        limit: u64,
        on_disk: Option<Contents>,
    ) -> Result<Contents, WorkspaceError> {
        let text = match self.lender.read_text(&self.session, &file.real).await {
            Ok(text) => text,
            // What neither of the two has is not there.
            Err(LendError::NotFound(_) | LendError::Refused(_)) if on_disk.is_none() => {
                return Err(WorkspaceError::NotFound(file.shown()));
            }
            Err(error) => return Err(refused(error)),
        };
        let size = text.len() as u64;
        if size > limit {
            return Err(WorkspaceError::TooLarge { path: file.shown(), size, limit });
        }
        let stat = match on_disk {
            Some(Contents { stat, .. }) => FileStat { size, ..stat },
            None => unsaved(size),
        };
        Ok(Contents { bytes: text.into_bytes(), stat })
    }

    /// Tells whether a file is one that the client may hold.
    fn may_hold(file: &Located) -> bool {
        file.root.is_some() && file.stat.is_none_or(|stat| stat.kind == EntryKind::File)
    }
}

#[async_trait]
impl Workspace for Lent {
    fn cwd(&self) -> &Path {
        self.own.cwd()
    }

    fn roots(&self) -> &[PathBuf] {
        self.own.roots()
    }

    fn is_local(&self) -> bool {
        self.own.is_local()
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        self.own.locate(path).await
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        if !self.lends.reads_files || !Self::may_hold(file) {
            return self.own.read(file, limit).await;
        }
        match self.own.read(file, limit).await {
            // Clients hold texts; asked for anything else some answer with a garbled one.
            Ok(contents) if !is_text(&contents.bytes) => Ok(contents),
            Ok(contents) => self.read_lent(file, limit, Some(contents)).await,
            Err(WorkspaceError::NotFound(_)) => self.read_lent(file, limit, None).await,
            Err(error) => Err(error),
        }
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        let text = std::str::from_utf8(bytes).ok().filter(|_| is_text(bytes));
        match text {
            Some(text) if self.lends.writes_files && Self::may_hold(file) => {
                let written = self.lender.write_text(&self.session, &file.real, text).await;
                written.map_err(refused)?;
                let size = bytes.len() as u64;
                Ok(file.stat.map_or(unsaved(size), |stat| FileStat { size, ..stat }))
            }
            _ => self.own.write(file, bytes).await,
        }
    }

    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        if self.lends.writes_files && Self::may_hold(file) {
            // No client takes permission bits.
            return self.write(file, bytes).await;
        }
        self.own.write_with_mode(file, bytes, mode).await
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        self.own.remove(file).await
    }

    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        if !self.lends.runs_commands || !spawn.stdin.is_empty() {
            return self.own.spawn(spawn, output).await;
        }
        let program = spawn.argv.first().cloned().unwrap_or_default();
        let command = LentCommand {
            argv: spawn.argv,
            cwd: spawn.cwd,
            // What is removed from this process's variables is not among the client's.
            env: spawn.env.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            output_max: OUTPUT_BYTES_MAX,
        };
        let terminal = match self.lender.run(&self.session, command).await {
            Ok(terminal) => terminal,
            Err(LendError::NotFound(_)) => return Err(WorkspaceError::NotFound(program)),
            Err(error) => return Err(refused(error)),
        };
        Ok(process::mind(terminal, output, &self.terminals))
    }
}

/// Turns a client's no into the workspace's.
pub(crate) fn refused(error: LendError) -> WorkspaceError {
    match error {
        LendError::NotFound(path) => WorkspaceError::NotFound(path),
        LendError::Refused(_) | LendError::Gone => WorkspaceError::Unfit(error.to_string()),
    }
}

/// The facts of a file that the disk does not have.
fn unsaved(size: u64) -> FileStat {
    FileStat { kind: EntryKind::File, size, mode: UNSAVED_MODE, modified_ns: 0 }
}

/// Tells whether a client's editor would hold these bytes: a NUL is in no text.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}
