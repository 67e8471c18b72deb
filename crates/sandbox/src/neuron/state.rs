//! The state file of a neuron: what a process knows that did not create it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use driver_api::{Isolation, IsolationLevel, NeuronDriver, NeuronLimits, Writes};
use protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::process::Identity;

/// The name of the file in the neuron's folder.
pub(super) const STATE_FILE: &str = "state.json";

/// The version of the file's form. One that says another number is not read: the neuron is then
/// known by its folder alone.
const VERSION: u32 = 1;

/// How many bytes a state file may have: 64 variables of 4 KiB and some paths are well below.
const BYTES_MAX: u64 = 1 << 20;

/// How far a neuron is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Somebody creates it, or died while he did.
    Starting,
    /// It was created.
    Created,
}

/// What is known of a neuron.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    pub(super) phase: Phase,
    driver: String,
    /// Its first process, once it is created.
    pub(super) process: Option<Identity>,
    pub(super) created_at: Timestamp,
    /// The working folder as commands inside see it.
    pub(super) workspace: PathBuf,
    /// What `~` and `HOME` are inside.
    pub(super) home: PathBuf,
    /// The folder of the machine that it was made over.
    pub(super) folder: Option<PathBuf>,
    writes_through: bool,
    pub(super) env: Vec<(String, String)>,
    limits: Limits,
    isolation: Kept,
    /// The user of the machine that its processes run as, where it is one of the pool.
    pub(super) uid: Option<u32>,
    /// The cgroups that are its own.
    pub(super) cgroups: Vec<PathBuf>,
    /// Whether what it writes is in memory, so that nothing of it is seen in its folder.
    pub(super) is_in_memory: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    level: String,
    layers: Vec<String>,
    reasons: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Limits {
    memory_bytes: Option<u64>,
    pids: Option<u32>,
    cpu_millis: Option<u32>,
    disk_bytes: Option<u64>,
}

impl State {
    /// Makes the state of a neuron that is being created.
    pub(super) fn starting(
        spec: &driver_api::NeuronSpec,
        (workspace, home): (PathBuf, PathBuf),
        created_at: Timestamp,
    ) -> Self {
        let limits = spec.limits;
        Self {
            version: VERSION,
            phase: Phase::Starting,
            driver: spec.driver.as_str().to_owned(),
            process: None,
            created_at,
            workspace,
            home,
            folder: spec.folder.clone(),
            writes_through: spec.writes == Writes::Folder,
            env: spec.env.clone(),
            limits: Limits {
                memory_bytes: limits.memory_bytes,
                pids: limits.pids,
                cpu_millis: limits.cpu_millis,
                disk_bytes: limits.disk_bytes,
            },
            isolation: Kept {
                level: IsolationLevel::None.as_str().to_owned(),
                layers: Vec::new(),
                reasons: Vec::new(),
            },
            uid: None,
            cgroups: Vec::new(),
            is_in_memory: false,
        }
    }

    /// Takes over what another neuron became, whose processes and files this one gets.
    pub(super) fn inherit(&mut self, other: &Self) {
        self.process = other.process;
        self.isolation = other.isolation.clone();
        self.uid = other.uid;
        self.cgroups.clone_from(&other.cgroups);
        self.is_in_memory = other.is_in_memory;
    }

    pub(super) fn driver(&self) -> NeuronDriver {
        if self.driver == NeuronDriver::Host.as_str() {
            NeuronDriver::Host
        } else {
            NeuronDriver::Namespace
        }
    }

    pub(super) fn writes(&self) -> Writes {
        if self.writes_through { Writes::Folder } else { Writes::Overlay }
    }

    pub(super) fn limits(&self) -> NeuronLimits {
        NeuronLimits {
            memory_bytes: self.limits.memory_bytes,
            pids: self.limits.pids,
            cpu_millis: self.limits.cpu_millis,
            disk_bytes: self.limits.disk_bytes,
        }
    }

    pub(super) fn isolation(&self) -> Isolation {
        let levels = [IsolationLevel::Full, IsolationLevel::Partial];
        let level = levels.into_iter().find(|level| level.as_str() == self.isolation.level);
        Isolation {
            level: level.unwrap_or(IsolationLevel::None),
            layers: self.isolation.layers.clone(),
            reasons: self.isolation.reasons.clone(),
        }
    }

    pub(super) fn set_isolation(&mut self, isolation: Isolation) {
        let Isolation { level, layers, reasons } = isolation;
        self.isolation = Kept { level: level.as_str().to_owned(), layers, reasons };
    }

    /// Reads the state of a neuron; nothing where there is no file, or none that can be read.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        match File::open(folder.join(STATE_FILE)) {
            Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let state = serde_json::from_slice::<Self>(&bytes).ok();
        Ok(state.filter(|state| state.version == VERSION))
    }

    /// Writes it in one step: whoever looks sees the old state or the new one.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        self.replace(folder, false)
    }

    /// Does the same so that a power failure cannot take it back. What is written on the way there
    /// needs no such care: after a power failure no neuron runs that it could be about.
    pub(super) fn write_durably(&self, folder: &Path) -> io::Result<()> {
        self.replace(folder, true)
    }

    /// Makes what was written durable. Until then a power failure can leave nothing but the folder,
    /// by which a neuron is known as well.
    pub(super) fn sync(folder: &Path) -> io::Result<()> {
        match File::open(folder.join(STATE_FILE)) {
            Ok(file) => file.sync_data(),
            // It is gone already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, folder: &Path, is_durable: bool) -> io::Result<()> {
        let temporary = folder.join("state.json.new");
        let bytes = serde_json::to_vec_pretty(self)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            // Its variables may be secrets.
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&bytes)?;
        if is_durable {
            file.sync_data()?;
        }
        std::fs::rename(&temporary, folder.join(STATE_FILE))
    }
}

#[cfg(test)]
mod tests {
    use driver_api::{Egress, NeuronSpec};
    use protocol::NeuronId;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_anything_else_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path()).unwrap(), None);
        let spec = NeuronSpec {
            id: NeuronId::new("n"),
            driver: NeuronDriver::Namespace,
            isolation: IsolationLevel::None,
            folder: Some("/a b".into()),
            writes: Writes::Folder,
            env: vec![("A".into(), "1".into())],
            limits: NeuronLimits { pids: Some(3), ..NeuronLimits::default() },
            egress: Egress::default(),
        };
        let mut state = State::starting(&spec, ("/w".into(), "/h".into()), Timestamp(7));
        state.process = Identity::of(std::process::id()).unwrap();
        let isolation = Isolation {
            level: IsolationLevel::Partial,
            layers: vec!["overlay".into()],
            reasons: vec!["no cgroup".into()],
        };
        state.set_isolation(isolation.clone());
        state.write(folder.path()).unwrap();
        let read = State::read(folder.path()).unwrap().unwrap();
        assert_eq!(read, state);
        assert_eq!(read.isolation(), isolation);
        assert_eq!((read.driver(), read.writes()), (spec.driver, spec.writes));
        assert_eq!(read.limits(), spec.limits);
        for junk in ["", "{", "{\"version\":1}", "[]"] {
            std::fs::write(folder.path().join(STATE_FILE), junk).unwrap();
            assert_eq!(State::read(folder.path()).unwrap(), None, "{junk}");
        }
        state.version = 2;
        state.write(folder.path()).unwrap();
        assert_eq!(State::read(folder.path()).unwrap(), None);
    }
}
