//! What one may ask of neurons, beside the sessions that act in them.
//!
//! The caller is a person or speaks for one: a question of the policy counts as answered with yes,
//! what a layer denies stays denied, checks are asked as for any call, and nothing has to be read
//! before it is changed. Hooks are told of what happens in sessions, and there is none: they hear
//! nothing of these calls.

mod check;
mod command;
mod exec;
mod install;
mod stop;
mod tools;
mod wanted;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    CallFacts, Checks, Clock, Egress, Ids, Isolation, IsolationLevel, NeuronDriver, NeuronError,
    NeuronInfo, NeuronLimits, NeuronState, Neurons, OverlayEntry, Tool, Workspace, WorkspaceError,
};
use policy::{Decision, Homes};
use protocol::{Mode, NeuronId, Refusal, RefusalCode, encode_id};
use runtime_api::neuron::{
    CreateNeuron, Exec, Executed, Install, NeuronHandle, NeuronRuntime, ToolListing, ToolRan,
    ToolRun,
};
use runtime_api::{Error, Handle};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::engine::Policies;
use crate::engine::calls::PathLocks;
use crate::engine::gate::{Judge, homes};
use crate::engine::toolbox::Toolbox;

/// Characters of a neuron's id: it names folders and sockets, whose paths are short.
const ID_CHARS_MAX: usize = 64;

/// Commands, tools and installations that run in neurons at once: each may keep two megabytes of
/// output in memory.
const COMMANDS_MAX: usize = 128;

/// What neurons are built of.
#[derive(Debug)]
pub struct NeuronOptions {
    /// Where they are kept.
    pub neurons: Arc<dyn Neurons>,
    /// The tools that may be run in them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The layers of policy.
    pub policies: Policies,
    /// The checks of pending changes, if there are any.
    pub checks: Option<Arc<dyn Checks>>,
    /// What is absent from a neuron that is to be created.
    pub defaults: NeuronDefaults,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn Ids>,
    /// The folder for outputs that are too long; a folder `neurons/ID` beneath it each.
    pub spill: PathBuf,
    /// The home folder for rules that begin with `~/`.
    pub user_home: Option<PathBuf>,
    /// The sessions whose turns are stopped before their neuron is destroyed.
    pub sessions: Option<Handle>,
}

/// What a neuron is where its creator says nothing.
#[derive(Clone, Debug)]
pub struct NeuronDefaults {
    /// The driver.
    pub driver: NeuronDriver,
    /// The least isolation that will do.
    pub isolation: IsolationLevel,
    /// What it may use, field by field.
    pub limits: NeuronLimits,
    /// What it may reach.
    pub egress: Egress,
    /// Variables of its commands; those of its creator win.
    pub env: Vec<(String, String)>,
}

/// Makes what doors ask of neurons. Nothing runs until it is asked.
pub fn neuron_runtime(options: NeuronOptions) -> NeuronHandle {
    let toolbox = Toolbox::new(options.tools.clone(), Vec::new());
    let (path_locks, commands) = (PathLocks::default(), Semaphore::new(COMMANDS_MAX));
    NeuronHandle::new(Arc::new(House { options, toolbox, path_locks, commands }))
}

/// All neurons.
#[derive(Debug)]
struct House {
    options: NeuronOptions,
    toolbox: Toolbox,
    path_locks: PathLocks,
    /// How many more commands may begin.
    commands: Semaphore,
}

impl House {
    /// Lets one more command, tool or installation begin.
    ///
    /// # Errors
    /// `no_capacity`.
    fn admit(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.commands.try_acquire().map_err(|_| {
            let text = format!("{COMMANDS_MAX} commands run in neurons, the most that may at once");
            Refusal::new(RefusalCode::NoCapacity, text)
        })
    }

    /// Opens the working folder of a neuron.
    async fn enter(&self, neuron: &NeuronId) -> Result<Arc<dyn Workspace>, Error> {
        known(neuron)?;
        self.options.neurons.workspace(neuron, None).await.map_err(refused)
    }

    /// Returns the folder and the home folders that rules are about in a neuron.
    fn grounds<'a>(&'a self, workspace: &'a dyn Workspace) -> (&'a Path, Homes<'a>) {
        (workspace.cwd(), homes(workspace, self.options.user_home.as_deref()))
    }

    /// Refuses what a layer of policy denies.
    fn pass(
        &self,
        tool: &str,
        facts: &CallFacts,
        (cwd, homes): (&Path, Homes<'_>),
        lent: &Path,
    ) -> Result<(), Refusal> {
        let policy = self.options.policies.current();
        // The widest mode: the policy takes the widest that it lets for it.
        let judge = Judge { policy: &policy, mode: Mode::FullAuto, cwd, homes, lent };
        let verdict = judge.with(tool, facts, |policy, mode, call| policy.judge(mode, call));
        match verdict.decision {
            Decision::Allow | Decision::Ask => Ok(()),
            Decision::Deny => {
                let message = format!("{tool} is denied: {}", verdict.reason);
                Err(Refusal::new(RefusalCode::LockedByPolicy, message))
            }
        }
    }

    /// Says why something broke off in a neuron: mostly because it is not there any more.
    async fn broken(&self, neuron: &NeuronId, error: WorkspaceError) -> Error {
        match self.options.neurons.info(neuron).await {
            Ok(NeuronInfo { owner_pid: Some(pid), .. }) => {
                refused(NeuronError::OwnedElsewhere(neuron.clone(), pid))
            }
            Ok(info) if info.state == NeuronState::Stopped => {
                refused(NeuronError::NotRunning(neuron.clone()))
            }
            Err(gone @ NeuronError::NotFound(_)) => refused(gone),
            Ok(_) | Err(_) => refused(error.into()),
        }
    }

    fn spill_of(&self, neuron: &NeuronId) -> PathBuf {
        self.options.spill.join("neurons").join(neuron.as_str())
    }

    fn fresh_id(&self) -> String {
        encode_id(self.options.ids.id())
    }
}

/// Tells whether a text can be a neuron's id. What cannot never reaches a file system.
fn is_id(id: &NeuronId) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let text = id.as_str();
    (1..=ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Refuses what cannot be the id of a neuron that is there.
fn known(neuron: &NeuronId) -> Result<(), Refusal> {
    if is_id(neuron) {
        return Ok(());
    }
    let shown: String = neuron.as_str().chars().take(ID_CHARS_MAX).collect();
    Err(Refusal::new(RefusalCode::NeuronNotFound, format!("there is no neuron {shown:?}")))
}

/// Refuses what cannot be the id of a new neuron.
fn check_id(field: &str, neuron: &NeuronId) -> Result<(), Refusal> {
    let text = format!("{field}: expected 1 to {ID_CHARS_MAX} letters, digits, '_' and '-'");
    if is_id(neuron) { Ok(()) } else { Err(invalid(text)) }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Invalid, message)
}

/// Turns a driver's no into the caller's.
fn refused(error: NeuronError) -> Error {
    let code = match error {
        NeuronError::Fault(fault) | NeuronError::Workspace(WorkspaceError::Fault(fault)) => {
            return Error::Fault(fault);
        }
        NeuronError::NotFound(_) => RefusalCode::NeuronNotFound,
        NeuronError::Exists(_) => RefusalCode::NeuronExists,
        NeuronError::OwnedElsewhere(..) => RefusalCode::OwnedElsewhere,
        NeuronError::NotRunning(_) => RefusalCode::NeuronNotRunning,
        NeuronError::NotSupported(_) => RefusalCode::NotSupported,
        NeuronError::Capacity(_) => RefusalCode::NoCapacity,
        NeuronError::Invalid(_) | NeuronError::Workspace(_) => RefusalCode::Invalid,
    };
    Refusal::new(code, error.to_string()).into()
}

#[async_trait]
impl NeuronRuntime for House {
    async fn isolation(&self, driver: Option<NeuronDriver>) -> Isolation {
        let driver = driver.unwrap_or(self.options.defaults.driver);
        self.options.neurons.isolation(driver).await
    }

    async fn create(&self, neuron: CreateNeuron) -> Result<NeuronInfo, Error> {
        let spec = self.wanted(neuron).await?;
        self.options.neurons.create(spec).await.map_err(refused)
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, Error> {
        self.options.neurons.list().await.map_err(refused)
    }

    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, Error> {
        known(neuron)?;
        self.options.neurons.info(neuron).await.map_err(refused)
    }

    async fn destroy(&self, neuron: &NeuronId) -> Result<(), Error> {
        self.info(neuron).await?;
        self.stop_turns(neuron).await;
        self.options.neurons.destroy(neuron).await.map_err(refused)?;
        stop::remove_outputs(self.spill_of(neuron)).await;
        Ok(())
    }

    async fn exec(&self, neuron: &NeuronId, exec: Exec) -> Result<Executed, Error> {
        self.execute(neuron, exec).await
    }

    async fn run_tool(&self, neuron: &NeuronId, run: ToolRun) -> Result<ToolRan, Error> {
        self.run_named(neuron, run).await
    }

    fn tools(&self, offered: &[String]) -> Vec<ToolListing> {
        self.listings(offered)
    }

    async fn install(&self, neuron: &NeuronId, install: Install) -> Result<Executed, Error> {
        self.install_packages(neuron, install).await
    }

    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, Error> {
        known(from)?;
        check_id("to", &to)?;
        self.options.neurons.fork(from, to).await.map_err(refused)
    }

    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, Error> {
        known(neuron)?;
        self.options.neurons.changes(neuron).await.map_err(refused)
    }
}
