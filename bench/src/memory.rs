//! The memory of a process and all that descend from it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the tree is looked at. A command that lives shorter is seen only by chance.
const PERIOD: Duration = Duration::from_millis(2);

/// The memory of a tree at its greatest, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Peak {
    /// All processes together, commands of tools included; pages that are shared count for each.
    pub(crate) tree: f64,
    /// The same without processes that run under other names than the root and its agent.
    pub(crate) own: f64,
    /// The root process by itself, as the kernel remembers it.
    pub(crate) root: f64,
}

/// Watches a tree until it is told to stop.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn start(root: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut peak = Peak::default();
            while !flag.load(Ordering::Relaxed) {
                look(root, &mut peak);
                std::thread::sleep(PERIOD);
            }
            peak
        });
        Self { stop, thread }
    }

    /// Stops and returns the greatest figures.
    pub(crate) fn stop(self) -> Peak {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

struct Process {
    pid: u32,
    parent: u32,
    name: String,
}

fn look(root: u32, peak: &mut Peak) {
    let processes = processes();
    let mut tree = HashSet::from([root]);
    // Parents mostly come before their children; a few passes find the rest.
    for _ in 0..4 {
        let known = tree.len();
        for process in &processes {
            if tree.contains(&process.parent) {
                tree.insert(process.pid);
            }
        }
        if tree.len() == known {
            break;
        }
    }
    let root_name = processes.iter().find(|process| process.pid == root).map(|it| &it.name);
    let (mut all, mut own) = (0.0, 0.0);
    for process in processes.iter().filter(|process| tree.contains(&process.pid)) {
        let resident = status(process.pid, "VmRSS:");
        all += resident;
        if Some(&process.name) == root_name || process.name.contains("narthex") {
            own += resident;
        }
    }
    peak.tree = peak.tree.max(all);
    peak.own = peak.own.max(own);
    peak.root = peak.root.max(status(root, "VmHWM:"));
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may contain anything.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    Some(Process { pid, parent, name })
}

/// The resident memory of a process as it is now, in MiB; 0 for one that is gone.
pub(crate) fn resident(pid: u32) -> f64 {
    status(pid, "VmRSS:")
}

/// The resident memory of a process at its greatest, in MiB; 0 for one that is gone.
pub(crate) fn greatest(pid: u32) -> f64 {
    status(pid, "VmHWM:")
}

/// The proportional memory of a process in MiB: a page that n processes share counts for a nth.
pub(crate) fn proportional(pid: u32) -> f64 {
    size(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// The proportional and the resident memory of these processes and all that descend from them, in
/// MiB.
pub(crate) fn of_trees(roots: &HashSet<u32>) -> (f64, f64) {
    let processes = processes();
    let mut all = roots.clone();
    loop {
        let known = all.len();
        let children = processes.iter().filter(|process| all.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.pid).collect();
        all.extend(children);
        if all.len() == known {
            break;
        }
    }
    let add = |(shared, whole), pid: &u32| (shared + proportional(*pid), whole + resident(*pid));
    all.iter().fold((0.0, 0.0), add)
}

/// The ids of a process's children that are agents.
pub(crate) fn agents(parent: u32) -> Vec<u32> {
    let is_agent = |process: &Process| process.parent == parent && process.name.contains("narthex");
    processes().into_iter().filter(is_agent).map(|process| process.pid).collect()
}

/// Returns a size of a process in MiB; 0 for one that is gone.
fn status(pid: u32, name: &str) -> f64 {
    size(&format!("/proc/{pid}/status"), name)
}

fn size(path: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_at_least_its_root() {
        let (shared, whole) = of_trees(&HashSet::from([std::process::id()]));
        assert!(shared > 0.1 && whole >= shared, "{shared} of {whole}");
    }

    #[test]
    fn this_process_is_seen() {
        let mut peak = Peak::default();
        look(std::process::id(), &mut peak);
        assert!(peak.root > 0.5 && peak.own > 0.5 && peak.tree >= peak.own, "{peak:?}");
    }
}
