//! The neurons of this process, and how one becomes its.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::agent::neuron::{EGRESS_PORT, INSIDE_USER};
use driver_api::{Egress, NeuronDriver, NeuronError};
use protocol::NeuronId;

use super::door::Door;
use super::driver::{Driver, aside, failed};
use super::egress::{self, EgressDoor, EgressGate, KeptEgress, Reachable};
use super::files::Files;
use super::freeze::thaw;
use super::lock::Lock;
use super::process::Identity;
use super::seen::{Seen, look};
use super::state::State;
use super::workspace::Means;
use crate::agent::Agent;
use crate::environment::Environment;

/// How long to wait for somebody who changes a neuron that is to be taken over.
const CHANGE_TIME: Duration = Duration::from_secs(2);

/// Where programs are looked for inside: what the neuron installed for itself comes first.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a neuron works of which nothing is known but that it runs.
const UNKNOWN_FOLDER: &str = "/";

/// A neuron of this process.
#[derive(Debug)]
pub(super) struct Owned {
    lock: Lock,
    process: Identity,
    pub(super) means: Means,
    /// Its working folder and its home, as it sees them.
    pub(super) folder: PathBuf,
    pub(super) home: PathBuf,
    variables: Vec<(String, String)>,
    way_out: Option<WayOut>,
}

/// A way out that is open, and where it leads.
#[derive(Debug)]
pub(super) struct WayOut {
    pub(super) egress: Egress,
    /// Keeps it open.
    pub(super) door: EgressDoor,
}

impl Owned {
    pub(super) fn new(
        id: &NeuronId,
        door: Door,
        (state, lock): (State, Lock),
        way_out: Option<WayOut>,
    ) -> Self {
        let nobody = Identity { pid: 0, started: 0 };
        let process = state.process.unwrap_or(nobody);
        let beyond = way_out.as_ref().map(|way| way.door.variables.as_slice());
        let variables = variables(id, Some(&state), beyond);
        Self::of(door, (process, lock), (state.workspace, state.home), variables, way_out)
    }

    fn of(
        door: Door,
        (process, lock): (Identity, Lock),
        (folder, home): (PathBuf, PathBuf),
        variables: Vec<(String, String)>,
        way_out: Option<WayOut>,
    ) -> Self {
        let door = Arc::new(door);
        let files = Arc::new(Files::new(Arc::clone(&door)));
        let means = Means { files, agent: Agent::of_neuron(door) };
        Self { lock, process, means, folder, home, variables, way_out }
    }

    /// Returns whether its first process lives, as far as that can be told.
    pub(super) fn is_running(&self) -> bool {
        self.process.is_alive().unwrap_or(true)
    }

    /// Returns whether it is still the neuron of that name, and this process's.
    pub(super) fn is_current(&self) -> bool {
        self.lock.is_current()
    }

    /// What it may reach, with the secrets; nothing where it has no way out.
    pub(super) fn egress(&self) -> Option<&Egress> {
        self.way_out.as_ref().map(|way| &way.egress)
    }

    pub(super) fn environment(&self) -> Environment {
        let own = self.variables.iter().cloned().map(|(name, value)| (name, Some(value)));
        Environment::new([], &own.collect::<Vec<_>>())
    }
}

/// The variables of commands, of which none is this process's own.
fn variables(
    id: &NeuronId,
    state: Option<&State>,
    way_out: Option<&[(String, String)]>,
) -> Vec<(String, String)> {
    let home = state.map_or(super::creation::HOME.into(), |state| state.home.clone());
    let home = home.display().to_string();
    let is_host = state.is_some_and(|state| state.driver() == NeuronDriver::Host);
    let mut pairs = vec![
        ("PATH", format!("{home}/.local/bin:{PATH}")),
        ("HOME", home.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("NARTHEX_NEURON", id.to_string()),
    ];
    if is_host {
        pairs.push(("TMPDIR", home.strip_suffix("home").unwrap_or(&home).to_owned() + "tmp"));
    } else {
        pairs.push(("TMPDIR", "/tmp".to_owned()));
        pairs.extend(["USER", "LOGNAME"].map(|name| (name, INSIDE_USER.to_owned())));
    }
    if way_out.is_some() {
        let proxy = format!("http://127.0.0.1:{EGRESS_PORT}");
        // Programs do not agree on the case.
        for name in
            ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
        {
            pairs.push((name, proxy.clone()));
        }
        pairs.extend(["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".into())));
    }
    let mut all: Vec<_> = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(way_out.unwrap_or_default().iter().cloned());
    all.extend(state.into_iter().flat_map(|state| state.env.iter().cloned()));
    all
}

/// A neuron that was just taken over, before its way out is open.
struct Taken {
    state: Option<State>,
    process: Identity,
    lock: Lock,
    egress: Option<KeptEgress>,
}

impl Driver {
    /// Returns a running neuron of this process, which it becomes where nobody living owns it.
    pub(super) async fn own(self: &Arc<Self>, id: &NeuronId) -> Result<Arc<Owned>, NeuronError> {
        if let Some(owned) = self.current(id)? {
            return Ok(owned);
        }
        let _only = self.taking_over.lock().await;
        if let Some(owned) = self.current(id)? {
            return Ok(owned);
        }
        let (driver, wanted) = (Arc::clone(self), id.clone());
        let taken = aside(move || driver.take_over(&wanted)).await?;
        let way_out = match (&self.gate, &taken.egress) {
            (Some(gate), Some(kept)) => Some(self.open_again(gate.as_ref(), id, kept).await?),
            (None, Some(_)) => {
                tracing::warn!(neuron = %id, "taken over without a proxy: it reaches nothing");
                None
            }
            (_, None) => None,
        };
        let Taken { state, process, lock, egress } = taken;
        let beyond = egress.as_ref().map(|kept| kept.variables.as_slice());
        let variables = variables(id, state.as_ref(), beyond);
        let places = match state {
            Some(state) => (state.workspace, state.home),
            None => (UNKNOWN_FOLDER.into(), super::creation::HOME.into()),
        };
        let door = self.home.door(id);
        let owned = Arc::new(Owned::of(door, (process, lock), places, variables, way_out));
        self.owned().insert(id.clone(), Arc::clone(&owned));
        Ok(owned)
    }

    /// Opens the way out of a neuron whose owner is gone, with the secrets of this process.
    pub(super) async fn open_again(
        &self,
        gate: &dyn EgressGate,
        id: &NeuronId,
        kept: &KeptEgress,
    ) -> Result<WayOut, NeuronError> {
        let Reachable { egress, lacking } = kept.with(&self.credentials);
        if !lacking.is_empty() {
            let hosts = lacking.join(", ");
            tracing::warn!(
                neuron = %id, hosts,
                "taken over without the credentials of these hosts, which it cannot reach: they \
                 are in no setting of this process"
            );
        }
        let folder = self.home.folder(id);
        let door = gate.open(id, &egress, &folder.egress(), kept.authority.as_ref()).await?;
        if kept.authority != door.authority {
            let written = egress::keep_authority(folder.path(), &door);
            written.map_err(failed(format!("open the way out of neuron {id}")))?;
        }
        Ok(WayOut { egress, door })
    }

    /// Returns the neuron where it is this process's already.
    fn current(&self, id: &NeuronId) -> Result<Option<Arc<Owned>>, NeuronError> {
        let Some(owned) = self.owned().get(id).cloned() else { return Ok(None) };
        if !owned.is_current() {
            // Somebody destroyed it, and perhaps made another one of that name.
            let other = self.owned().remove(id);
            drop(other);
            return Ok(None);
        }
        if !owned.is_running() {
            return Err(NeuronError::NotRunning(id.clone()));
        }
        Ok(Some(owned))
    }

    fn take_over(&self, id: &NeuronId) -> Result<Taken, NeuronError> {
        let what = || failed::<std::io::Error>(format!("take over neuron {id}"));
        let not_found = || NeuronError::NotFound(id.clone());
        if !self.home.folder(id).path().is_dir() {
            return Err(not_found());
        }
        let change = self.change(id, CHANGE_TIME)?;
        let change = change.map_err(|_| NeuronError::NotRunning(id.clone()))?;
        let taken = match look(&self.home, id, true).map_err(what())? {
            Seen::Absent | Seen::Abandoned | Seen::Starting(_) => Err(not_found()),
            Seen::There(there) => match there.process {
                None => Err(NeuronError::NotRunning(id.clone())),
                Some(process) => self.take_lock(id).and_then(|lock| {
                    let folder = self.home.folder(id);
                    let egress = egress::kept(folder.path()).map_err(what())?;
                    Ok(Taken { state: there.state, process, lock, egress })
                }),
            },
        };
        if let Ok(Taken { state: Some(state), .. }) = &taken {
            // Whoever let it stand still may have died before it went on.
            thaw(&state.cgroups);
        }
        change.remove();
        taken
    }

    fn take_lock(&self, id: &NeuronId) -> Result<Lock, NeuronError> {
        let lock = self.home.folder(id).own().map_err(failed("lock a neuron"))?;
        lock.map_err(|pid| NeuronError::OwnedElsewhere(id.clone(), pid))
    }
}
