//! What one may ask of neurons.

use std::fmt::Debug;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::{Effect, NeuronId};
use serde_json::{Map, Value};

use crate::Error;

pub use driver_api::{
    BringOver, BroughtOver, BroughtPath, Egress, Held, Isolation, IsolationLevel, Kept,
    NeuronDriver, NeuronInfo, NeuronLimits, NeuronState, OverlayChange, OverlayEntry, Writes,
};

/// Everything one may ask of neurons. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NeuronHandle(Arc<dyn NeuronRuntime>);

impl NeuronHandle {
    /// Wraps a runtime of neurons.
    pub fn new(runtime: Arc<dyn NeuronRuntime>) -> Self {
        Self(runtime)
    }
}

impl Deref for NeuronHandle {
    type Target = dyn NeuronRuntime;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A neuron to create. What is absent is what the settings say.
#[derive(Clone, Debug)]
pub struct CreateNeuron {
    /// Its id: 1 to 64 letters, digits, `_` and `-`.
    pub id: NeuronId,
    /// The driver.
    pub driver: Option<NeuronDriver>,
    /// The least isolation that will do.
    pub isolation: Option<IsolationLevel>,
    /// The folder of the machine that it works in; a fresh one where absent.
    pub folder: Option<PathBuf>,
    /// Where writes to that folder go.
    pub writes: Writes,
    /// Variables of its commands: at most 64.
    pub env: Vec<(String, String)>,
    /// What it may use.
    pub limits: NeuronLimits,
    /// What it may reach.
    pub egress: Option<Egress>,
}

impl CreateNeuron {
    /// Asks for a neuron as the settings make it.
    pub fn new(id: NeuronId) -> Self {
        Self {
            id,
            driver: None,
            isolation: None,
            folder: None,
            writes: Writes::default(),
            env: Vec::new(),
            limits: NeuronLimits::default(),
            egress: None,
        }
    }
}

/// The language of a piece of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeLanguage {
    /// `bash`.
    #[default]
    Bash,
    /// `sh`.
    Sh,
    /// `python3`.
    Python,
    /// `node`.
    JavaScript,
}

/// Code to run in a neuron.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The code: 1 to 100,000 characters.
    pub code: String,
    /// Its language.
    pub language: CodeLanguage,
    /// After how long it is ended, in milliseconds: 100 to 600,000.
    pub timeout_ms: u64,
    /// The folder; the neuron's working folder where absent.
    pub cwd: Option<String>,
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// What it wrote to standard output: at most 1 MiB, the end of it.
    pub stdout: String,
    /// What it wrote to standard error: at most 1 MiB, the end of it.
    pub stderr: String,
    /// Its exit code, 128 and the number of the signal where one ended it; none after a time-out.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Whether the time-out ended it.
    pub timed_out: bool,
    /// Whether a beginning of an output is left out.
    pub truncated: bool,
}

/// A tool to run in a neuron, outside of any session.
#[derive(Clone, Debug)]
pub struct ToolRun {
    /// Its name.
    pub tool: String,
    /// Its arguments.
    pub input: Map<String, Value>,
    /// The tools that may be named.
    pub offered: Vec<String>,
}

/// What came of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRan {
    /// What a model would read.
    pub output: String,
    /// Whether it failed.
    pub is_error: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A tool as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolListing {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The highest effect that a call may have.
    pub effect: Effect,
    /// Whether sessions ask for every call of it, whatever they allow.
    pub is_always_asked: bool,
}

/// A package manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackageManager {
    /// Debian's.
    #[default]
    Apt,
    /// Python's.
    Pip,
    /// JavaScript's.
    Npm,
}

/// Packages to install in a neuron.
#[derive(Clone, Debug)]
pub struct Install {
    /// With which manager.
    pub manager: PackageManager,
    /// The packages: 1 to 50.
    pub packages: Vec<String>,
    /// After how long it is given up, in milliseconds: at most 1,800,000.
    pub timeout_ms: u64,
}

/// What a runtime does with neurons. Doors hold it as a [`NeuronHandle`].
///
/// Every method may answer [`Error::Fault`]; the list of each names the refusals beside.
#[async_trait]
pub trait NeuronRuntime: Send + Sync + Debug {
    /// Tells what this machine can do with the driver that the settings name, or another one.
    async fn isolation(&self, driver: Option<NeuronDriver>) -> Isolation;

    /// Creates a neuron, in place of one of that id that is stopped.
    ///
    /// # Errors
    /// `neuron_exists`, `owned_elsewhere`, `not_supported`, `no_capacity`, `invalid`.
    async fn create(&self, neuron: CreateNeuron) -> Result<NeuronInfo, Error>;

    /// Lists all neurons of this home, by id.
    ///
    /// # Errors
    /// None but faults.
    async fn list(&self) -> Result<Vec<NeuronInfo>, Error>;

    /// Returns one neuron.
    ///
    /// # Errors
    /// `neuron_not_found`.
    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, Error>;

    /// Ends a neuron and removes its files, whichever process owns it. Turns that run in it are
    /// stopped first.
    ///
    /// # Errors
    /// `neuron_not_found`.
    async fn destroy(&self, neuron: &NeuronId) -> Result<(), Error>;

    /// Runs code. A code that fails is an answer, no error.
    ///
    /// # Errors
    /// `neuron_not_found`, `neuron_not_running`, `owned_elsewhere`, `invalid` (folder; a language
    /// that is not there), `locked_by_policy`.
    async fn exec(&self, neuron: &NeuronId, exec: Exec) -> Result<Executed, Error>;

    /// Runs a tool. Deny rules of policies hold; nobody is asked, since the caller is the one who
    /// would be.
    ///
    /// # Errors
    /// As [`NeuronRuntime::exec`]; `invalid` for a tool that is not offered and for arguments that
    /// its schema refuses, with a sentence for each.
    async fn run_tool(&self, neuron: &NeuronId, run: ToolRun) -> Result<ToolRan, Error>;

    /// Lists tools by name, in the order in which models see them; names that nothing has are
    /// left out.
    fn tools(&self, offered: &[String]) -> Vec<ToolListing>;

    /// Installs packages through the neuron's egress.
    ///
    /// # Errors
    /// As [`NeuronRuntime::exec`]; `not_supported` where this neuron cannot, with the reason.
    async fn install(&self, neuron: &NeuronId, install: Install) -> Result<Executed, Error>;

    /// Copies a neuron's files as they are now into a new one.
    ///
    /// # Errors
    /// As [`NeuronRuntime::create`] and [`NeuronRuntime::exec`].
    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, Error>;

    /// Lists what a neuron changed of its folder.
    ///
    /// # Errors
    /// `neuron_not_found`, `not_supported`.
    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, Error>;
}
