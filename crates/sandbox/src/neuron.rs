//! Neurons: sandboxes with a life of their own, each below a folder of the home.
//!
//! What is on disk is the truth: state files, and locks that the system takes back when their
//! holder dies. So any process with the same home sees the same neurons, takes over one whose
//! owner died, and removes what a crash left. The first process of a neuron is the agent's program
//! (`agent::neuron`), met at a Unix socket.

mod changes;
mod check;
mod copy;
mod creation;
mod door;
mod driver;
mod egress;
mod ending;
mod files;
mod fork;
mod freeze;
mod home;
mod launch;
mod lock;
mod owned;
mod place;
mod process;
mod remove;
mod seen;
mod state;
mod workspace;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Clock, Isolation, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec, Neurons,
    OverlayEntry, SystemClock, Workspace,
};
use protocol::NeuronId;
use tokio::sync::oneshot;

pub(crate) use self::door::{Door, Use};
use self::driver::{Driver, aside, failed};
pub use self::egress::{EgressDoor, EgressGate};
use self::workspace::NeuronWorkspace;

/// How many neurons may run at once where nothing else is said: each has a few processes of some
/// megabytes.
const NEURONS_MAX: usize = 256;

/// The first user id of the pool: above those of people and services.
const UID_BASE: u32 = 100_000;

/// Where neurons are and what they are made with.
#[derive(Clone, Debug)]
pub struct NeuronOptions {
    /// Narthex's own folder; neurons are below `neurons` in it. It need not exist.
    pub home: PathBuf,
    /// The agent's program and its arguments, as for [`crate::AgentOptions`].
    pub command: Vec<OsString>,
    /// How many may run at once, over all processes with this home.
    pub neurons_max: usize,
    /// The first user id of the pool that each neuron gets one of, where this process is root.
    pub uid_base: u32,
    /// Who opens ways out. Without one, no neuron that is kept apart reaches anything.
    pub egress: Option<Arc<dyn EgressGate>>,
    /// Tells when a neuron was made.
    pub clock: Arc<dyn Clock>,
}

impl NeuronOptions {
    /// Names the home and the program; all else is as usual: 256 neurons, users from 100,000 on,
    /// no way out, the machine's clock.
    pub fn new(home: PathBuf, command: Vec<OsString>) -> Self {
        Self {
            home,
            command,
            neurons_max: NEURONS_MAX,
            uid_base: UID_BASE,
            egress: None,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// Makes the driver of neurons. Nothing is touched yet.
pub fn neurons(options: NeuronOptions) -> Arc<dyn Neurons> {
    Arc::new(NeuronKeeper { driver: Arc::new(Driver::new(options)) })
}

#[derive(Debug)]
struct NeuronKeeper {
    driver: Arc<Driver>,
}

impl NeuronKeeper {
    /// Runs a creation to its end, and takes back what nobody waits for any more.
    async fn create_filled(
        &self,
        spec: NeuronSpec,
        fill: impl FnOnce(&Path, Option<u32>) -> Result<(), NeuronError> + Send + 'static,
    ) -> Result<NeuronInfo, NeuronError> {
        let (tell, told) = oneshot::channel();
        let driver = Arc::clone(&self.driver);
        let _task = self.driver.tasks.spawn(async move {
            let id = spec.id.clone();
            let made = driver.make(spec, fill, &tell).await;
            if let Err(Ok(_)) = tell.send(made)
                && let Err(error) = aside(move || driver.destroy(&id)).await
            {
                tracing::warn!(%error, "a neuron that nobody waited for was not removed");
            }
        });
        told.await.map_err(|error| driver_api::Fault::with("create a neuron", error))?
    }
}

#[async_trait]
impl Neurons for NeuronKeeper {
    async fn isolation(&self, driver: NeuronDriver) -> Isolation {
        if driver == NeuronDriver::Host {
            return creation::isolation(driver, ::agent::neuron::Layers::NONE, &[]);
        }
        let launcher = &self.driver.launcher;
        let probe = || async {
            let launcher = launcher.clone();
            let probed = tokio::task::spawn_blocking(move || launcher.probe()).await;
            match probed.map_err(io::Error::other).flatten() {
                Ok(probe) => creation::isolation(driver, probe.layers, &probe.missing),
                Err(error) => Isolation {
                    level: IsolationLevel::None,
                    layers: Vec::new(),
                    reasons: vec![format!("this machine could not be probed: {error}")],
                },
            }
        };
        self.driver.isolation.get_or_init(probe).await.clone()
    }

    async fn create(&self, spec: NeuronSpec) -> Result<NeuronInfo, NeuronError> {
        self.create_filled(spec, |_, _| Ok(())).await
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, NeuronError> {
        let driver = Arc::clone(&self.driver);
        aside(move || {
            let (mut all, mut abandoned) = (Vec::new(), Vec::new());
            for id in driver.home.ids().map_err(failed("list neurons"))? {
                let info = seen::info(&driver.home, &id);
                match info.map_err(failed(format!("look at neuron {id}")))? {
                    Some(info) => all.push(info),
                    None => abandoned.push(id),
                }
            }
            driver.sweep(&abandoned)?;
            Ok(all)
        })
        .await
    }

    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || {
            let info = seen::info(&driver.home, &id);
            info.map_err(failed(format!("look at neuron {id}")))?.ok_or(NeuronError::NotFound(id))
        })
        .await
    }

    async fn workspace(
        &self,
        neuron: &NeuronId,
        cwd: Option<&str>,
    ) -> Result<Arc<dyn Workspace>, NeuronError> {
        check::id(neuron)?;
        let owned = self.driver.own(neuron).await?;
        let places = (owned.folder.as_path(), owned.home.as_path());
        let means = owned.means.clone();
        let files = Arc::clone(&means.files);
        match NeuronWorkspace::open(means, places, owned.environment(), cwd).await {
            Ok(workspace) => Ok(Arc::new(workspace)),
            // One that dies is silent before it is gone.
            Err(_) if !owned.is_running() || !files.is_met().await => {
                Err(NeuronError::NotRunning(neuron.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn destroy(&self, neuron: &NeuronId) -> Result<(), NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || driver.destroy(&id)).await
    }

    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, NeuronError> {
        check::id(from)?;
        check::id(&to)?;
        if *from == to {
            return Err(NeuronError::Exists(to));
        }
        let (driver, id) = (Arc::clone(&self.driver), from.clone());
        let (spec, source) = aside(move || driver.fork_source(&id, to)).await?;
        self.create_filled(spec, move |layer, uid| source.copy_into(layer, uid)).await
    }

    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || driver.changes(&id)).await
    }

    async fn close(&self) {
        let owned: Vec<_> = self.driver.owned().drain().map(|(_, owned)| owned).collect();
        for neuron in owned {
            neuron.means.agent.close().await;
        }
    }
}
