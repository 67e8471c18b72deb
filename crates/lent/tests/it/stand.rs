//! A client, a disk, and the workspace over both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, ExitStatus, FileStat, LendError, Lender, Lends, LentCommand, LentOutput,
    LentTerminal, Located, Output, Process, Spawn, Workspace, WorkspaceError,
};
use protocol::SessionId;
use tokio::sync::{Notify, mpsc};

type Files = Mutex<BTreeMap<PathBuf, Vec<u8>>>;

/// What lies below `/top`, and what was started here.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) files: Files,
    pub(crate) started: Mutex<Vec<Spawn>>,
    root: [PathBuf; 1],
}

#[async_trait]
impl Workspace for Disk {
    fn cwd(&self) -> &Path {
        &self.root[0]
    }

    fn roots(&self) -> &[PathBuf] {
        &self.root
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        let real = PathBuf::from(path);
        let files = self.files.lock().unwrap();
        let stat = files.get(&real).map(|bytes| FileStat {
            kind: EntryKind::File,
            size: bytes.len() as u64,
            mode: 0o755,
            modified_ns: 1,
        });
        let root = real.starts_with("/top").then(|| PathBuf::from("/top"));
        Ok(Located { real, root, stat })
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let files = self.files.lock().unwrap();
        let bytes = files.get(&file.real).cloned();
        let bytes = bytes.ok_or_else(|| WorkspaceError::NotFound(file.shown()))?;
        let size = bytes.len() as u64;
        if size > limit {
            return Err(WorkspaceError::TooLarge { path: file.shown(), size, limit });
        }
        Ok(Contents { bytes, stat: file.stat.unwrap() })
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        self.files.lock().unwrap().insert(file.real.clone(), bytes.to_vec());
        Ok(FileStat {
            kind: EntryKind::File,
            size: bytes.len() as u64,
            mode: 0o644,
            modified_ns: 2,
        })
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        self.files.lock().unwrap().remove(&file.real);
        Ok(())
    }

    async fn spawn(
        &self,
        spawn: Spawn,
        _: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        self.started.lock().unwrap().push(spawn);
        Err(WorkspaceError::Unfit("started on this machine".to_owned()))
    }
}

/// A client: what it holds, and a terminal.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) lends: Lends,
    pub(crate) buffers: Mutex<BTreeMap<PathBuf, String>>,
    /// What it answers instead.
    pub(crate) refusal: Mutex<Option<LendError>>,
    pub(crate) commands: Mutex<Vec<LentCommand>>,
    pub(crate) screen: Arc<Screen>,
}

/// A terminal, as the test moves it.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    pub(crate) text: Mutex<String>,
    pub(crate) exit: Mutex<Option<Result<ExitStatus, LendError>>>,
    pub(crate) ended: Notify,
    pub(crate) calls: Mutex<Vec<&'static str>>,
}

impl Screen {
    pub(crate) fn shows(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
    }

    pub(crate) fn ends(&self, how: Result<ExitStatus, LendError>) {
        *self.exit.lock().unwrap() = Some(how);
        self.ended.notify_waiters();
    }
}

#[async_trait]
impl LentTerminal for Screen {
    async fn output(&self) -> Result<LentOutput, LendError> {
        let text = self.text.lock().unwrap().clone();
        Ok(LentOutput { text, is_truncated: false, exit: None })
    }

    async fn wait(&self) -> Result<ExitStatus, LendError> {
        loop {
            let ended = self.ended.notified();
            if let Some(how) = self.exit.lock().unwrap().clone() {
                return how;
            }
            ended.await;
        }
    }

    async fn kill(&self) -> Result<(), LendError> {
        self.calls.lock().unwrap().push("kill");
        self.ends(Ok(ExitStatus::Signal(9)));
        Ok(())
    }

    async fn release(&self) -> Result<(), LendError> {
        self.calls.lock().unwrap().push("release");
        Ok(())
    }
}

#[async_trait]
impl Lender for Client {
    fn lends(&self) -> Lends {
        self.lends
    }

    async fn read_text(&self, _: &SessionId, path: &Path) -> Result<String, LendError> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        let found = self.buffers.lock().unwrap().get(path).cloned();
        found.ok_or_else(|| LendError::NotFound(path.display().to_string()))
    }

    async fn write_text(&self, _: &SessionId, path: &Path, text: &str) -> Result<(), LendError> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        self.buffers.lock().unwrap().insert(path.to_owned(), text.to_owned());
        Ok(())
    }

    async fn run(
        &self,
        _: &SessionId,
        command: LentCommand,
    ) -> Result<Arc<dyn LentTerminal>, LendError> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        self.commands.lock().unwrap().push(command);
        Ok(self.screen.clone())
    }
}

pub(crate) struct Stand {
    pub(crate) disk: Arc<Disk>,
    pub(crate) client: Arc<Client>,
    pub(crate) workspace: Arc<dyn Workspace>,
}

impl Stand {
    pub(crate) fn new(lends: Lends) -> Self {
        let disk = Arc::new(Disk { root: [PathBuf::from("/top")], ..Disk::default() });
        let client = Arc::new(Client { lends, ..Client::default() });
        let session = SessionId::new("s");
        let workspace = lent::over(disk.clone(), client.clone(), session);
        Self { disk, client, workspace }
    }

    pub(crate) fn on_disk(&self, path: &str, bytes: &[u8]) {
        self.disk.files.lock().unwrap().insert(PathBuf::from(path), bytes.to_vec());
    }

    pub(crate) fn in_buffer(&self, path: &str, text: &str) {
        self.client.buffers.lock().unwrap().insert(PathBuf::from(path), text.to_owned());
    }

    pub(crate) fn refuses(&self, refusal: LendError) {
        *self.client.refusal.lock().unwrap() = Some(refusal);
    }

    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let file = self.workspace.locate(path).await.unwrap();
        let read = self.workspace.read(&file, 100).await;
        read.map(|contents| contents.bytes).map_err(|error| error.to_string())
    }

    pub(crate) async fn write(&self, path: &str, bytes: &[u8]) -> Result<FileStat, String> {
        let file = self.workspace.locate(path).await.unwrap();
        self.workspace.write(&file, bytes).await.map_err(|error| error.to_string())
    }
}
