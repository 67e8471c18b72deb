//! Neurons for tests: folders below a temporary one, without any isolation.
//!
//! They behave as [`driver_api::Neurons`] says, and a test brings them into the states that are
//! hard to come by: [`MemoryNeurons::kill`], [`MemoryNeurons::give_away`],
//! [`MemoryNeurons::put_program`], [`MemoryNeurons::hide_program`]. Their workspaces are not
//! local, though their paths are those of this machine.

mod folder;
mod process;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use driver_api::{
    Fault, Isolation, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec,
    NeuronState, Neurons, OverlayChange, OverlayEntry, Workspace, Writes,
};
use protocol::{NeuronId, Timestamp};
use tempfile::TempDir;
use tokio::sync::watch;

pub use folder::FolderWorkspace;

/// Neurons that are folders. Everything is gone when it is dropped.
#[derive(Debug)]
pub struct MemoryNeurons {
    home: TempDir,
    isolation: IsolationLevel,
    neurons_max: usize,
    kept: Mutex<BTreeMap<NeuronId, Kept>>,
}

/// One neuron.
#[derive(Debug)]
struct Kept {
    spec: NeuronSpec,
    info: NeuronInfo,
    /// The folder that its commands work in.
    folder: PathBuf,
    hidden: BTreeSet<String>,
    /// Whether it is over: running commands then end with a fault.
    over: watch::Sender<bool>,
}

impl Default for MemoryNeurons {
    #[allow(clippy::expect_used, reason = "a test without its folder cannot go on")]
    fn default() -> Self {
        Self {
            home: TempDir::new().expect("make a temporary folder"),
            isolation: IsolationLevel::Full,
            neurons_max: usize::MAX,
            kept: Mutex::default(),
        }
    }
}

impl MemoryNeurons {
    /// Makes neurons of a machine that keeps the driver `namespace` apart this far.
    pub fn with_isolation(isolation: IsolationLevel) -> Self {
        Self { isolation, ..Self::default() }
    }

    /// Makes neurons of which there may be so many.
    pub fn with_limit(neurons_max: usize) -> Self {
        Self { neurons_max, ..Self::default() }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<NeuronId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at<T>(&self, id: &NeuronId, look: impl FnOnce(&mut Kept) -> T) -> Result<T, NeuronError> {
        self.kept().get_mut(id).map(look).ok_or_else(|| NeuronError::NotFound(id.clone()))
    }

    fn place(&self, id: &NeuronId) -> PathBuf {
        self.home.path().join(id.as_str())
    }

    /// Returns the settings that a neuron was created with.
    ///
    /// # Panics
    /// Where there is no such neuron.
    #[allow(clippy::expect_used, reason = "the test asks for what it made")]
    pub fn spec(&self, id: &NeuronId) -> NeuronSpec {
        self.at(id, |kept| kept.spec.clone()).expect("find the neuron")
    }

    /// Returns the working folder of a neuron.
    ///
    /// # Panics
    /// Where there is no such neuron.
    #[allow(clippy::expect_used, reason = "the test asks for what it made")]
    pub fn folder(&self, id: &NeuronId) -> PathBuf {
        self.at(id, |kept| kept.folder.clone()).expect("find the neuron")
    }

    /// Lets a neuron's first process die: its files stay, its commands end.
    pub fn kill(&self, id: &NeuronId) {
        let _missing = self.at(id, |kept| {
            kept.info.state = NeuronState::Stopped;
            kept.info.pid = None;
            kept.over.send_replace(true);
        });
    }

    /// Lets a neuron belong to another living process.
    pub fn give_away(&self, id: &NeuronId, pid: u32) {
        let _missing = self.at(id, |kept| kept.info.owner_pid = Some(pid));
    }

    /// Puts a shell script among a neuron's programs, before those of the machine.
    ///
    /// # Panics
    /// Where it cannot be written.
    #[allow(clippy::expect_used, reason = "a test without its program cannot go on")]
    pub fn put_program(&self, id: &NeuronId, name: &str, script: &str) {
        let path = self.place(id).join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("write the program");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("set the mode of the program");
    }

    /// Takes a program away from a neuron.
    pub fn hide_program(&self, id: &NeuronId, name: &str) {
        let _missing = self.at(id, |kept| kept.hidden.insert(name.to_owned()));
    }

    fn keep(&self, spec: NeuronSpec, folder: PathBuf) -> NeuronInfo {
        let isolation = isolation(spec.driver, self.isolation);
        let info = NeuronInfo {
            id: spec.id.clone(),
            state: NeuronState::Running,
            created_at: Timestamp(1_700_000_000_000),
            driver: Some(spec.driver),
            isolation: Some(isolation),
            pid: Some(std::process::id()),
            workspace: Some(folder.clone()),
            folder: spec.folder.clone(),
            writes: spec.writes,
            owner_pid: None,
        };
        let (over, _) = watch::channel(false);
        let (hidden, shown) = (BTreeSet::new(), info.clone());
        self.kept().insert(spec.id.clone(), Kept { spec, info, folder, hidden, over });
        shown
    }

    /// Makes the folders of a neuron; its working folder begins with the files of another one.
    fn make(&self, id: &NeuronId, from: Option<&Path>) -> std::io::Result<PathBuf> {
        let place = self.place(id);
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        for name in ["bin", "tmp", "work"] {
            std::fs::create_dir_all(place.join(name))?;
        }
        let work = place.join("work").canonicalize()?;
        if let Some(from) = from {
            folder::copy(from, &work)?;
        }
        Ok(work)
    }

    fn check_room(&self, id: &NeuronId) -> Result<(), NeuronError> {
        let kept = self.kept();
        let others = kept.values().filter(|kept| kept.info.state == NeuronState::Running);
        match kept.get(id).map(|kept| (kept.info.state, kept.info.owner_pid)) {
            Some((_, Some(pid))) => Err(NeuronError::OwnedElsewhere(id.clone(), pid)),
            Some((NeuronState::Running | NeuronState::Starting, None)) => {
                Err(NeuronError::Exists(id.clone()))
            }
            _ if others.count() >= self.neurons_max => {
                let max = self.neurons_max;
                Err(NeuronError::Capacity(format!("{max} neurons run, the most that may")))
            }
            _ => Ok(()),
        }
    }
}

fn isolation(driver: NeuronDriver, level: IsolationLevel) -> Isolation {
    let level = if driver == NeuronDriver::Host { IsolationLevel::None } else { level };
    let layers = vec!["paper".to_owned()];
    let reasons = vec!["there are no walls in a test".to_owned()];
    match level {
        IsolationLevel::Full => Isolation { level, layers, reasons: vec![] },
        IsolationLevel::Partial => Isolation { level, layers, reasons },
        IsolationLevel::None => Isolation { level, layers: vec![], reasons },
    }
}

fn fault(what: &str) -> impl FnOnce(std::io::Error) -> NeuronError + use<'_> {
    move |error| Fault::with(what, error).into()
}

#[async_trait]
impl Neurons for MemoryNeurons {
    async fn isolation(&self, driver: NeuronDriver) -> Isolation {
        isolation(driver, self.isolation)
    }

    async fn create(&self, spec: NeuronSpec) -> Result<NeuronInfo, NeuronError> {
        self.check_room(&spec.id)?;
        let has = isolation(spec.driver, self.isolation);
        if has.level < spec.isolation {
            let (driver, level) = (spec.driver.as_str(), has.level.as_str());
            let text = format!("driver {driver} gives isolation {level} here");
            return Err(NeuronError::NotSupported(text));
        }
        let through = spec.folder.clone().filter(|_| spec.writes == Writes::Folder);
        let from = spec.folder.as_deref().filter(|_| through.is_none());
        let work = self.make(&spec.id, from).map_err(fault("make a neuron"))?;
        Ok(self.keep(spec, through.unwrap_or(work)))
    }

    async fn list(&self) -> Result<Vec<NeuronInfo>, NeuronError> {
        Ok(self.kept().values().map(|kept| kept.info.clone()).collect())
    }

    async fn info(&self, neuron: &NeuronId) -> Result<NeuronInfo, NeuronError> {
        self.at(neuron, |kept| kept.info.clone())
    }

    async fn workspace(
        &self,
        neuron: &NeuronId,
        cwd: Option<&str>,
    ) -> Result<Arc<dyn Workspace>, NeuronError> {
        let place = self.place(neuron);
        let made = self.at(neuron, |kept| match (kept.info.owner_pid, kept.info.state) {
            (Some(pid), _) => Err(NeuronError::OwnedElsewhere(neuron.clone(), pid)),
            (None, NeuronState::Stopped) => Err(NeuronError::NotRunning(neuron.clone())),
            (None, _) => {
                let tmp = ("TMPDIR".to_owned(), place.join("tmp").display().to_string());
                let env = kept.spec.env.iter().cloned().chain([tmp]);
                Ok(FolderWorkspace::new(&kept.folder)?
                    .with_env(env)
                    .with_programs(place.join("bin"), kept.hidden.clone())
                    .until(kept.over.subscribe()))
            }
        })??;
        Ok(Arc::new(made.entered(cwd).await?))
    }

    async fn destroy(&self, neuron: &NeuronId) -> Result<(), NeuronError> {
        let gone = self.kept().remove(neuron);
        let kept = gone.ok_or_else(|| NeuronError::NotFound(neuron.clone()))?;
        kept.over.send_replace(true);
        std::fs::remove_dir_all(self.place(neuron)).map_err(fault("remove a neuron"))
    }

    async fn fork(&self, from: &NeuronId, to: NeuronId) -> Result<NeuronInfo, NeuronError> {
        let source = self.at(from, |kept| match (kept.info.owner_pid, kept.spec.writes) {
            (Some(pid), _) => Err(NeuronError::OwnedElsewhere(from.clone(), pid)),
            (None, Writes::Folder) => {
                Err(NeuronError::NotSupported("it has no layer of its own".to_owned()))
            }
            (None, Writes::Overlay) => Ok((kept.spec.clone(), kept.folder.clone())),
        })?;
        let (spec, folder) = source?;
        self.check_room(&to)?;
        let work = self.make(&to, Some(&folder)).map_err(fault("fork a neuron"))?;
        Ok(self.keep(NeuronSpec { id: to, ..spec }, work))
    }

    async fn changes(&self, neuron: &NeuronId) -> Result<Vec<OverlayEntry>, NeuronError> {
        let (spec, folder) = self.at(neuron, |kept| (kept.spec.clone(), kept.folder.clone()))?;
        let lower = spec.folder.filter(|_| spec.writes == Writes::Overlay);
        let lower = lower.ok_or_else(|| {
            NeuronError::NotSupported("it has no folder beneath a layer".to_owned())
        })?;
        let before = folder::files(&lower).map_err(fault("read a folder"))?;
        let after = folder::files(&folder).map_err(fault("read a folder"))?;
        let names: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
        let entries = names.into_iter().filter_map(|path| {
            let change = match (before.get(path), after.get(path)) {
                (None, Some(_)) => OverlayChange::Added,
                (Some(_), None) => OverlayChange::Removed,
                (old, new) if old != new => OverlayChange::Changed,
                _ => return None,
            };
            Some(OverlayEntry { path: path.clone(), change })
        });
        Ok(entries.collect())
    }

    async fn close(&self) {}
}
