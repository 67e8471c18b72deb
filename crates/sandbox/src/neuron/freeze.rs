//! Letting a neuron stand still for a moment.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::{Identity, parents};

/// How long a cgroup may take to stand still: a process in the kernel is waited for.
const FREEZE_TIME: Duration = Duration::from_secs(5);

/// How often to look whether it does.
const PAUSE: Duration = Duration::from_millis(1);

/// How often processes are looked for that were started while others were stopped.
const ROUNDS_MAX: usize = 50;

/// A neuron that stands still. It goes on when this is dropped.
#[derive(Debug)]
pub(super) struct Frozen {
    cgroup: Option<PathBuf>,
    stopped: HashSet<Identity>,
}

impl Frozen {
    /// Stops everything of a neuron: by its cgroup, where that can be, or one by one.
    pub(super) fn freeze(first: Identity, cgroups: &[PathBuf]) -> io::Result<Self> {
        for cgroup in cgroups {
            if holds(cgroup, first) && std::fs::write(cgroup.join("cgroup.freeze"), "1").is_ok() {
                let frozen = Self { cgroup: Some(cgroup.clone()), stopped: HashSet::new() };
                wait_until_frozen(cgroup)?;
                return Ok(frozen);
            }
        }
        let mut frozen = Self { cgroup: None, stopped: HashSet::new() };
        for _ in 0..ROUNDS_MAX {
            let fresh = descendants(first)?.into_iter().filter(|one| !frozen.stopped.contains(one));
            let fresh: Vec<_> = fresh.collect();
            if fresh.is_empty() {
                return Ok(frozen);
            }
            for process in fresh {
                process.signal(Signal::STOP)?;
                frozen.stopped.insert(process);
            }
        }
        Err(io::Error::other("the neuron starts processes faster than they can be stopped"))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            thaw(std::slice::from_ref(cgroup));
        }
        for process in &self.stopped {
            // One that is gone need not go on.
            let _sent = process.signal(Signal::CONT);
        }
    }
}

/// Lets a neuron go on that somebody froze who is dead.
pub(super) fn thaw(cgroups: &[PathBuf]) {
    for cgroup in cgroups {
        let path = cgroup.join("cgroup.freeze");
        if path.exists()
            && let Err(error) = std::fs::write(&path, "0")
        {
            tracing::warn!(%error, path = %path.display(), "a neuron could not be let go on");
        }
    }
}

/// Whether a cgroup can freeze, and the process is in it.
fn holds(cgroup: &Path, process: Identity) -> bool {
    let members = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    cgroup.join("cgroup.freeze").exists()
        && members.lines().any(|line| line.parse() == Ok(process.pid))
}

fn wait_until_frozen(cgroup: &Path) -> io::Result<()> {
    let since = Instant::now();
    while since.elapsed() < FREEZE_TIME {
        let events = std::fs::read_to_string(cgroup.join("cgroup.events"))?;
        if events.lines().any(|line| line == "frozen 1") {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the neuron does not stand still"))
}

/// Returns what descends from a process. Whatever a neuron starts descends from its first process,
/// however it tries to get away.
fn descendants(first: Identity) -> io::Result<Vec<Identity>> {
    let mut children: HashMap<u32, Vec<Identity>> = HashMap::new();
    for (process, parent) in parents()? {
        children.entry(parent).or_default().push(process);
    }
    let (mut found, mut ahead) = (Vec::new(), vec![first.pid]);
    while let Some(pid) = ahead.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            ahead.push(child.pid);
            found.push(child);
        }
    }
    Ok(found)
}
