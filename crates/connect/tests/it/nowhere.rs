//! A workspace without anything, for the tests of this crate and its example: calls of servers
//! touch none.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{Contents, FileStat, Located, Output, Process, Spawn, Workspace, WorkspaceError};
use tokio::sync::mpsc;

/// Refuses everything.
#[derive(Debug)]
pub(crate) struct Nowhere;

fn none<T>() -> Result<T, WorkspaceError> {
    Err(WorkspaceError::Unfit("there is nothing here".to_owned()))
}

#[async_trait]
impl Workspace for Nowhere {
    fn cwd(&self) -> &Path {
        Path::new("/")
    }

    fn roots(&self) -> &[PathBuf] {
        &[]
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn locate(&self, _path: &str) -> Result<Located, WorkspaceError> {
        none()
    }

    async fn read(&self, _file: &Located, _limit: u64) -> Result<Contents, WorkspaceError> {
        none()
    }

    async fn write(&self, _file: &Located, _bytes: &[u8]) -> Result<FileStat, WorkspaceError> {
        none()
    }

    async fn remove(&self, _file: &Located) -> Result<(), WorkspaceError> {
        none()
    }

    async fn spawn(
        &self,
        _spawn: Spawn,
        _output: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        none()
    }
}
