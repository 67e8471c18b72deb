//! Neurons, made by the agent's program of this binary: with no isolation, and with all of it.

mod crash;
mod creation;
mod disk;
mod egress;
mod files;
mod fork;
mod leaks;
mod owners;
mod trouble;
mod warm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver_api::{
    Egress, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronLimits, NeuronSpec,
    NeuronState, Neurons, Workspace, Writes,
};
use protocol::NeuronId;
use sandbox::NeuronOptions;
use tempfile::TempDir;
use testkit::workspace_suite::bash;

pub(crate) const BOTH: [NeuronDriver; 2] = [NeuronDriver::Host, NeuronDriver::Namespace];

/// A home with neurons in it, all of which end with it.
#[derive(Debug)]
pub(crate) struct Land {
    folder: TempDir,
    pub(crate) neurons: Arc<dyn Neurons>,
}

impl Land {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        std::os::unix::fs::symlink(own, folder.path().join("agent")).unwrap();
        let neurons = sandbox::neurons(options(&folder.path().join("home")));
        Self { folder, neurons }
    }

    /// How many processes of this land's neurons live; their commands are not counted.
    pub(crate) fn processes(&self) -> usize {
        let program = self.folder.path().join("agent").display().to_string() + "\0";
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.starts_with(program.as_bytes())).count()
    }

    /// What is in the folder of neurons beside neurons and locks, and locks that nobody needs.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let folder = self.home().join("neurons");
        let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        let names = list(folder.clone()).chain(list(folder.join(".locks")));
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with('.') && name != ".locks" && name != ".places")
            .collect()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder of a neuron.
    pub(crate) fn of(&self, id: &str) -> PathBuf {
        self.home().join("neurons").join(id)
    }

    /// A folder beside the home, for neurons to work in.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) async fn create(&self, driver: NeuronDriver, id: &str) -> NeuronInfo {
        self.neurons.create(spec(driver, id)).await.unwrap()
    }

    pub(crate) async fn workspace(&self, id: &str) -> Arc<dyn Workspace> {
        self.neurons.workspace(&NeuronId::new(id), None).await.unwrap()
    }

    pub(crate) async fn info(&self, id: &str) -> Result<NeuronInfo, NeuronError> {
        self.neurons.info(&NeuronId::new(id)).await
    }

    pub(crate) async fn destroy(&self, id: &str) -> Result<(), NeuronError> {
        self.neurons.destroy(&NeuronId::new(id)).await
    }

    /// What a script writes in a neuron.
    pub(crate) async fn says(&self, id: &str, script: &str) -> String {
        let ran = bash(&*self.workspace(id).await, script).await;
        ran.out + &ran.err
    }
}

impl Land {
    fn is_empty_at_last(&self) -> bool {
        let since = std::time::Instant::now();
        while self.processes() > 0 {
            if since.elapsed() > crate::place::PATIENCE {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.leftovers().is_empty()
    }
}

impl Drop for Land {
    fn drop(&mut self) {
        let home = self.home();
        // In a thread and a driver of its own: a test that failed may have left anything.
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let neurons = sandbox::neurons(options(&home));
                for neuron in neurons.list().await.unwrap() {
                    neurons.destroy(&neuron.id).await.unwrap();
                }
            });
        });
        let is_ended = ended.join().is_ok() && self.is_empty_at_last();
        assert!(is_ended || std::thread::panicking(), "the neurons of a test did not end");
    }
}

/// The program is a link beside the home, so that its processes can be told from others.
pub(crate) fn options(home: &Path) -> NeuronOptions {
    let mut command = crate::embedded_agent::command();
    command[0] = home.with_file_name("agent").into_os_string();
    NeuronOptions::new(home.to_owned(), command)
}

pub(crate) fn spec(driver: NeuronDriver, id: &str) -> NeuronSpec {
    NeuronSpec {
        id: NeuronId::new(id),
        driver,
        isolation: IsolationLevel::None,
        folder: None,
        writes: Writes::Overlay,
        env: Vec::new(),
        limits: NeuronLimits::default(),
        egress: Egress::default(),
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for yet is dead all the same.
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

pub(crate) async fn wait_for_state(land: &Land, id: &str, state: NeuronState) {
    let since = std::time::Instant::now();
    while land.info(id).await.unwrap().state != state {
        assert!(since.elapsed() < crate::place::PATIENCE, "expected {state:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
