//! P1 of neurons: what comes and goes leaves nothing behind on the machine.

use std::path::Path;

use testkit::workspace_suite::start;

use super::{BOTH, Land};
use crate::place::{alive, mark, tree, wait_for};

const ROUNDS: usize = 50;

/// How many cgroups are there that a neuron of this test made.
fn cgroups(mark: &str) -> usize {
    fn walk(folder: &Path, mark: &str, depth: usize) -> usize {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let folders =
            entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders
            .map(|entry| {
                let is_ours = entry.file_name().to_string_lossy().contains(mark);
                let inner = if depth > 0 { walk(&entry.path(), mark, depth - 1) } else { 0 };
                usize::from(is_ours) + inner
            })
            .sum()
    }
    walk(Path::new("/sys/fs/cgroup"), mark, 6)
}

fn lines_with(path: &str, mark: &str) -> usize {
    std::fs::read_to_string(path).unwrap().lines().filter(|line| line.contains(mark)).count()
}

#[tokio::test]
async fn fifty_neurons_leave_nothing() {
    for driver in BOTH {
        let land = Land::new();
        let home = land.home().display().to_string();
        let id = format!("leak-{}", std::process::id());
        let mark = mark(21);
        let mut users = Vec::new();
        for _ in 0..ROUNDS {
            land.create(driver, &id).await;
            // A command that nobody stops, and that does not want to stop.
            let (_process, _output) = start(&*land.workspace(&id).await, &tree(&mark)).await;
            wait_for("a tree", || alive(&mark) == 6).await;
            let layer = land.of(&id).join("layer/home").metadata().unwrap();
            users.push(std::os::unix::fs::MetadataExt::uid(&layer));
            land.destroy(&id).await.unwrap();
            wait_for("no process of the neuron", || land.processes() + alive(&mark) == 0).await;
        }
        assert_eq!(lines_with("/proc/self/mountinfo", &home), 0);
        assert_eq!(cgroups(&id), 0);
        // One that was given back is given out again, though others of this machine take some
        // meanwhile.
        users.sort_unstable();
        users.dedup();
        assert!(users.len() < ROUNDS, "users are not given back: {users:?}");
        let open: Vec<_> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|target| target.starts_with(land.home()))
            .collect();
        assert!(open.is_empty(), "left open: {open:?}");
    }
}
