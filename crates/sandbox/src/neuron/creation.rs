//! The making of a neuron, step by step, and how each step is taken back.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::agent::neuron as plan;
use driver_api::{Fault, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec};
use protocol::NeuronId;

use super::driver::{Driver, aside, failed};
use super::egress::{self, EgressGate, EgressPlace};
use super::home::{Folder, make_folder};
use super::lock::Lock;
use super::owned::{Owned, WayOut};
use super::place::Taken;
use super::start::Start;
use super::state::{Phase, State};
use super::{check, disk, seen};

/// How long to wait for others who look for a place: each takes milliseconds.
const PLACES_TIME: Duration = Duration::from_secs(30);

/// The home folder inside of a neuron that is kept apart.
pub(super) const HOME: &str = "/home/neuron";

/// Puts files into the layer of a neuron that is being made, for the user that it will have.
pub(super) type Fill = Box<dyn FnOnce(&Path, Option<u32>) -> Result<(), NeuronError> + Send>;

/// A creation under way. Nobody else changes this neuron as long as it is there.
#[derive(Debug)]
pub(super) struct Attempt {
    spec: NeuronSpec,
    lock: Lock,
    made: Made,
}

/// What is there of a neuron that can be seen.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) state: State,
    pub(super) owner: Lock,
    /// What it is shown of its way out.
    pub(super) way: Option<EgressPlace>,
    /// Why its limited disk is in memory.
    pub(super) in_memory: Option<String>,
    /// Whether its first process runs.
    pub(super) is_up: bool,
}

/// Where the one who waits for the neuron is told. When he is gone, it is taken back.
pub(super) type Waiting = tokio::sync::oneshot::Sender<Result<Given, NeuronError>>;

/// A neuron on its way to the one who waits for it. Where it does not arrive, because he left just
/// then, it is taken back.
#[derive(Debug)]
pub(super) struct Given {
    driver: Arc<Driver>,
    info: Option<NeuronInfo>,
}

impl Given {
    pub(super) fn new(driver: &Arc<Driver>, info: NeuronInfo) -> Self {
        Self { driver: Arc::clone(driver), info: Some(info) }
    }

    /// It has arrived.
    pub(super) fn take(mut self) -> Result<NeuronInfo, NeuronError> {
        self.info.take().ok_or_else(|| Fault::new("a neuron was taken twice").into())
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let Some(info) = self.info.take() else { return };
        let driver = Arc::clone(&self.driver);
        let take_back = move || {
            if let Err(error) = driver.destroy(&info.id) {
                tracing::warn!(%error, "a neuron that nobody waited for was not removed");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(take_back)),
            Err(_) => take_back(),
        }
    }
}

impl Driver {
    /// Makes a neuron, which begins with the files that `fill` puts into its layer.
    pub(super) async fn make(
        self: &Arc<Self>,
        spec: NeuronSpec,
        fill: Option<Fill>,
        waiting: &Waiting,
    ) -> Result<NeuronInfo, NeuronError> {
        let driver = Arc::clone(self);
        let attempt = aside(move || driver.begin(spec, fill)).await?;
        let id = attempt.spec.id.clone();
        let (attempt, launched) = self.raise(attempt, waiting).await?;
        let driver = Arc::clone(self);
        match launched {
            Ok(way_out) => aside(move || driver.settle(attempt, way_out)).await,
            Err(error) => {
                let undone = aside(move || {
                    let cleared = driver.clear(&id);
                    drop(attempt.made);
                    attempt.lock.remove();
                    cleared
                });
                if let Err(error) = undone.await {
                    tracing::warn!(%error, "a neuron that could not be created was not removed");
                }
                Err(error)
            }
        }
    }

    /// Checks everything, makes room, and makes the neuron's folder, or takes one that is ready.
    fn begin(&self, spec: NeuronSpec, fill: Option<Fill>) -> Result<Attempt, NeuronError> {
        check::spec(&spec, &self.root)?;
        if !egress::is_closed(&spec.egress)
            && self.gate.is_none()
            && spec.driver == NeuronDriver::Namespace
        {
            let text = "egress needs a proxy, and this process has none: leave egress out";
            return Err(NeuronError::NotSupported(text.to_owned()));
        }
        let id = &spec.id;
        let lock = self.change(id, Duration::ZERO)?;
        let lock = lock.map_err(|pid| {
            if pid == std::process::id() {
                NeuronError::Exists(id.clone())
            } else {
                NeuronError::OwnedElsewhere(id.clone(), pid)
            }
        })?;
        // Whatever is there stays as it is until it is certain that it may go.
        if let Err(error) = self.make_way(id) {
            lock.remove();
            return Err(error);
        }
        let ready = if fill.is_none() { self.take_warm(&spec) } else { Ok(None) };
        match ready.and_then(|ready| ready.map_or_else(|| self.build(&spec, fill), Ok)) {
            Ok(made) => Ok(Attempt { spec, lock, made }),
            Err(error) => {
                // All that is there by now is of this attempt.
                if let Err(error) = self.clear(id) {
                    tracing::warn!(%error, "what was begun of a neuron was not removed");
                }
                lock.remove();
                Err(error)
            }
        }
    }

    /// Puts the folder together where nobody sees it, and then in its place.
    fn build(&self, spec: &NeuronSpec, fill: Option<Fill>) -> Result<Made, NeuronError> {
        let (state, in_memory) = self.stage(spec)?;
        let folder = self.home.staged(&spec.id);
        if let Some(fill) = fill {
            let layer = disk::reach(&folder).map_err(failed("reach the disk of a neuron"))?;
            fill(layer.path(), state.uid)?;
        }
        let has_credentials = !spec.egress.credentials.is_empty();
        let gate = self.gate_of(spec);
        let way = gate.map(|gate| gate.prepare(has_credentials, &folder.egress())).transpose()?;
        let owner = self.publish(&spec.id)?;
        Ok(Made { state, owner, way, in_memory, is_up: false })
    }

    /// Finds a place and makes the folder. Returns why a limited disk is in memory, too.
    fn stage(&self, spec: &NeuronSpec) -> Result<(State, Option<String>), NeuronError> {
        let what = || failed::<io::Error>(format!("make the folder of neuron {}", spec.id));
        let places = self.places()?;
        let taken = self.taken().map_err(what())?;
        taken.has_room(self.neurons_max)?;
        let final_layer = self.home.folder(&spec.id).layer();
        let paths = match spec.driver {
            NeuronDriver::Host => {
                let own = || final_layer.join(plan::layout::WORKSPACE);
                let workspace = spec.folder.clone().unwrap_or_else(own);
                (workspace, final_layer.join(plan::layout::HOME))
            }
            NeuronDriver::Namespace => {
                let workspace = spec.folder.clone().unwrap_or_else(|| plan::WORKSPACE.into());
                (workspace, HOME.into())
            }
        };
        let mut state = State::starting(spec, paths, self.clock.now());
        if let (NeuronDriver::Namespace, Some(base)) = (spec.driver, self.uid_base) {
            state.uid = Some(taken.free_uid(base).map_err(what())?);
        }
        let folder = self.home.staged(&spec.id);
        make_folder(folder.path()).map_err(what())?;
        state.write(folder.path()).map_err(what())?;
        drop(places);
        let in_memory = furnish(&state, &folder).map_err(what())?;
        self.sweep(&taken.abandoned);
        Ok((state, in_memory))
    }

    /// Looks what neurons there are take up: at each of them the first time, which finds those
    /// whose creator died, and whenever there may be no room; at their users alone otherwise, for
    /// there may be hundreds. The lock of places must be held.
    pub(super) fn taken(&self) -> io::Result<Taken> {
        let ids = self.home.ids()?;
        let is_known = self.has_looked.swap(true, Ordering::Relaxed);
        if is_known && ids.len() < self.neurons_max {
            return Taken::users(&self.home, &ids);
        }
        Taken::count(&self.home)
    }

    /// Takes the lock of whoever looks for a place.
    pub(super) fn places(&self) -> Result<Lock, NeuronError> {
        let places = Lock::wait(&self.home.places_lock(), PLACES_TIME);
        places.map_err(failed("look for a place for a neuron"))?.map_err(|pid| {
            Fault::new(format!("process {pid} has been looking for a place for too long")).into()
        })
    }

    /// Puts the neuron in its place, where it can be seen as one that starts.
    fn publish(&self, id: &NeuronId) -> Result<Lock, NeuronError> {
        let what = || failed::<io::Error>(format!("make neuron {id}"));
        let folder = self.home.folder(id);
        std::fs::rename(self.home.staged(id).path(), folder.path()).map_err(what())?;
        let owner = folder.own().map_err(what())?;
        owner.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))
    }

    /// Opens the way out and starts the first process.
    async fn raise(
        self: &Arc<Self>,
        attempt: Attempt,
        waiting: &Waiting,
    ) -> Result<(Attempt, Result<Option<WayOut>, NeuronError>), NeuronError> {
        let gone = || NeuronError::from(Fault::new("nobody waits for the neuron any more"));
        if waiting.is_closed() {
            return Ok((attempt, Err(gone())));
        }
        let way_out = match self.open_egress(&attempt.spec).await {
            Ok(way_out) => way_out,
            Err(error) => return Ok((attempt, Err(error))),
        };
        if waiting.is_closed() {
            return Ok((attempt, Err(gone())));
        }
        let driver = Arc::clone(self);
        let work = move || {
            let mut attempt = attempt;
            let launched = driver.launch(&mut attempt);
            (attempt, launched.map(|()| way_out))
        };
        match tokio::task::spawn_blocking(work).await {
            Ok((attempt, Ok(_))) if waiting.is_closed() => Ok((attempt, Err(gone()))),
            Ok(launched) => Ok(launched),
            // A panic, or the end of the runtime: no lock is held any more, and what is left is
            // what a crash leaves.
            Err(error) => Err(Fault::with("start a neuron", error).into()),
        }
    }

    /// Returns who opens the way out of a neuron that is to have one.
    pub(super) fn gate_of(&self, spec: &NeuronSpec) -> Option<&dyn EgressGate> {
        let has_way = spec.driver == NeuronDriver::Namespace && !egress::is_closed(&spec.egress);
        self.gate.as_deref().filter(|_| has_way)
    }

    async fn open_egress(&self, spec: &NeuronSpec) -> Result<Option<WayOut>, NeuronError> {
        let Some(gate) = self.gate_of(spec) else { return Ok(None) };
        let folder = self.home.folder(&spec.id);
        let what = || failed::<io::Error>(format!("open the way out of neuron {}", spec.id));
        let door = gate.open(&spec.id, &spec.egress, &folder.egress(), None).await?;
        egress::keep(folder.path(), &spec.egress, &door).map_err(what())?;
        Ok(Some(WayOut { egress: spec.egress.clone(), door }))
    }

    /// Starts it where it does not run, and looks whether it is kept apart as is wanted.
    fn launch(&self, attempt: &mut Attempt) -> Result<(), NeuronError> {
        let Attempt { spec, made, .. } = attempt;
        let folder = self.home.folder(&spec.id);
        if !made.is_up {
            let way = made.way.as_ref();
            let in_memory = made.in_memory.as_deref();
            let start = Start { spec, folder: &folder, way, in_memory, is_new: true };
            self.start(&start, &mut made.state)?;
        }
        let (isolation, wanted) = (made.state.isolation(), spec.isolation);
        if isolation.level < wanted {
            return Err(NeuronError::NotSupported(format!(
                "isolation {} is wanted, this machine gives {}: {}",
                wanted.as_str(),
                isolation.level.as_str(),
                isolation.reasons.join("; ")
            )));
        }
        Ok(())
    }

    /// Makes it this process's neuron that runs.
    fn settle(&self, attempt: Attempt, way_out: Option<WayOut>) -> Result<NeuronInfo, NeuronError> {
        let Attempt { spec, lock, made } = attempt;
        let Made { mut state, owner, .. } = made;
        state.phase = Phase::Created;
        let folder = self.home.folder(&spec.id);
        if let Err(error) = state.write(folder.path()) {
            self.clear(&spec.id)?;
            lock.remove();
            return Err(failed("write the state of a neuron")(error));
        }
        let owned = Owned::new(&spec.id, self.home.door(&spec.id), (state, owner), way_out);
        self.owned().insert(spec.id.clone(), Arc::new(owned));
        lock.remove();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A disk takes longer than all the rest, and nobody has to wait for this.
            drop(runtime.spawn_blocking(move || {
                if let Err(error) = State::sync(folder.path()) {
                    tracing::warn!(%error, "the state of a neuron is not durable");
                }
            }));
        }
        let info = seen::info(&self.home, &spec.id).map_err(failed("look at a neuron"))?;
        info.ok_or_else(|| NeuronError::NotFound(spec.id))
    }
}

/// Makes the folders of a neuron, and its disk where that is limited. Returns why that one has to
/// be in memory.
pub(super) fn furnish(state: &State, folder: &Folder) -> io::Result<Option<String>> {
    make_folder(&folder.layer())?;
    make_folder(&folder.egress())?;
    if let Some(uid) = state.uid {
        // The neuron builds its mounts as this user; what is above only we can enter.
        chown(folder.layer(), Some(uid), Some(uid))?;
        // Its relay passes through this one; what lies in it is made by us, and nobody else may
        // put something else there.
        set_permissions(folder.egress(), Permissions::from_mode(0o711))?;
    }
    if state.driver() == NeuronDriver::Host {
        // There is no launcher that would make them.
        for name in [plan::layout::HOME, plan::layout::TMP, plan::layout::WORKSPACE] {
            make_folder(&folder.layer().join(name))?;
        }
    }
    Ok(state.limits().disk_bytes.and_then(|bytes| disk::make(folder, bytes, state.uid).err()))
}
