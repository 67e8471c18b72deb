//! Neurons that are ready before anybody asks for them.
//!
//! They are like any other, but for their folder, whose name is no id: nobody sees them. Whoever
//! asks for a neuron that one of them could be is given it under the name that he wants, with his
//! variables and his way out; before that nothing ran in it and it reached nothing. What is not
//! given away ends with this process, or, where that was killed, by the hand of the next one that
//! looks for neurons.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::agent::neuron::{WORKSPACE, find_cgroups, remove_cgroups};
use driver_api::{
    Egress, Fault, IsolationLevel, NeuronDriver, NeuronError, NeuronLimits, NeuronSpec, Writes,
};
use protocol::{NeuronId, Timestamp};

use super::creation::{HOME, Made, furnish};
use super::driver::{Driver, aside, failed};
use super::egress::{self, EgressPlace};
use super::home::{Folder, make_folder};
use super::lock::Lock;
use super::place::Taken;
use super::process::Identity;
use super::remove::remove_tree;
use super::start::Start;
use super::state::State;

/// How many may be ready at most, whatever is asked for: more are not used up before others are
/// made, and each is a process and a user of the machine.
const WARM_MAX: usize = 64;

/// Those that are ready, all alike.
#[derive(Debug)]
pub(super) struct Pool {
    size: usize,
    limits: NeuronLimits,
    way: Way,
    inside: Mutex<Inside>,
    /// Held by the task that makes more.
    at_work: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Inside {
    ready: Vec<Warm>,
    is_filling: bool,
    is_closed: bool,
    /// Whether one could be made ready already.
    can_be: bool,
}

/// What has to be known of a way out before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    None,
    Plain,
    WithCredentials,
}

impl Way {
    fn of(egress: &Egress) -> Self {
        match (egress::is_closed(egress), egress.credentials.is_empty()) {
            (true, _) => Way::None,
            (false, true) => Way::Plain,
            (false, false) => Way::WithCredentials,
        }
    }
}

impl Pool {
    pub(super) fn new(size: usize, limits: NeuronLimits, egress: &Egress) -> Self {
        Self {
            size: size.min(WARM_MAX),
            limits,
            way: Way::of(egress),
            inside: Mutex::default(),
            at_work: tokio::sync::Mutex::default(),
        }
    }

    /// Returns whether a neuron of the pool could be this one.
    pub(super) fn fits(&self, spec: &NeuronSpec) -> bool {
        self.size > 0
            && spec.driver == NeuronDriver::Namespace
            && spec.folder.is_none()
            && spec.limits == self.limits
            && Way::of(&spec.egress) == self.way
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one that lives and is kept apart enough. Those that died are ended for good.
    fn take(&self, wanted: IsolationLevel) -> Option<Warm> {
        loop {
            let warm = self.inside().ready.pop()?;
            if warm.is_alive() {
                if warm.level() >= wanted {
                    return Some(warm);
                }
                // All are alike: none of them will do.
                self.inside().ready.push(warm);
                return None;
            }
        }
    }

    /// Takes one in, or returns it where there is no place for it any more.
    fn put(&self, warm: Warm) -> Option<Warm> {
        let mut inside = self.inside();
        if inside.is_closed || inside.ready.len() >= self.size {
            return Some(warm);
        }
        inside.ready.push(warm);
        inside.can_be = true;
        None
    }

    /// Returns whether more could be made ready, as far as is known.
    pub(super) fn can_be_filled(&self) -> bool {
        self.inside().can_be
    }

    /// Returns whether the one who asks is to make more.
    fn begins_to_fill(&self) -> bool {
        let mut inside = self.inside();
        let is_begun = !inside.is_filling && !inside.is_closed && inside.ready.len() < self.size;
        inside.is_filling |= is_begun;
        is_begun
    }

    /// Returns whether one more is to be made; where not, the filling is over.
    fn goes_on_to_fill(&self) -> bool {
        let mut inside = self.inside();
        inside.is_filling = !inside.is_closed && inside.ready.len() < self.size;
        inside.is_filling
    }
}

/// An id that no other neuron ever has, of this process or of another: a cgroup and a host name
/// come of it, which outlive this process.
fn fresh_id() -> NeuronId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let started = Identity::of(pid).ok().flatten().map_or(0, |own| own.started);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    NeuronId::new(format!("w{pid}-{started}-{count}"))
}

/// A neuron that is ready. It ends when this is dropped before it is given away.
#[derive(Debug)]
struct Warm {
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    folder: Folder,
    state: State,
    owner: Lock,
    way: Option<EgressPlace>,
    /// What its cgroups are called by, should it never have told them.
    host_name: String,
}

impl Warm {
    fn is_alive(&self) -> bool {
        let process = self.parts.as_ref().and_then(|parts| parts.state.process);
        process.is_some_and(|process| process.is_alive().unwrap_or(false))
    }

    fn level(&self) -> IsolationLevel {
        let isolation = self.parts.as_ref().map(|parts| parts.state.isolation());
        isolation.map_or(IsolationLevel::None, |isolation| isolation.level)
    }

    /// Becomes the neuron that was asked for, in its folder. The lock of places must be held.
    fn assign(mut self, spec: &NeuronSpec, folder: &Folder, now: Timestamp) -> io::Result<Made> {
        let parts = self.parts.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut state = State::starting(spec, (PathBuf::from(WORKSPACE), HOME.into()), now);
        state.inherit(&parts.state);
        // It shows up as one that starts, and nobody believes that of one whose creator died.
        state.write(parts.folder.path())?;
        std::fs::rename(parts.folder.path(), folder.path())?;
        let Parts { owner, way, .. } = self.parts.take().ok_or(io::ErrorKind::NotFound)?;
        let owner = owner.moved(folder.owner_lock());
        Ok(Made { state, owner, way, in_memory: None, is_up: true })
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take()
            && let Err(error) = parts.end()
        {
            tracing::warn!(%error, "a neuron that nobody asked for was not removed");
        }
    }
}

impl Parts {
    fn end(self) -> io::Result<()> {
        if let Some(process) = self.state.process {
            process.end()?;
        }
        let mut cgroups = self.state.cgroups;
        if cgroups.is_empty() {
            cgroups = find_cgroups(&self.host_name, &[]);
        }
        remove_cgroups(&cgroups);
        // The lock goes with the folder, last of all.
        remove_tree(self.folder.path())?;
        drop(self.owner);
        Ok(())
    }
}

impl Driver {
    /// Gives away one that is ready, where it could be the one that is asked for.
    pub(super) fn take_warm(&self, spec: &NeuronSpec) -> Result<Option<Made>, NeuronError> {
        if !self.pool.fits(spec) || self.pool.inside().ready.is_empty() {
            return Ok(None);
        }
        let what = || failed::<io::Error>(format!("make neuron {}", spec.id));
        let _places = self.places()?;
        // Not more can run than there are folders: mostly there is no need to look at each.
        if self.home.ids().map_err(what())?.len() >= self.neurons_max {
            Taken::count(&self.home).map_err(what())?.has_room(self.neurons_max)?;
        }
        let Some(warm) = self.pool.take(spec.isolation) else { return Ok(None) };
        let folder = self.home.folder(&spec.id);
        warm.assign(spec, &folder, self.clock.now()).map(Some).map_err(what())
    }

    /// Makes as many ready as there should be, aside from whoever waits for a neuron now.
    pub(super) fn refill(self: &Arc<Self>) {
        if !self.pool.begins_to_fill() {
            return;
        }
        let driver = Arc::clone(self);
        let _task = self.tasks.spawn(async move {
            let _at_work = driver.pool.at_work.lock().await;
            while driver.pool.goes_on_to_fill() {
                let maker = Arc::clone(&driver);
                let made = aside(move || maker.make_warm().map(|warm| maker.pool.put(warm))).await;
                if let Err(error) = made {
                    // Whoever asks for a neuron is told why none can be had; the next one who got
                    // one has this tried again.
                    tracing::warn!(%error, "no neuron could be made ready");
                    driver.pool.inside().is_filling = false;
                    return;
                }
            }
        });
    }

    /// Ends all that are ready. No more are made.
    pub(super) async fn close_pool(&self) {
        self.pool.inside().is_closed = true;
        let _at_work = self.pool.at_work.lock().await;
        let ready = std::mem::take(&mut self.pool.inside().ready);
        if !ready.is_empty() {
            let ended = tokio::task::spawn_blocking(move || drop(ready)).await;
            if let Err(error) = ended {
                tracing::warn!(%error, "neurons that nobody asked for were not removed");
            }
        }
    }

    /// Makes one. Blocks.
    fn make_warm(&self) -> Result<Warm, NeuronError> {
        let spec = NeuronSpec {
            id: fresh_id(),
            driver: NeuronDriver::Namespace,
            isolation: IsolationLevel::None,
            folder: None,
            writes: Writes::Overlay,
            env: Vec::new(),
            limits: self.pool.limits,
            egress: Egress::default(),
        };
        let what = || failed::<io::Error>("make a neuron ready");
        self.home.make().map_err(what())?;
        let folder = self.home.warm(&spec.id);
        let places = self.places()?;
        let mut state =
            State::starting(&spec, (PathBuf::from(WORKSPACE), HOME.into()), self.clock.now());
        if let Some(base) = self.uid_base {
            let taken = self.taken().map_err(what())?;
            state.uid = Some(taken.free_uid(base).map_err(what())?);
        }
        make_folder(folder.path()).map_err(what())?;
        let owner = folder.own().map_err(what())?;
        let owner = owner.map_err(|_| Fault::new("a neuron that is being made has an owner"))?;
        let host_name = self.home.host_name(&spec.id);
        let parts = Parts { folder: folder.clone(), state, owner, way: None, host_name };
        // From here on it is taken back when it fails.
        let mut warm = Warm { parts: Some(parts) };
        let Some(parts) = &mut warm.parts else { return Ok(warm) };
        parts.state.write(folder.path()).map_err(what())?;
        drop(places);
        let in_memory = furnish(&parts.state, &folder).map_err(what())?;
        if let (Some(gate), true) = (&self.gate, self.pool.way != Way::None) {
            let has_credentials = self.pool.way == Way::WithCredentials;
            parts.way = Some(gate.prepare(has_credentials, &folder.egress())?);
        }
        let way = parts.way.as_ref();
        let in_memory = in_memory.as_deref();
        let start = Start { spec: &spec, folder: &folder, way, in_memory, is_new: true };
        self.start(&start, &mut parts.state)?;
        Ok(warm)
    }
}
