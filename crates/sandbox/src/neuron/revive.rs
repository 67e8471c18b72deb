//! A neuron that stands still for longer: stopped with its files kept, and started again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{Egress, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec};
use protocol::NeuronId;

use super::door::SOCKET;
use super::driver::{Driver, aside, failed};
use super::egress::{self, EgressPlace, KeptEgress};
use super::lock::Lock;
use super::owned::Owned;
use super::place::Taken;
use super::seen::{self, Seen, look, owner_elsewhere};
use super::start::Start;
use super::state::State;

/// How long to wait for somebody who changes the same neuron.
const CHANGE_TIME: Duration = Duration::from_secs(30);

/// A neuron that does not run. Nobody else changes it as long as its change lock is held.
struct Still {
    spec: NeuronSpec,
    state: State,
    owner: Lock,
    kept: Option<KeptEgress>,
    /// What it is shown of its way out.
    way: Option<EgressPlace>,
}

/// What was found of a neuron that is to run.
enum Found {
    Still(Box<Still>, Lock),
    Runs(Box<NeuronInfo>),
}

impl Driver {
    /// Takes the lock of whoever changes a neuron that is there.
    pub(super) fn change_of(&self, id: &NeuronId) -> Result<Lock, NeuronError> {
        if !self.home.folder(id).path().is_dir() {
            return Err(NeuronError::NotFound(id.clone()));
        }
        let lock = self.change(id, CHANGE_TIME)?;
        lock.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))
    }

    /// Ends everything that runs in a neuron, and lets go of it. The change lock must be held.
    pub(super) fn halt(&self, id: &NeuronId) -> io::Result<()> {
        // Closes the way out and lets go of connections and locks.
        let owned = self.owned().remove(id);
        drop(owned);
        self.end_processes(id, &self.home.folder(id))
    }

    /// Ends everything that runs in a neuron and keeps its files. Blocks.
    pub(super) fn stop(&self, id: &NeuronId) -> Result<(), NeuronError> {
        let what = || format!("stop neuron {id}");
        let lock = self.change_of(id)?;
        let stopped = (|| match look(&self.home, id, true).map_err(failed(what()))? {
            Seen::Absent | Seen::Abandoned | Seen::Starting(_) => {
                Err(NeuronError::NotFound(id.clone()))
            }
            Seen::There(there) if there.process.is_none() => Ok(()),
            Seen::There(_) => match owner_elsewhere(&self.home, id).map_err(failed(what()))? {
                Some(pid) => Err(NeuronError::OwnedElsewhere(id.clone(), pid)),
                None => self.halt(id).map_err(failed(what())),
            },
        })();
        lock.remove();
        stopped
    }

    /// Starts a neuron again with the files that it has. When it fails they are kept.
    pub(super) async fn start_again(
        self: &Arc<Self>,
        id: &NeuronId,
    ) -> Result<NeuronInfo, NeuronError> {
        let (driver, wanted) = (Arc::clone(self), id.clone());
        let (mut still, lock) = match aside(move || driver.find_still(&wanted)).await? {
            Found::Still(still, lock) => (still, lock),
            Found::Runs(info) => return Ok(*info),
        };
        let way_out = match (&self.gate, &still.kept) {
            (Some(gate), Some(kept)) => {
                let opened = self.open_again(gate.as_ref(), id, kept).await;
                match opened {
                    Ok(way_out) => Some(way_out),
                    Err(error) => {
                        lock.remove();
                        return Err(error);
                    }
                }
            }
            _ => None,
        };
        let driver = Arc::clone(self);
        aside(move || {
            let raised = driver.raise_again(&mut still);
            let Still { spec, owner, state, .. } = *still;
            let id = spec.id;
            let settled = raised.and_then(|()| {
                let owned = Owned::new(&id, driver.home.door(&id), (state, owner), way_out);
                driver.owned().insert(id.clone(), Arc::new(owned));
                let info = seen::info(&driver.home, &id).map_err(failed("look at a neuron"))?;
                info.ok_or_else(|| NeuronError::NotFound(id.clone()))
            });
            if settled.is_err()
                && let Err(error) = driver.halt(&id)
            {
                tracing::warn!(%error, neuron = %id, "end what was begun of a neuron");
            }
            lock.remove();
            settled
        })
        .await
    }

    fn raise_again(&self, still: &mut Still) -> Result<(), NeuronError> {
        let Still { spec, state, way, .. } = still;
        let folder = self.home.folder(&spec.id);
        let way = way.as_ref();
        let start = Start { spec, folder: &folder, way, in_memory: None, is_new: false };
        self.start(&start, state)?;
        let (isolation, wanted) = (state.isolation(), spec.isolation);
        if isolation.level < wanted {
            return Err(NeuronError::NotSupported(format!(
                "isolation {} was in force, this machine gives {} now: {}",
                wanted.as_str(),
                isolation.level.as_str(),
                isolation.reasons.join("; ")
            )));
        }
        let written = state.write_durably(folder.path());
        written.map_err(failed("write the state of a neuron"))
    }

    /// Makes ready to start a neuron again; tells of it where it runs.
    fn find_still(&self, id: &NeuronId) -> Result<Found, NeuronError> {
        let lock = self.change_of(id)?;
        match self.look_whether_still(id) {
            Ok(Ok(still)) => Ok(Found::Still(Box::new(still), lock)),
            Ok(Err(info)) => {
                lock.remove();
                Ok(Found::Runs(info))
            }
            Err(error) => {
                lock.remove();
                Err(error)
            }
        }
    }

    fn look_whether_still(
        &self,
        id: &NeuronId,
    ) -> Result<Result<Still, Box<NeuronInfo>>, NeuronError> {
        let what = || failed::<io::Error>(format!("start neuron {id} again"));
        let there = match look(&self.home, id, true).map_err(what())? {
            Seen::There(there) => there,
            Seen::Absent | Seen::Abandoned | Seen::Starting(_) => {
                return Err(NeuronError::NotFound(id.clone()));
            }
        };
        if there.process.is_some() {
            let info = seen::info(&self.home, id).map_err(what())?;
            let info = info.ok_or_else(|| NeuronError::NotFound(id.clone()))?;
            return Ok(Err(Box::new(info)));
        }
        let unsupported = |text: &str| {
            NeuronError::NotSupported(format!("neuron {id} {text}: it cannot be started again"))
        };
        let mut state = there.state.ok_or_else(|| unsupported("has lost its state"))?;
        if state.is_in_memory {
            return Err(unsupported("had a limited disk, which was in memory and is gone"));
        }
        Taken::count(&self.home).map_err(what())?.has_room(self.neurons_max)?;
        let folder = self.home.folder(id);
        // Before another one is made: nothing may be left of the last one.
        self.halt(id).map_err(what())?;
        match std::fs::remove_file(folder.path().join(SOCKET)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(what()(error)),
            _ => {}
        }
        state.process = None;
        let kept = egress::kept(folder.path()).map_err(what())?;
        let spec = NeuronSpec {
            id: id.clone(),
            driver: state.driver(),
            isolation: match state.driver() {
                NeuronDriver::Host => IsolationLevel::None,
                NeuronDriver::Namespace => state.isolation().level,
            },
            folder: state.folder.clone(),
            writes: state.writes(),
            env: state.env.clone(),
            limits: state.limits(),
            egress: match &kept {
                Some(kept) => kept.with(&self.credentials).egress,
                None => Egress::default(),
            },
        };
        let owner = folder.own().map_err(what())?;
        let owner = owner.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))?;
        let gate = self.gate.as_ref().filter(|_| kept.is_some());
        let has_credentials = !spec.egress.credentials.is_empty();
        let way = gate.map(|gate| gate.prepare(has_credentials, &folder.egress())).transpose()?;
        Ok(Ok(Still { spec, state, owner, kept, way }))
    }
}
