//! The driver as one value: what all its parts need.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driver_api::{Clock, EgressCredential, Fault, NeuronError};
use protocol::NeuronId;
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::egress::EgressGate;
use super::home::Home;
use super::launch::Launcher;
use super::lock::Lock;
use super::owned::Owned;
use super::warm::Pool;

/// How many troubles are remembered as told.
const TOLD_MAX: usize = 1_000;

/// What every part of the driver shares.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) home: Home,
    /// Narthex's own folder.
    pub(super) root: PathBuf,
    pub(super) launcher: Launcher,
    pub(super) neurons_max: usize,
    /// The first user id of the pool; absent where this process cannot give users away.
    pub(super) uid_base: Option<u32>,
    pub(super) gate: Option<Arc<dyn EgressGate>>,
    /// The secrets that this process knows.
    pub(super) credentials: Vec<EgressCredential>,
    pub(super) pool: Pool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) isolation: OnceCell<driver_api::Isolation>,
    owned: Mutex<HashMap<NeuronId, Arc<Owned>>>,
    /// Held while a neuron is taken over, so that two who want the same one do not meet.
    pub(super) taking_over: tokio::sync::Mutex<()>,
    pub(super) tasks: TaskTracker,
    /// Whether every neuron was looked at once.
    pub(super) has_looked: AtomicBool,
    /// What was said already of neurons that cannot be looked at or removed: it is found again
    /// with each list.
    told: Mutex<BTreeSet<String>>,
}

impl Driver {
    pub(super) fn new(options: super::NeuronOptions) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let pool = Pool::new(options.warm, options.usual_limits, &options.usual_egress);
        Self {
            home: Home::new(&options.home),
            root: options.home,
            launcher: Launcher {
                command: options.command,
                open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            },
            neurons_max: options.neurons_max,
            uid_base: is_root.then_some(options.uid_base),
            gate: options.egress,
            credentials: options.usual_egress.credentials,
            pool,
            clock: options.clock,
            isolation: OnceCell::new(),
            owned: Mutex::new(HashMap::new()),
            taking_over: tokio::sync::Mutex::new(()),
            tasks: TaskTracker::new(),
            has_looked: AtomicBool::new(false),
            told: Mutex::new(BTreeSet::new()),
        }
    }

    /// Takes the lock of whoever changes a neuron, or tells who has it. Only for a neuron that may
    /// be there: the folder of locks is made.
    pub(super) fn change(
        &self,
        id: &NeuronId,
        time: Duration,
    ) -> Result<Result<Lock, u32>, NeuronError> {
        let lock = self.home.make().and_then(|()| Lock::wait(&self.home.change_lock(id), time));
        lock.map_err(failed(format!("lock neuron {id}")))
    }

    /// Tells of a trouble with one neuron that is no reason to fail for all others, once.
    pub(super) fn complain(&self, id: &NeuronId, error: &dyn Display) {
        let text = format!("neuron {id}: {error}");
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(text.clone()) {
            tracing::warn!("{text}");
        }
    }

    /// The neurons of this process.
    pub(super) fn owned(&self) -> MutexGuard<'_, HashMap<NeuronId, Arc<Owned>>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work that blocks where it may.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NeuronError> + Send + 'static,
) -> Result<T, NeuronError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::with("work on neurons", error))?
}

/// Makes a fault of a failure of the system.
pub(super) fn failed<E>(what: impl Display) -> impl FnOnce(E) -> NeuronError
where
    io::Error: From<E>,
{
    move |error| Fault::with(what.to_string(), io::Error::from(error)).into()
}
