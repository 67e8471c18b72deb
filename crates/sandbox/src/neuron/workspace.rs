//! The workspace of a neuron: files and commands over its socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::agent::files::wire::{BODY_MAX, Reply, Request};
use ::agent::files::{FileError, Locator};
use async_trait::async_trait;
use driver_api::{
    Contents, EntryKind, Fault, FileStat, Located, Output, Process, Spawn, Workspace,
    WorkspaceError,
};
use tokio::sync::mpsc;

use super::files::{Answer, Files};
use crate::agent::Agent;
use crate::environment::Environment;
use crate::file;

/// A folder of a neuron.
#[derive(Debug)]
pub(super) struct NeuronWorkspace {
    files: Arc<Files>,
    agent: Agent,
    locator: Locator,
    environment: Environment,
}

/// What a neuron's workspaces share.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub(super) files: Arc<Files>,
    pub(super) agent: Agent,
}

impl NeuronWorkspace {
    /// Opens a folder inside of a neuron; `cwd` is relative to the neuron's working folder.
    pub(super) async fn open(
        means: Means,
        (root, home): (&Path, &Path),
        environment: Environment,
        cwd: Option<&str>,
    ) -> Result<Self, WorkspaceError> {
        let Means { files, agent } = means;
        let (root, home) = (root.to_owned(), Some(home.to_owned()));
        let locator = Locator { cwd: root.clone(), roots: vec![root], home };
        let mut workspace = Self { files, agent, locator, environment };
        // Links on the way to the working folder are followed once, as for a folder outside.
        let named = workspace.locator.cwd.clone();
        let root = workspace.enter(text_of(&named)?).await?;
        workspace.locator.cwd.clone_from(&root);
        workspace.locator.roots = vec![root];
        if let Some(cwd) = cwd {
            let cwd = workspace.enter(cwd).await?;
            if !workspace.locator.roots.iter().any(|root| cwd.starts_with(root)) {
                workspace.locator.roots.insert(0, cwd.clone());
            }
            workspace.locator.cwd = cwd;
        }
        Ok(workspace)
    }

    async fn enter(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let Located { real, stat, .. } = self.locate(path).await?;
        match stat.map(|stat| stat.kind) {
            Some(EntryKind::Folder) => Ok(real),
            Some(_) => Err(WorkspaceError::Unfit(format!("{path} is not a folder"))),
            None => Err(WorkspaceError::NotFound(path.to_owned())),
        }
    }

    async fn put(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<FileStat, WorkspaceError> {
        file::check_write(file, bytes)?;
        let request = Request::Write { file: file::target(file), mode, bytes };
        match self.files.ask(&request).await?.reply {
            Reply::Written(facts) => Ok(file::stat(facts)),
            other => Err(unexpected(other)),
        }
    }
}

fn text_of(path: &Path) -> Result<&str, WorkspaceError> {
    let text = path.to_str();
    text.ok_or_else(|| WorkspaceError::Unfit(format!("{} is not UTF-8", path.display())))
}

/// A reply that does not belong to the request; a refusal does to each.
fn unexpected(reply: Reply) -> WorkspaceError {
    match reply {
        Reply::Refused(error) => file::refusal(error),
        _ => Fault::new("the neuron's file service answered something else").into(),
    }
}

#[async_trait]
impl Workspace for NeuronWorkspace {
    fn cwd(&self) -> &Path {
        &self.locator.cwd
    }

    fn roots(&self) -> &[PathBuf] {
        &self.locator.roots
    }

    fn home(&self) -> Option<&Path> {
        self.locator.home.as_deref()
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        let request = Request::Locate { from: self.locator.clone(), path: path.to_owned() };
        match self.files.ask(&request).await?.reply {
            Reply::Located(target, facts) => Ok(file::located((target, facts))),
            other => Err(unexpected(other)),
        }
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let limit = limit.min(BODY_MAX as u64);
        let request = Request::Read { file: file::target(file), limit };
        match self.files.ask(&request).await?.reply {
            Reply::Contents(facts, bytes) if bytes.len() as u64 <= limit => {
                Ok(Contents { bytes, stat: file::stat(facts) })
            }
            other => Err(unexpected(other)),
        }
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        self.put(file, bytes, None).await
    }

    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        self.put(file, bytes, Some(mode)).await
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        let request = Request::Remove { file: file::target(file) };
        match self.files.ask(&request).await? {
            Answer { reply: Reply::Removed, .. } => Ok(()),
            // The first try did it, and its reply was lost.
            Answer { reply: Reply::Refused(FileError::NotFound(_)), is_second: true } => Ok(()),
            Answer { reply, .. } => Err(unexpected(reply)),
        }
    }

    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        self.agent.spawn_in(&self.locator.cwd, &self.environment, spawn, output).await
    }
}
