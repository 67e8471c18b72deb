//! A folder with a workspace in it, and what a test looks for around it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver_api::Workspace;
use sandbox::{Agent, AgentOptions, HostOptions};
use tempfile::TempDir;

/// More than any test needs, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) agent: Agent,
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(HostOptions::default())
    }

    /// A workspace in a fresh folder; `roots` are made below it.
    pub(crate) fn with(mut options: HostOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        options.cwd = folder.path().join("work");
        std::fs::create_dir(&options.cwd).unwrap();
        for root in &mut options.roots {
            *root = folder.path().join(&*root);
            std::fs::create_dir_all(root).unwrap();
        }
        let agent = agent();
        let workspace = sandbox::host(options, agent.clone()).unwrap();
        Self { workspace, agent, folder }
    }

    pub(crate) fn cwd(&self) -> &Path {
        self.workspace.cwd()
    }
}

pub(crate) fn agent() -> Agent {
    Agent::new(AgentOptions { command: crate::embedded_agent::command() })
}

/// A stubborn tree, every process of which is a `sleep` with a number that nobody else uses.
pub(crate) fn tree(mark: &str) -> String {
    let shape = "setsid sleep {m}1 & nohup sleep {m}2 >/dev/null 2>&1 & \
        (trap '' TERM INT HUP; sleep {m}3; sleep {m}4) & \
        setsid sh -c 'setsid sleep {m}5 & exec sleep {m}6' & disown -a; sleep {m}7";
    shape.replace("{m}", mark)
}

/// A number for the processes of one test.
pub(crate) fn mark(test: u32) -> String {
    format!("96{}{test:02}", std::process::id())
}

pub(crate) fn alive(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).starts_with(&format!("sleep\0{mark}")))
        .count()
}

pub(crate) async fn wait_for(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "expected {what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = text.rsplit_once(')').unwrap().1;
    rest.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}
