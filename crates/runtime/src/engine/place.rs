//! Where a session acts: in a folder of the machine, or in one of a neuron.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Contents, FileStat, Located, NeuronError, Output, Place, Process, Spawn, Workspace,
    WorkspaceError,
};
use protocol::{NeuronId, Refusal, RefusalCode, SessionId, SessionSandbox};
use runtime_api::{AgentSettings, Error};
use tokio::sync::mpsc;

use super::options::Options;
use super::own;
use crate::kernel::State;

/// Says where a session acts, for whoever brings tools to it.
pub(crate) fn of(state: &State) -> Place<'_> {
    at(state.neuron.as_ref(), &state.cwd)
}

/// Says the same of a session that is about to begin.
pub(crate) fn at<'a>(neuron: Option<&'a NeuronId>, cwd: &'a str) -> Place<'a> {
    neuron.map_or(Place::Folder(cwd), Place::Neuron)
}

/// Where a session acts, as its log says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) neuron: Option<&'a NeuronId>,
    /// What it is where the neuron is the session's own, made over `cwd`.
    pub(crate) sandbox: Option<SessionSandbox>,
    pub(crate) cwd: &'a str,
}

impl<'a> Site<'a> {
    /// Says it of a session that is open.
    pub(crate) fn of(state: &'a State) -> Self {
        Self { neuron: state.neuron.as_ref(), sandbox: state.sandbox, cwd: &state.cwd }
    }
}

/// Opens the folder of a session that there was before. Its own sandbox is started again where it
/// does not run.
///
/// # Errors
/// As [`open`]; `not_supported` and `no_capacity` for a sandbox.
pub(crate) async fn reopen(
    options: &Options,
    site: Site<'_>,
    roots: &[String],
) -> Result<Arc<dyn Workspace>, Error> {
    if let (Some(neuron), Some(sandbox)) = (site.neuron, site.sandbox) {
        own::ensure(options, neuron, sandbox, site.cwd).await?;
    }
    open(options, site.neuron, site.cwd, roots).await
}

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

/// Puts what the client of a session lends over its folder of this machine.
pub(crate) fn with_client(
    options: &Options,
    agent: &AgentSettings,
    id: &SessionId,
    own: Arc<dyn Workspace>,
) -> Arc<dyn Workspace> {
    match &agent.lender {
        Some(lender) => options.workspaces.lent(own, Arc::clone(lender.get()), id),
        None => own,
    }
}

/// Lets what brings tools inside of a neuron begin there.
pub(crate) async fn bring_tools(
    options: &Options,
    neuron: Option<&NeuronId>,
    workspace: &Arc<dyn Workspace>,
) {
    let Some(neuron) = neuron else { return };
    for source in &options.tool_sources {
        source.enter(neuron, workspace).await;
    }
}

/// Turns a workspace's no into the caller's.
pub(crate) fn unfit(error: WorkspaceError) -> Error {
    match error {
        WorkspaceError::Fault(fault) => Error::Fault(fault),
        other => Refusal::new(RefusalCode::Invalid, format!("cwd: {other}")).into(),
    }
}

/// Turns a neuron's no into the caller's.
pub(crate) fn refused(error: NeuronError) -> Error {
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
