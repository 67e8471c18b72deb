//! Neurons: sandboxes with a life of their own.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::{NeuronId, Timestamp};

use crate::{Fault, Kept, Workspace, WorkspaceError};

pub use protocol::{IsolationLevel, NeuronDriver, Writes};

/// What keeps a neuron apart, and what does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// How far.
    pub level: IsolationLevel,
    /// The layers in force, by name.
    pub layers: Vec<String>,
    /// One sentence for each layer that is missing: what, why, and what would help.
    pub reasons: Vec<String>,
}

/// What a neuron may use of the machine. Absent means the driver's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeuronLimits {
    /// Memory in bytes; what is beyond is killed.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Processor time in thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// What it may write to its own disk, in bytes.
    pub disk_bytes: Option<u64>,
}

/// One host, or many, that a neuron may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRule {
    /// `api.example.com`, or `*.example.com` for every name beneath it.
    pub host: String,
    /// The port; 443 and 80 where absent.
    pub port: Option<u16>,
    /// The HTTP methods that are allowed; all where empty. Needs a credential rule or plain HTTP,
    /// since methods inside of TLS are not seen otherwise.
    pub methods: Vec<String>,
    /// Whether the host may be on this machine or in a private network.
    pub allows_private: bool,
}

/// A secret that the proxy adds to requests, outside of the neuron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressCredential {
    /// The host, spelled as in [`EgressRule`]. TLS to it ends at the proxy.
    pub host: String,
    /// The header that is set, for example `authorization`.
    pub header: String,
    /// What stands before the secret there, for example `Bearer ` with the space.
    pub prefix: String,
    /// The secret. Whatever the neuron sends in this header is replaced.
    pub value: stdx::Secret<String>,
    /// The variable under which commands see a placeholder, so that clients that insist on a key
    /// have one.
    pub variable: Option<String>,
}

/// What a neuron may reach. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// The hosts.
    pub allow: Vec<EgressRule>,
    /// The secrets that are added.
    pub credentials: Vec<EgressCredential>,
}

/// A request of a neuron, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressEvent {
    /// The neuron.
    pub neuron: NeuronId,
    /// When.
    pub at: Timestamp,
    /// The method: `CONNECT` where no more is seen.
    pub method: String,
    /// The host as it was asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was used, where there was one.
    pub address: Option<std::net::IpAddr>,
    /// Why it was refused; none where it was let through.
    pub refused: Option<String>,
    /// The status of the answer, where it is seen.
    pub status: Option<u16>,
    /// Whether a credential was added.
    pub has_credential: bool,
}

/// Is told of every request that a neuron makes. Must not block.
pub trait EgressAudit: Send + Sync + Debug {
    /// Takes notice of a request, when its answer has begun or it was refused.
    fn saw(&self, event: &EgressEvent);
}

/// A neuron to create.
#[derive(Clone, Debug)]
pub struct NeuronSpec {
    /// Its id.
    pub id: NeuronId,
    /// The driver.
    pub driver: NeuronDriver,
    /// The least isolation that will do; less is refused.
    pub isolation: IsolationLevel,
    /// The folder of the machine that it works in, real and absolute; a fresh one of its own where
    /// absent.
    pub folder: Option<PathBuf>,
    /// Where writes to that folder go.
    pub writes: Writes,
    /// Variables of its commands.
    pub env: Vec<(String, String)>,
    /// What it may use.
    pub limits: NeuronLimits,
    /// What it may reach.
    pub egress: Egress,
}

/// What a neuron is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeuronState {
    /// It is being created.
    Starting,
    /// Its first process lives.
    Running,
    /// Its first process is gone; its files are still there.
    Stopped,
}

impl NeuronState {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            NeuronState::Starting => "starting",
            NeuronState::Running => "running",
            NeuronState::Stopped => "stopped",
        }
    }
}

/// A neuron as one sees it from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronInfo {
    /// Its id.
    pub id: NeuronId,
    /// What it is doing.
    pub state: NeuronState,
    /// When it was started; where the state file is lost, when its folder was made.
    pub created_at: Timestamp,
    /// The driver; none where only its folder is left.
    pub driver: Option<NeuronDriver>,
    /// The isolation that is in force; none where it is not known.
    pub isolation: Option<Isolation>,
    /// Its first process as the host sees it, while it runs.
    pub pid: Option<u32>,
    /// The working folder as commands inside see it.
    pub workspace: Option<PathBuf>,
    /// The folder of the machine that it was made over.
    pub folder: Option<PathBuf>,
    /// Where writes to that folder go.
    pub writes: Writes,
    /// The living process that owns it, if that is another one.
    pub owner_pid: Option<u32>,
}

/// What happened to a path of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayChange {
    /// It was not there before.
    Added,
    /// It holds something else.
    Changed,
    /// It is gone.
    Removed,
}

/// A path that differs between a neuron and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayEntry {
    /// Relative to the folder.
    pub path: PathBuf,
    /// What happened.
    pub change: OverlayChange,
}

/// How to bring what a neuron's own layer changes over to its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BringOver {
    /// Whether paths that changed in the folder as well, and files that tools outside execute by
    /// themselves, are brought over too.
    pub is_forced: bool,
    /// Whether to look only.
    pub is_dry: bool,
}

/// What a path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing is there.
    Nothing,
    /// A text that is small enough to be shown.
    Text(String),
    /// A file of this many bytes that is no text, or too large to be shown.
    Bytes(u64),
    /// A symbolic link, with where it leads.
    Link(String),
    /// A folder.
    Folder,
    /// A device, a socket or a pipe.
    Other,
}

/// A path that was brought over, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroughtPath {
    /// Relative to the folder.
    pub path: PathBuf,
    /// What happens to it.
    pub change: OverlayChange,
    /// What the folder held.
    pub old: Held,
    /// What it holds now, or would.
    pub new: Held,
}

/// What was brought over, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroughtOver {
    /// The paths, each with what it held and holds; by path, folders before what is in them.
    pub changed: Vec<BroughtPath>,
    /// The paths that were left as they are in the folder, with the reason.
    pub kept: Vec<Kept>,
}

/// Why a neuron cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NeuronError {
    /// No such neuron.
    #[error("there is no neuron {0}")]
    NotFound(NeuronId),
    /// It runs, or is being created, in this process.
    #[error("neuron {0} exists")]
    Exists(NeuronId),
    /// Another living process owns it.
    #[error("neuron {0} runs under process {1}")]
    OwnedElsewhere(NeuronId, u32),
    /// Its first process is gone.
    #[error("neuron {0} does not run")]
    NotRunning(NeuronId),
    /// The machine cannot do what was asked for; the text says what is missing.
    #[error("{0}")]
    NotSupported(String),
    /// As many as may be are there.
    #[error("{0}")]
    Capacity(String),
    /// A value of the request is wrong; the text names it.
    #[error("{0}")]
    Invalid(String),
    /// Its workspace refused.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Our own failure.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Keeps neurons. They live longer than the process that created them; every process with the
/// same home sees all of them.
#[async_trait]
pub trait Neurons: Send + Sync + Debug {
    /// Tells what this machine can do. Probed once.
    async fn isolation(&self, driver: NeuronDriver) -> Isolation;

    /// Creates a neuron, in place of one of that id that is stopped. Returns when commands can
    /// run in it. What was begun is undone when it fails, and when the future is dropped.
    ///
    /// # Errors
    /// [`NeuronError::Exists`], [`NeuronError::OwnedElsewhere`], [`NeuronError::NotSupported`],
    /// [`NeuronError::Capacity`], [`NeuronError::Invalid`].
    async fn create(&self, spec: NeuronSpec) -> Result<NeuronInfo, NeuronError>;

    /// Lists all neurons of this home, by id: those of this process, those that state files name,
    /// and those of which only the folder is left.
    ///
    /// # Errors
    /// A fault when the folder of neurons cannot be read.
    async fn list(&self) -> Result<Vec<NeuronInfo>, NeuronError>;

    /// Returns one neuron.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`].
    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, NeuronError>;

    /// Opens a folder of a neuron, its working folder where `cwd` is absent. A neuron whose owner
    /// is gone becomes this process's.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`], [`NeuronError::NotRunning`], [`NeuronError::OwnedElsewhere`],
    /// [`NeuronError::Workspace`] when the folder cannot be entered.
    async fn workspace(
        &self,
        neuron: &NeuronId,
        cwd: Option<&str>,
    ) -> Result<Arc<dyn Workspace>, NeuronError>;

    /// Ends a neuron with all that runs in it and removes its files, whoever owns it. What was
    /// written through to a folder of the machine stays.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`].
    async fn destroy(&self, neuron: &NeuronId) -> Result<(), NeuronError>;

    /// Makes a neuron that begins with the files of another one as they are now. The other one
    /// stands still meanwhile and goes on.
    ///
    /// # Errors
    /// As [`Neurons::create`] and [`Neurons::workspace`]; [`NeuronError::NotSupported`] where the
    /// neuron has no layer of its own.
    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, NeuronError>;

    /// Lists what a neuron's own layer changes of its folder, by path, at most 10,000 entries.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`], [`NeuronError::NotSupported`] without a folder or a layer.
    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError>;

    /// Ends everything that runs in a neuron and keeps its files. One that is stopped stays so.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`], [`NeuronError::OwnedElsewhere`].
    async fn stop(&self, neuron: &NeuronId) -> Result<(), NeuronError> {
        Err(NeuronError::NotSupported(format!("neuron {neuron} cannot be stopped here")))
    }

    /// Starts a neuron again that is stopped, with the files that it has and as it was made. One
    /// that runs is left as it is. When it fails the files are kept.
    ///
    /// # Errors
    /// [`NeuronError::NotFound`], [`NeuronError::OwnedElsewhere`], [`NeuronError::NotSupported`]
    /// where less isolation than it had would be in force, or its files are gone;
    /// [`NeuronError::Capacity`].
    async fn start(&self, neuron: &NeuronId) -> Result<NeuronInfo, NeuronError> {
        Err(NeuronError::NotSupported(format!("neuron {neuron} cannot be started again here")))
    }

    /// Brings what a neuron's own layer changes of its folder over to the folder, and stops the
    /// neuron for that. Each path is written in one step and no link is followed; where it fails
    /// in the middle the layer still holds everything, and doing it again goes on.
    ///
    /// # Errors
    /// As [`Neurons::changes`]; [`NeuronError::OwnedElsewhere`]; [`NeuronError::NotSupported`]
    /// beyond 100,000 changed paths.
    async fn bring_over(
        &self,
        neuron: &NeuronId,
        how: BringOver,
    ) -> Result<BroughtOver, NeuronError> {
        let _ = how;
        Err(NeuronError::NotSupported(format!("neuron {neuron} has no layer of its own")))
    }

    /// Lets go of the neurons of this process; they run on.
    async fn close(&self);
}
