//! Neurons: sandboxes with a life of their own, each below a folder of the home.
//!
//! What is on disk is the truth: state files, and locks that the system takes back when their
//! holder dies. So any process with the same home sees the same neurons, takes over one whose
//! owner died, and removes what a crash left. The first process of a neuron is the agent's program
//! (`agent::neuron`), met at a Unix socket.

mod bring_over;
mod changes;
mod check;
mod copy;
mod creation;
mod disk;
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
mod revive;
mod seen;
mod start;
mod state;
mod warm;
mod workspace;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    BringOver, BroughtOver, Clock, Egress, Isolation, IsolationLevel, NeuronDriver, NeuronError,
    NeuronInfo, NeuronLimits, NeuronSpec, Neurons, OverlayEntry, SystemClock, Workspace,
};
use protocol::NeuronId;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::creation::{Fill, Given};
pub(crate) use self::door::{Door, Use};
use self::driver::{Driver, aside, failed};
pub use self::egress::{EgressDoor, EgressGate, EgressPlace};
use self::workspace::NeuronWorkspace;

/// How many neurons may run at once where nothing else is said: each has a few processes of some
/// megabytes.
const NEURONS_MAX: usize = 256;

/// The first user id of the pool: above those of people and services, and above those that are
/// given to people's containers (`/etc/subuid` begins with 100,000, and goes up to 600,100,000) and
/// to those of the system (up to 1,879,048,191): what such a container owns is no neuron's.
const UID_BASE: u32 = 1_900_000_000;

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
    /// How many neurons are kept ready, at most 64, once a first one was asked for that they could
    /// have been: each is a process of about a megabyte, and saves whoever asks for one the few
    /// milliseconds of a start. None where nothing is said.
    pub warm: usize,
    /// What a neuron may usually use: those that are kept ready are made so.
    pub usual_limits: NeuronLimits,
    /// What a neuron may usually reach. Of those that are kept ready this says whether they have a
    /// way out, which is opened when they are given away; and the secrets of a neuron whose owner
    /// died are looked for here, since they are written down nowhere.
    pub usual_egress: Egress,
    /// Tells when a neuron was made.
    pub clock: Arc<dyn Clock>,
}

impl NeuronOptions {
    /// Names the home and the program; all else is as usual: 256 neurons, users from 100,000 on,
    /// no way out, none kept ready, the machine's clock.
    pub fn new(home: PathBuf, command: Vec<OsString>) -> Self {
        Self {
            home,
            command,
            neurons_max: NEURONS_MAX,
            uid_base: UID_BASE,
            egress: None,
            warm: 0,
            usual_limits: NeuronLimits::default(),
            usual_egress: Egress::default(),
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
        fill: Option<Fill>,
    ) -> Result<NeuronInfo, NeuronError> {
        let (tell, told) = oneshot::channel();
        let driver = Arc::clone(&self.driver);
        let _task = self.driver.tasks.spawn(async move {
            let is_usual = driver.pool.fits(&spec);
            let made = driver.make(spec, fill, &tell).await;
            // Also where it was given up: it may have been one of those that are ready.
            if is_usual && (made.is_ok() || driver.pool.can_be_filled()) {
                driver.refill();
            }
            // Where nobody listens any more, it is dropped, and so taken back.
            drop(tell.send(made.map(|info| Given::new(&driver, info))));
        });
        told.await.map_err(|error| driver_api::Fault::with("create a neuron", error))??.take()
    }
}

#[async_trait]
impl Neurons for NeuronKeeper {
    async fn isolation(&self, driver: NeuronDriver) -> Isolation {
        if driver == NeuronDriver::Host {
            return start::isolation(driver, ::agent::neuron::Layers::NONE, &[]);
        }
        let launcher = &self.driver.launcher;
        let probe = || async {
            let launcher = launcher.clone();
            let probed = tokio::task::spawn_blocking(move || launcher.probe()).await;
            match probed.map_err(io::Error::other).flatten() {
                Ok(probe) => start::isolation(driver, probe.layers, &probe.missing),
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
        self.create_filled(spec, None).await
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, NeuronError> {
        let driver = Arc::clone(&self.driver);
        aside(move || {
            let (mut all, mut abandoned) = (Vec::new(), Vec::new());
            for id in driver.home.ids().map_err(failed("list neurons"))? {
                match seen::info(&driver.home, &id) {
                    Ok(Some(info)) => all.push(info),
                    Ok(None) => abandoned.push(id),
                    Err(error) => driver.complain(&id, &error),
                }
            }
            driver.sweep(&abandoned);
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
        let fill: Fill = Box::new(move |layer, uid| source.copy_into(layer, uid));
        self.create_filled(spec, Some(fill)).await
    }

    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || driver.changes(&id)).await
    }

    async fn stop(&self, neuron: &NeuronId) -> Result<(), NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || driver.stop(&id)).await
    }

    async fn start(&self, neuron: &NeuronId) -> Result<NeuronInfo, NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        // Seen through: a launcher that nobody waits for would leave half a neuron.
        let started = self.driver.tasks.spawn(async move { driver.start_again(&id).await });
        started.await.map_err(|error| driver_api::Fault::with("start a neuron again", error))?
    }

    async fn bring_over(
        &self,
        neuron: &NeuronId,
        how: BringOver,
    ) -> Result<BroughtOver, NeuronError> {
        check::id(neuron)?;
        let (driver, id) = (Arc::clone(&self.driver), neuron.clone());
        aside(move || driver.bring_over(&id, how)).await
    }

    async fn close(&self) {
        self.driver.close_pool().await;
        let owned: Vec<_> = self.driver.owned().drain().map(|(_, owned)| owned).collect();
        // At once: one that is silent has its time, and all of them together no more than one.
        let mut closing = JoinSet::new();
        for neuron in owned {
            closing.spawn(async move { neuron.means.agent.close().await });
        }
        closing.join_all().await;
    }
}
