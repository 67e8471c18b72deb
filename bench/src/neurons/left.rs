//! What neurons could leave behind on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How deep cgroups are looked for.
const DEPTH: usize = 8;

/// How much of each kind of thing there is.
#[derive(Debug)]
pub(super) struct Left {
    home: PathBuf,
    counts: BTreeMap<&'static str, usize>,
}

impl Left {
    /// Counts what is there now.
    pub(super) fn now(home: &Path) -> Self {
        Self { home: home.to_owned(), counts: counts(home) }
    }

    /// Waits until there is no more of anything than there was: some of it goes with a little
    /// delay, by the kernel.
    ///
    /// # Errors
    /// Names what is left after that time.
    pub(super) async fn wait_for_nothing(&self, time: Duration) -> Result<()> {
        let since = Instant::now();
        loop {
            let now = counts(&self.home);
            let more: Vec<String> = now
                .iter()
                .filter(|(what, count)| **count > self.counts.get(*what).copied().unwrap_or(0))
                .map(|(what, count)| format!("{count} {what}"))
                .collect();
            if more.is_empty() {
                return Ok(());
            }
            if since.elapsed() > time {
                bail!("left behind: {} (before: {:?})", more.join(", "), self.counts);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn counts(home: &Path) -> BTreeMap<&'static str, usize> {
    let shown = home.display().to_string();
    let lines = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.contains(&shown)).count()
    };
    let entries =
        |path: &Path| std::fs::read_dir(path).map_or(0, |entries| entries.flatten().count());
    let neurons = home.join("neurons");
    // The folder of locks stays, with the lock of places in it.
    let folders = entries(&neurons).saturating_sub(1);
    let locks = entries(&neurons.join(".locks")).saturating_sub(1);
    BTreeMap::from([
        ("mounts", lines("/proc/self/mountinfo")),
        ("sockets with a name", lines("/proc/net/unix")),
        ("folders of neurons", folders),
        ("locks", locks),
        ("cgroups", cgroups(Path::new("/sys/fs/cgroup"), DEPTH)),
        ("processes", processes()),
        ("open files", descriptors()),
    ])
}

fn cgroups(folder: &Path, depth: usize) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let folders =
        entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let count = folders.map(|entry| {
        let own = entry.file_name().to_string_lossy().starts_with("narthex-neuron-");
        let inner = if depth > 0 { cgroups(&entry.path(), depth - 1) } else { 0 };
        usize::from(own) + inner
    });
    count.sum()
}

/// Processes of neurons, and of users that neurons have: above those of people and services.
fn processes() -> usize {
    const UID_BASE: u32 = 100_000;
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_ours = |path: PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let uid = path.metadata().map_or(0, |facts| std::os::unix::fs::MetadataExt::uid(&facts));
        uid >= UID_BASE || name.starts_with("narthex-neuron") || name.starts_with("narthex-minder")
    };
    entries.flatten().filter(|entry| is_ours(entry.path())).count()
}

/// Open files of this process that are no pipe, socket or clock of the runtime's own: those are
/// made once.
fn descriptors() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let targets = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| !target.starts_with("/proc")).count()
}
