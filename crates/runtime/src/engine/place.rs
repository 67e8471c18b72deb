//! Where a session acts: in a folder of the machine, or in one of a neuron.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Contents, FileStat, Located, NeuronError, Output, Process, Spawn, Workspace, WorkspaceError,
};
use protocol::{NeuronId, Refusal, RefusalCode};
use runtime_api::Error;
use tokio::sync::mpsc;

use super::options::Options;

/// Opens the folder in which a session acts. In a neuron an empty `cwd` is its working folder, and
/// `roots`, which are folders of the machine, do not count.
///
/// # Errors
/// `invalid` for a folder that cannot be entered; `neuron_not_found`, `neuron_not_running`,
/// `owned_elsewhere`, `not_supported` for a neuron.
pub(crate) async fn open(
    options: &Options,
    neuron: Option<&NeuronId>,
    cwd: &str,
    roots: &[String],
) -> Result<Arc<dyn Workspace>, Error> {
    let Some(neuron) = neuron else {
        return options.workspaces.open(cwd, roots).await.map_err(unfit);
    };
    let Some(neurons) = &options.neurons else {
        let message = format!("neuron: there are no neurons here, so none is {neuron}");
        return Err(Refusal::new(RefusalCode::NotSupported, message).into());
    };
    let cwd = Some(cwd).filter(|cwd| !cwd.is_empty());
    neurons.workspace(neuron, cwd).await.map_err(refused)
}

/// Turns a workspace's no into the caller's.
pub(crate) fn unfit(error: WorkspaceError) -> Error {
    match error {
        WorkspaceError::Fault(fault) => Error::Fault(fault),
        other => Refusal::new(RefusalCode::Invalid, format!("cwd: {other}")).into(),
    }
}

fn refused(error: NeuronError) -> Error {
    let code = match error {
        NeuronError::Fault(fault) => return Error::Fault(fault),
        NeuronError::Workspace(error) => return unfit(error),
        NeuronError::NotFound(_) => RefusalCode::NeuronNotFound,
        NeuronError::Exists(_) => RefusalCode::NeuronExists,
        NeuronError::OwnedElsewhere(..) => RefusalCode::OwnedElsewhere,
        NeuronError::NotRunning(_) => RefusalCode::NeuronNotRunning,
        NeuronError::NotSupported(_) => RefusalCode::NotSupported,
        NeuronError::Capacity(_) => RefusalCode::NoCapacity,
        NeuronError::Invalid(_) => RefusalCode::Invalid,
    };
    Refusal::new(code, error.to_string()).into()
}

/// The folder of a session whose neuron cannot be entered: the session can be read, and nothing in
/// it be touched.
#[derive(Debug)]
pub(crate) struct Unreachable {
    folder: [PathBuf; 1],
    why: String,
}

impl Unreachable {
    /// Stands in for a folder that was refused.
    pub(crate) fn new(cwd: &str, refusal: &Refusal) -> Self {
        Self { folder: [PathBuf::from(cwd)], why: refusal.message.clone() }
    }

    fn refuse<T>(&self) -> Result<T, WorkspaceError> {
        Err(WorkspaceError::Unfit(self.why.clone()))
    }
}

#[async_trait]
impl Workspace for Unreachable {
    fn cwd(&self) -> &Path {
        let [folder] = &self.folder;
        folder
    }

    fn roots(&self) -> &[PathBuf] {
        &self.folder
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn locate(&self, _: &str) -> Result<Located, WorkspaceError> {
        self.refuse()
    }

    async fn read(&self, _: &Located, _: u64) -> Result<Contents, WorkspaceError> {
        self.refuse()
    }

    async fn write(&self, _: &Located, _: &[u8]) -> Result<FileStat, WorkspaceError> {
        self.refuse()
    }

    async fn remove(&self, _: &Located) -> Result<(), WorkspaceError> {
        self.refuse()
    }

    async fn spawn(
        &self,
        _: Spawn,
        _: mpsc::Sender<Output>,
    ) -> Result<Box<dyn Process>, WorkspaceError> {
        self.refuse()
    }
}
