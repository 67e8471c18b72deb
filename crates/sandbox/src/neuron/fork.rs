//! A neuron that begins with the files of another one, and what a neuron changed of its folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::agent::neuron::layout;
use driver_api::{
    Egress, IsolationLevel, NeuronDriver, NeuronError, NeuronSpec, OverlayEntry, Writes,
};
use protocol::NeuronId;

use super::changes::changes;
use super::copy::{Owners, copy_layer};
use super::disk::reach;
use super::driver::{Driver, failed};
use super::egress::{self, Reachable};
use super::freeze::Frozen;
use super::lock::Lock;
use super::process::Identity;
use super::seen::{Seen, look, owner_elsewhere};
use super::state::State;

/// How long to wait for somebody who changes a neuron that is to be forked.
const CHANGE_TIME: Duration = Duration::from_secs(10);

/// A neuron that is being forked. Nobody destroys it as long as this is there.
#[derive(Debug)]
pub(super) struct Source {
    driver: Arc<Driver>,
    id: NeuronId,
    state: State,
    process: Option<Identity>,
    /// Removed when the copy is done.
    lock: Option<Lock>,
}

impl Source {
    /// Copies what the neuron wrote, while it stands still.
    pub(super) fn copy_into(&self, layer: &Path, uid: Option<u32>) -> Result<(), NeuronError> {
        let what = || format!("copy neuron {}", self.id);
        let _frozen = match self.process {
            Some(process) => {
                Some(Frozen::freeze(process, &self.state.cgroups).map_err(failed(what()))?)
            }
            None => None,
        };
        let owners = self.state.uid.zip(uid).map(|(from, to)| Owners { from, to });
        let from = reach(&self.driver.home.folder(&self.id)).map_err(failed(what()))?;
        copy_layer(from.path(), layer, owners).map_err(|error| match error {
            rustix::io::Errno::LOOP => {
                NeuronError::NotSupported("its folders are nested too deep to be copied".to_owned())
            }
            error => failed(what())(error),
        })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            lock.remove();
        }
    }
}

impl Driver {
    /// Returns what to make, and whose files it begins with.
    pub(super) fn fork_source(
        self: &Arc<Self>,
        id: &NeuronId,
        to: NeuronId,
    ) -> Result<(NeuronSpec, Source), NeuronError> {
        let what = || failed::<std::io::Error>(format!("fork neuron {id}"));
        let not_found = || NeuronError::NotFound(id.clone());
        let folder = self.home.folder(id);
        if !folder.path().is_dir() {
            return Err(not_found());
        }
        let lock = self.change(id, CHANGE_TIME)?;
        let lock = lock.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))?;
        let mut source = match look(&self.home, id, true).map_err(what())? {
            Seen::There(there) => {
                let Some(state) = there.state else {
                    lock.remove();
                    return Err(NeuronError::NotSupported(format!(
                        "the state of neuron {id} is lost: it cannot be forked"
                    )));
                };
                let (driver, process) = (Arc::clone(self), there.process);
                Source { driver, id: id.clone(), state, process, lock: Some(lock) }
            }
            Seen::Absent | Seen::Abandoned | Seen::Starting(_) => {
                lock.remove();
                return Err(not_found());
            }
        };
        if source.process.is_some()
            && let Some(pid) = owner_elsewhere(&self.home, id).map_err(what())?
        {
            return Err(NeuronError::OwnedElsewhere(id.clone(), pid));
        }
        let state = &mut source.state;
        if state.folder.is_some() && state.writes() == Writes::Folder {
            return Err(NeuronError::NotSupported(format!(
                "neuron {id} writes to its folder itself: two would write to the same one"
            )));
        }
        if state.is_in_memory {
            return Err(NeuronError::NotSupported(format!(
                "neuron {id} has a limited disk, which is in memory here: it cannot be forked"
            )));
        }
        let egress = self.egress_of(id)?;
        let spec = NeuronSpec {
            id: to,
            driver: state.driver(),
            isolation: if state.driver() == NeuronDriver::Host {
                IsolationLevel::None
            } else {
                state.isolation().level
            },
            folder: state.folder.clone(),
            writes: state.writes(),
            env: state.env.clone(),
            limits: state.limits(),
            egress,
        };
        Ok((spec, source))
    }

    /// What a neuron may reach, with the secrets: this process's own knows them, those of others
    /// are looked for in its settings.
    fn egress_of(&self, id: &NeuronId) -> Result<Egress, NeuronError> {
        let owned = self.owned().get(id).cloned();
        if let Some(egress) =
            owned.filter(|owned| owned.is_current()).and_then(|own| own.egress().cloned())
        {
            return Ok(egress);
        }
        let kept = egress::kept(self.home.folder(id).path());
        let Some(kept) = kept.map_err(failed(format!("look at neuron {id}")))? else {
            return Ok(Egress::default());
        };
        let Reachable { egress, lacking } = kept.with(&self.credentials);
        if lacking.is_empty() {
            return Ok(egress);
        }
        Err(NeuronError::NotSupported(format!(
            "neuron {id} was given credentials for {}, which are in no setting of this process: it \
             cannot be forked here",
            lacking.join(", ")
        )))
    }

    /// Lists what a neuron's layer changes of its folder.
    pub(super) fn changes(&self, id: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError> {
        let what = || format!("list the changes of neuron {id}");
        let unsupported = |text: &str| {
            Err(NeuronError::NotSupported(format!("neuron {id} {text}: its changes are not known")))
        };
        let there = match look(&self.home, id, false).map_err(failed(what()))? {
            Seen::There(there) => there,
            Seen::Absent | Seen::Abandoned | Seen::Starting(_) => {
                return Err(NeuronError::NotFound(id.clone()));
            }
        };
        let Some(state) = there.state else { return unsupported("has lost its state") };
        let Some(folder) = &state.folder else { return unsupported("has no folder beneath") };
        if state.writes() == Writes::Folder {
            return unsupported("writes to its folder itself");
        }
        if state.is_in_memory {
            return unsupported("has a limited disk, which is in memory here");
        }
        let layer = reach(&self.home.folder(id)).map_err(failed(what()))?;
        changes(&layer.path().join(layout::FOLDER_UPPER), folder).map_err(failed(what()))
    }
}
