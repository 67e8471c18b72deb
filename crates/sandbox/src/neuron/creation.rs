//! The making of a neuron, step by step, and how each step is taken back.

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::agent::neuron as plan;
use driver_api::{
    Fault, Isolation, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec, Writes,
};
use protocol::NeuronId;

use super::door::Door;
use super::driver::{Driver, aside, failed};
use super::egress::{self, EgressDoor};
use super::home::{Folder, make_folder};
use super::lock::Lock;
use super::owned::Owned;
use super::place::Taken;
use super::process::Identity;
use super::state::{Phase, State};
use super::{check, seen};

/// How long to wait for others who look for a place: each takes milliseconds.
const PLACES_TIME: Duration = Duration::from_secs(30);

/// How many processes and threads a neuron may have where nothing else is said: a build on a large
/// machine has hundreds, and one that forks without end is stopped before the machine is.
const PIDS_DEFAULT: u32 = 4_096;

/// The home folder inside of a neuron that is kept apart.
pub(super) const HOME: &str = "/home/neuron";

/// A creation under way. Nobody else changes this neuron as long as it is there.
#[derive(Debug)]
pub(super) struct Attempt {
    spec: NeuronSpec,
    lock: Lock,
    state: State,
    /// Held from the moment on that the neuron can be seen.
    owner: Option<Lock>,
}

/// Where the one who waits for the neuron is told. When he is gone, it is taken back.
pub(super) type Waiting = tokio::sync::oneshot::Sender<Result<NeuronInfo, NeuronError>>;

impl Driver {
    /// Makes a neuron, which begins with the files that `fill` puts into its layer.
    pub(super) async fn make(
        self: &Arc<Self>,
        spec: NeuronSpec,
        fill: impl FnOnce(&Path, Option<u32>) -> Result<(), NeuronError> + Send + 'static,
        waiting: &Waiting,
    ) -> Result<NeuronInfo, NeuronError> {
        let driver = Arc::clone(self);
        let attempt = aside(move || driver.begin(spec, fill)).await?;
        let id = attempt.spec.id.clone();
        let (attempt, launched) = self.raise(attempt, waiting).await?;
        let driver = Arc::clone(self);
        match launched {
            Ok(door) => aside(move || driver.settle(attempt, door)).await,
            Err(error) => {
                let undone = aside(move || {
                    let cleared = driver.clear(&id);
                    drop(attempt.owner);
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

    /// Checks everything, makes room, and puts the folder together where nobody sees it.
    fn begin(
        &self,
        spec: NeuronSpec,
        fill: impl FnOnce(&Path, Option<u32>) -> Result<(), NeuronError>,
    ) -> Result<Attempt, NeuronError> {
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
        let staged = self.make_way(id).and_then(|()| {
            let state = self.stage(&spec)?;
            let folder = self.home.staged(id);
            fill(&folder.layer(), state.uid)
                .and_then(|()| self.publish(id))
                .map(|owner| (state, owner))
        });
        match staged {
            Ok((state, owner)) => Ok(Attempt { spec, lock, state, owner: Some(owner) }),
            Err(error) => {
                // What was refused before anything was made leaves what was there as it is.
                if !is_refusal(&error) {
                    self.clear(id)?;
                }
                lock.remove();
                Err(error)
            }
        }
    }

    /// Finds a place and makes the folder.
    fn stage(&self, spec: &NeuronSpec) -> Result<State, NeuronError> {
        let what = || failed::<io::Error>(format!("make the folder of neuron {}", spec.id));
        let places = Lock::wait(&self.home.places_lock(), PLACES_TIME).map_err(what())?;
        let places = places.map_err(|pid| {
            Fault::new(format!("process {pid} has been looking for a place for too long"))
        })?;
        let taken = Taken::count(&self.home).map_err(what())?;
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
        furnish(&state, &folder).map_err(what())?;
        self.sweep(&taken.abandoned)?;
        Ok(state)
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
    ) -> Result<(Attempt, Result<Option<EgressDoor>, NeuronError>), NeuronError> {
        let gone = || NeuronError::from(Fault::new("nobody waits for the neuron any more"));
        if waiting.is_closed() {
            return Ok((attempt, Err(gone())));
        }
        let door = match self.open_egress(&attempt).await {
            Ok(door) => door,
            Err(error) => return Ok((attempt, Err(error))),
        };
        if waiting.is_closed() {
            return Ok((attempt, Err(gone())));
        }
        let driver = Arc::clone(self);
        let work = move || {
            let mut attempt = attempt;
            let launched = driver.launch(&mut attempt, door.as_ref());
            (attempt, launched.map(|()| door))
        };
        match tokio::task::spawn_blocking(work).await {
            Ok((attempt, Ok(_))) if waiting.is_closed() => Ok((attempt, Err(gone()))),
            Ok(launched) => Ok(launched),
            // A panic, or the end of the runtime: no lock is held any more, and what is left is
            // what a crash leaves.
            Err(error) => Err(Fault::with("start a neuron", error).into()),
        }
    }

    async fn open_egress(&self, attempt: &Attempt) -> Result<Option<EgressDoor>, NeuronError> {
        let spec = &attempt.spec;
        let Some(gate) = self
            .gate
            .as_ref()
            .filter(|_| spec.driver == NeuronDriver::Namespace && !egress::is_closed(&spec.egress))
        else {
            return Ok(None);
        };
        let folder = self.home.folder(&spec.id);
        let what = || failed::<io::Error>(format!("open the way out of neuron {}", spec.id));
        let door = gate.open(&spec.id, &spec.egress, &folder.egress()).await?;
        egress::keep(folder.path(), &spec.egress, &door.variables).map_err(what())?;
        Ok(Some(door))
    }

    fn launch(&self, attempt: &mut Attempt, door: Option<&EgressDoor>) -> Result<(), NeuronError> {
        let id = &attempt.spec.id;
        let folder = self.home.folder(id);
        let plan = self.plan(attempt, &folder, door)?;
        let socket = Door::new(id.clone(), folder.path().to_owned()).bind();
        let socket = socket.map_err(failed(format!("make the socket of neuron {id}")))?;
        let answer = self.launcher.launch(&plan, socket);
        let report = match answer.map_err(failed(format!("start neuron {id}")))? {
            plan::Answer::Up(report) => report,
            plan::Answer::Failed(failure) => {
                return Err(Fault::with(format!("start neuron {id}"), failure).into());
            }
        };
        let state = &mut attempt.state;
        state.cgroups = report.cgroups;
        state.process = Identity::of(report.pid);
        if state.process.is_none() {
            let text = format!("the first process of neuron {id} died as soon as it ran");
            return Err(Fault::new(text).into());
        }
        if attempt.spec.driver == NeuronDriver::Namespace {
            state.workspace = report.workspace;
        }
        state.is_in_memory = report.is_in_memory;
        state.set_isolation(isolation(attempt.spec.driver, report.layers, &report.missing));
        // Written before it is judged: whoever takes it back knows what to end.
        state.write(folder.path()).map_err(failed("write the state of a neuron"))?;
        let (isolation, wanted) = (state.isolation(), attempt.spec.isolation);
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

    fn plan(
        &self,
        attempt: &Attempt,
        folder: &Folder,
        door: Option<&EgressDoor>,
    ) -> Result<plan::Plan, NeuronError> {
        let spec = &attempt.spec;
        let is_apart = spec.driver == NeuronDriver::Namespace;
        let egress = door.map(|door| {
            let name = door.socket.strip_prefix(folder.egress()).ok().and_then(Path::to_str);
            let name = name.ok_or_else(|| Fault::new("the proxy's socket is not in its folder"))?;
            Ok::<_, Fault>(plan::Egress { folder: folder.egress(), socket: name.to_owned() })
        });
        let files = door.into_iter().flat_map(|door| door.files.iter().cloned());
        Ok(plan::Plan {
            name: self.home.host_name(&spec.id),
            layers: if is_apart { plan::Layers::ALL } else { plan::Layers::NONE },
            base: plan::Base::default(),
            layer: folder.layer(),
            folder: spec.folder.clone().map(|path| plan::Folder {
                path,
                writes: match spec.writes {
                    Writes::Overlay => plan::FolderWrites::Layer,
                    Writes::Folder => plan::FolderWrites::Through,
                },
            }),
            home: PathBuf::from(HOME),
            host_id: attempt.state.uid.map(|uid| plan::HostId { uid, gid: uid }),
            limits: plan::Limits {
                memory_bytes: spec.limits.memory_bytes,
                pids: Some(spec.limits.pids.unwrap_or(PIDS_DEFAULT)),
                cpu_millis: spec.limits.cpu_millis,
                disk_bytes: spec.limits.disk_bytes,
            },
            cgroup_parents: Vec::new(),
            egress: egress.transpose()?,
            files: files.map(|(outside, inside)| plan::ShownFile { outside, inside }).collect(),
        })
    }

    /// Makes it this process's neuron that runs.
    fn settle(
        &self,
        attempt: Attempt,
        door: Option<EgressDoor>,
    ) -> Result<NeuronInfo, NeuronError> {
        let Attempt { spec, lock, mut state, owner } = attempt;
        state.phase = Phase::Created;
        let folder = self.home.folder(&spec.id);
        let written = state.write_durably(folder.path());
        let written = written.map_err(failed("write the state of a neuron"));
        let owner = owner.ok_or_else(|| Fault::new("the neuron has no owner"));
        match written.and_then(|()| Ok(owner?)) {
            Ok(owner) => {
                let owned = Owned::new(&spec.id, self.home.door(&spec.id), (state, owner), door);
                self.owned().insert(spec.id.clone(), Arc::new(owned));
            }
            Err(error) => {
                self.clear(&spec.id)?;
                lock.remove();
                return Err(error);
            }
        }
        lock.remove();
        let info = seen::info(&self.home, &spec.id).map_err(failed("look at a neuron"))?;
        info.ok_or_else(|| NeuronError::NotFound(spec.id))
    }
}

fn furnish(state: &State, folder: &Folder) -> io::Result<()> {
    make_folder(&folder.layer())?;
    make_folder(&folder.egress())?;
    if let Some(uid) = state.uid {
        // The neuron builds its mounts as this user; what is above only we can enter.
        for own in [folder.layer(), folder.egress()] {
            chown(own, Some(uid), Some(uid))?;
        }
    }
    if state.driver() == NeuronDriver::Host {
        // There is no launcher that would make them.
        for name in [plan::layout::HOME, plan::layout::TMP, plan::layout::WORKSPACE] {
            make_folder(&folder.layer().join(name))?;
        }
    }
    Ok(())
}

fn is_refusal(error: &NeuronError) -> bool {
    use NeuronError::{Capacity, Exists, OwnedElsewhere};
    matches!(error, Exists(_) | OwnedElsewhere(..) | Capacity(_))
}

/// Says how far a neuron is kept apart.
pub(super) fn isolation(
    driver: NeuronDriver,
    layers: plan::Layers,
    missing: &[plan::Missing],
) -> Isolation {
    if driver == NeuronDriver::Host {
        let reason = "driver host keeps nothing apart: commands run as this user, with all that \
            it may read, write and reach";
        let reasons = vec![reason.to_owned()];
        return Isolation { level: IsolationLevel::None, layers: Vec::new(), reasons };
    }
    // What is in force in part only is among the layers too: it counts, and its reason is told.
    let lacks = |missing: &plan::Missing| missing.layer.is_wall() && !layers.has(missing.layer);
    let is_whole = !missing.iter().any(lacks);
    let level = match layers.iter().any(plan::Layer::is_wall) {
        true if is_whole => IsolationLevel::Full,
        true => IsolationLevel::Partial,
        false => IsolationLevel::None,
    };
    Isolation {
        level,
        layers: layers.iter().map(|layer| layer.as_str().to_owned()).collect(),
        reasons: missing.iter().map(|missing| missing.reason.clone()).collect(),
    }
}
