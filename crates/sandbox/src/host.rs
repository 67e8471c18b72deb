//! The workspace of a folder of this machine: no isolation, only exactness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::agent::files::{self, FileError, Locator};
use async_trait::async_trait;
use driver_api::{
    Contents, Fault, FileStat, Located, Output, Process, Spawn, Workspace, WorkspaceError,
};
use tokio::sync::mpsc;

use crate::agent::Agent;
use crate::environment::Environment;
use crate::file;

/// Which folder, and what is special about it.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The working folder; must exist.
    pub cwd: PathBuf,
    /// The folders that belong to the workspace; each must exist. The working folder is added
    /// where none of them contains it.
    pub roots: Vec<PathBuf>,
    /// Variables to set (or, with `None`, to remove) on top of this process's own, of which
    /// commands get all but the secrets.
    pub env: Vec<(String, Option<String>)>,
}

/// Opens a folder of this machine as a workspace. Its commands are run by `agent`.
///
/// # Errors
/// [`WorkspaceError::NotFound`], [`WorkspaceError::Unfit`] or [`WorkspaceError::Forbidden`] when
/// the working folder or a root is not a folder that can be entered.
pub fn host(options: HostOptions, agent: Agent) -> Result<Arc<dyn Workspace>, WorkspaceError> {
    let HostOptions { cwd, roots: named, env } = options;
    let cwd = real_folder(&cwd)?;
    let mut roots = Vec::new();
    for root in named {
        let root = real_folder(&root)?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    // The working folder lies beneath the first root: that is part of the contract.
    match roots.iter().position(|root| cwd.starts_with(root)) {
        Some(place) => roots.get_mut(..=place).unwrap_or_default().rotate_right(1),
        None => roots.insert(0, cwd.clone()),
    }
    let environment = Environment::new(std::env::vars_os(), &env);
    let home = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let locator = Arc::new(Locator { cwd, roots, home });
    Ok(Arc::new(Host { locator, env, agent }))
}

fn real_folder(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let shown = path.display().to_string();
    let real = path
        .canonicalize()
        .map_err(|error| file::refusal(FileError::of_io(&error, "open", &shown)))?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(WorkspaceError::Unfit(format!("{shown} is not a folder")))
    }
}

#[derive(Debug)]
struct Host {
    locator: Arc<Locator>,
    /// What [`HostOptions::env`] says. The whole environment is put together for each command:
    /// most sessions that are open run none, and it has some kilobytes.
    env: Vec<(String, Option<String>)>,
    agent: Agent,
}

#[async_trait]
impl Workspace for Host {
    fn cwd(&self) -> &Path {
        &self.locator.cwd
    }

    fn roots(&self) -> &[PathBuf] {
        &self.locator.roots
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        let (locator, path) = (Arc::clone(&self.locator), path.to_owned());
        aside(move || locator.locate(&path)).await.map(file::located)
    }

    async fn read(&self, file: &Located, limit: u64) -> Result<Contents, WorkspaceError> {
        let target = file::target(file);
        let (facts, bytes) = aside(move || files::read(&target, limit)).await?;
        Ok(Contents { bytes, stat: file::stat(facts) })
    }

    async fn write(&self, file: &Located, bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        file::check_write(file, bytes)?;
        let (target, bytes) = (file::target(file), bytes.to_vec());
        aside(move || files::write(&target, &bytes, None)).await.map(file::stat)
    }

    async fn write_with_mode(
        &self,
        file: &Located,
        bytes: &[u8],
        mode: u32,
    ) -> Result<FileStat, WorkspaceError> {
        file::check_write(file, bytes)?;
        let (target, bytes) = (file::target(file), bytes.to_vec());
        aside(move || files::write(&target, &bytes, Some(mode))).await.map(file::stat)
    }

    async fn remove(&self, file: &Located) -> Result<(), WorkspaceError> {
        let target = file::target(file);
        aside(move || files::remove(&target)).await
    }

    async fn spawn(
        &self,
        spawn: Spawn,
        output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        let environment = Environment::new(std::env::vars_os(), &self.env);
        self.agent.spawn_in(&self.locator.cwd, &environment, spawn, output).await
    }
}

/// Runs file work where it may block.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::with("work on files", error))?.map_err(file::refusal)
}
