//! The cgroups of a neuron: limits where a hierarchy has the controller, and one group of the
//! second version where there is any, to freeze and kill by.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::layer::Layer;
use super::notes::Notes;
use super::plan::{Limits, Plan};
use crate::cgroup;

/// What a neuron's groups are called before its name.
const PREFIX: &str = "narthex-neuron-";

/// The period of processor time in microseconds: the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// The least processor time that the kernel takes, in microseconds per period.
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// How often to try to remove a group whose processes are just dying: half a second in all.
const REMOVE_TRIES: usize = 100;

/// How old a group must be before it counts as left behind: a start takes milliseconds.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// How many groups of a hierarchy one sweep looks at: a few starts later all are gone.
const SWEEP_MAX: usize = 64;

/// One hierarchy of cgroups and where this process is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Its controllers; none for the second version, which lists them in a file.
    controllers: Vec<String>,
    mount: PathBuf,
    own: PathBuf,
    is_unified: bool,
}

/// The groups that were made for a neuron.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// All of them.
    pub(super) made: Vec<PathBuf>,
    /// The one of the second version, in which the first process can be born.
    pub(super) unified: Option<PathBuf>,
}

impl Groups {
    /// Makes them. What cannot be had is noted as missing; nothing of it is a failure.
    pub(super) fn make(plan: &Plan, notes: &mut Notes) -> Self {
        let mut groups = Self::default();
        let hierarchies = hierarchies();
        let name = format!("{PREFIX}{}", plan.name);
        let mut settings = Setting::of(&plan.limits, plan);
        let counts_by_user = plan.layers.has(Layer::User);
        if counts_by_user && settings.iter().all(|setting| setting.layer == Layer::Pids) {
            // The limit of resources holds as well, and to enter a group of the first version
            // takes the kernel some milliseconds. Beside other limits it costs nothing more.
            for setting in &mut settings {
                setting.first.clear();
            }
        }
        for hierarchy in &hierarchies {
            let wanted: Vec<&Setting> =
                settings.iter().filter(|setting| setting.is_for(hierarchy)).collect();
            if wanted.is_empty() && !hierarchy.is_unified {
                continue;
            }
            for parent in parents(plan, hierarchy) {
                let Ok(path) = hierarchy.make_below(&parent, &name, &wanted) else { continue };
                for setting in &wanted {
                    if setting.write(&path, hierarchy.is_unified).is_ok() {
                        notes.have(setting.layer);
                    }
                }
                if hierarchy.is_unified {
                    groups.unified = Some(path.clone());
                }
                groups.made.push(path);
                break;
            }
        }
        for setting in settings {
            // The limit of processes is one of resources as well.
            if !notes.layers.has(setting.layer) && setting.layer != Layer::Pids {
                notes.lack(setting.layer, setting.reason(&hierarchies));
            }
        }
        groups
    }

    /// Puts a process into all of them but the one in which it was born.
    pub(super) fn place(&self, pid: Pid, is_born_in: bool) -> io::Result<()> {
        for group in &self.made {
            if !(is_born_in && self.unified.as_ref() == Some(group)) {
                fs::write(group.join("cgroup.procs"), pid.as_raw_pid().to_string())?;
            }
        }
        Ok(())
    }
}

/// A limit as a controller takes it.
struct Setting {
    layer: Layer,
    controller: &'static str,
    /// File and value of the first version, then of the second; the first of each must hold.
    first: Vec<(&'static str, String)>,
    second: Vec<(&'static str, String)>,
}

impl Setting {
    fn of(limits: &Limits, plan: &Plan) -> Vec<Self> {
        let memory = limits.memory_bytes.map(|bytes| Self {
            layer: Layer::Memory,
            controller: "memory",
            first: vec![
                ("memory.limit_in_bytes", bytes.to_string()),
                // With swap: not every kernel counts it.
                ("memory.memsw.limit_in_bytes", bytes.to_string()),
            ],
            second: vec![("memory.max", bytes.to_string()), ("memory.swap.max", "0".to_owned())],
        });
        let pids = limits.pids.map(|pids| Self {
            layer: Layer::Pids,
            controller: "pids",
            first: vec![("pids.max", pids.to_string())],
            second: vec![("pids.max", pids.to_string())],
        });
        let cpu = limits.cpu_millis.map(|millis| {
            let quota = (u64::from(millis) * CPU_PERIOD_US / 1_000).max(CPU_QUOTA_MIN_US);
            Self {
                layer: Layer::Cpu,
                controller: "cpu",
                first: vec![
                    ("cpu.cfs_quota_us", quota.to_string()),
                    ("cpu.cfs_period_us", CPU_PERIOD_US.to_string()),
                ],
                second: vec![("cpu.max", format!("{quota} {CPU_PERIOD_US}"))],
            }
        });
        let all = [memory, pids, cpu].into_iter().flatten();
        all.filter(|setting| plan.layers.has(setting.layer)).collect()
    }

    fn is_for(&self, hierarchy: &Hierarchy) -> bool {
        let values = if hierarchy.is_unified { &self.second } else { &self.first };
        !values.is_empty() && hierarchy.has(self.controller)
    }

    fn write(&self, group: &Path, is_unified: bool) -> io::Result<()> {
        let values = if is_unified { &self.second } else { &self.first };
        for (number, (file, value)) in values.iter().enumerate() {
            let written = fs::write(group.join(file), value);
            if number == 0 {
                written?;
            }
        }
        Ok(())
    }

    fn reason(&self, hierarchies: &[Hierarchy]) -> String {
        let what = self.controller;
        if hierarchies.iter().any(|hierarchy| hierarchy.has(what)) {
            format!(
                "the limit of {what} is not in force: no cgroup with the controller {what} can be \
                 made; run as root, or let the service manager delegate it (Delegate=yes)"
            )
        } else {
            format!(
                "the limit of {what} is not in force: no hierarchy of cgroups has the controller \
                 {what} here; mount one that has"
            )
        }
    }
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        if self.is_unified {
            let file = self.mount.join("cgroup.controllers");
            let listed = fs::read_to_string(file).unwrap_or_default();
            return listed.split_ascii_whitespace().any(|name| name == controller);
        }
        self.controllers.iter().any(|name| name == controller)
    }

    fn make_below(&self, parent: &Path, name: &str, wanted: &[&Setting]) -> io::Result<PathBuf> {
        if self.is_unified {
            for setting in wanted {
                // Refused where the group has processes of its own: the one above may do.
                fs::write(
                    parent.join("cgroup.subtree_control"),
                    format!("+{}", setting.controller),
                )?;
            }
        }
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Ok(()) => {}
            // Of a neuron of that name that is gone.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                cgroup::end(&path, REMOVE_TRIES);
                fs::create_dir(&path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(path)
    }
}

/// The groups below which a neuron's may be made, the best first.
fn parents(plan: &Plan, hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let given: Vec<PathBuf> = plan
        .cgroup_parents
        .iter()
        .filter(|path| path.starts_with(&hierarchy.mount))
        .cloned()
        .collect();
    if !given.is_empty() {
        return given;
    }
    let above = hierarchy.own.ancestors().take_while(|path| path.starts_with(&hierarchy.mount));
    above.map(Path::to_path_buf).collect()
}

/// Returns the groups of a neuron of this name that are there: for one whose report was lost.
pub fn find_cgroups(name: &str, parents_of: &[PathBuf]) -> Vec<PathBuf> {
    let name = format!("{PREFIX}{name}");
    let mut found = Vec::new();
    for hierarchy in hierarchies() {
        let above = hierarchy.own.ancestors().take_while(|path| path.starts_with(&hierarchy.mount));
        for parent in above.chain(parents_of.iter().map(PathBuf::as_path)) {
            let path = parent.join(&name);
            if path.is_dir() && !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Ends whatever is in the groups and removes them; waits at most half a second for each. Groups
/// that are not a neuron's are left alone.
pub fn remove_cgroups(groups: &[PathBuf]) {
    for group in groups {
        let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX) {
            cgroup::end(group, REMOVE_TRIES);
        }
    }
}

/// Removes groups of neurons that are gone and that nobody will ever remove, since their home is
/// gone as well. One in which anything lives stays: the kernel refuses; so does one that was made
/// just now, whose first process may be on its way.
pub(super) fn sweep() {
    for hierarchy in hierarchies() {
        let above = hierarchy.own.ancestors().take_while(|path| path.starts_with(&hierarchy.mount));
        let groups = above.filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
        let is_ours = |entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
        };
        let is_old = |entry: &fs::DirEntry| {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            changed.ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= SWEEP_AGE)
        };
        let old = groups.filter(|entry| is_ours(entry) && is_old(entry));
        for group in old.take(SWEEP_MAX) {
            // Somebody lives there, or somebody else was quicker.
            let _removed = fs::remove_dir(group.path()).is_ok();
        }
    }
}

fn hierarchies() -> Vec<Hierarchy> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    read(&groups, &mounts)
}

fn read(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let mut kind = kind.split(' ');
        let is_unified = match kind.next() {
            Some("cgroup2") => true,
            Some("cgroup") => false,
            _ => continue,
        };
        let options: Vec<&str> = kind.nth(1).unwrap_or_default().split(',').collect();
        let mut fields = place.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let fits = if is_unified {
                names.is_empty()
            } else {
                !names.is_empty() && names.split(',').all(|name| options.contains(&name))
            };
            fits.then(|| (names.to_owned(), path.to_owned()))
        });
        let Some((names, path)) = own else { continue };
        let Some(below) = path.strip_prefix(root.trim_end_matches('/')) else { continue };
        let is_plain = below.is_empty() || below.starts_with('/');
        // Paths with blanks are escaped; nobody mounts cgroups there.
        if !is_plain || point.contains('\\') || below.contains("/..") {
            continue;
        }
        let mount = PathBuf::from(point);
        if found.iter().any(|known| known.mount == mount) {
            continue;
        }
        found.push(Hierarchy {
            controllers: names.split(',').map(str::to_owned).collect(),
            own: mount.join(below.trim_start_matches('/')),
            mount,
            is_unified,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_read() {
        let groups = "9:name=systemd:/\n8:pids:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        let mounts = "30 25 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            31 30 0:28 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n\
            32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = read(groups, mounts);
        let shown: Vec<_> = found
            .iter()
            .map(|h| (h.controllers.join("+"), h.own.display().to_string(), h.is_unified))
            .collect();
        let expected = [
            ("memory", "/sys/fs/cgroup/memory/a/b", false),
            ("cpu+cpuacct", "/sys/fs/cgroup/cpu/", false),
            ("", "/sys/fs/cgroup/unified/", true),
        ];
        assert_eq!(shown, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c)));
        assert!(found[1].has("cpuacct") && !found[1].has("memory"));
    }

    #[test]
    fn groups_of_others_are_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("session.slice");
        std::fs::create_dir(&other).unwrap();
        remove_cgroups(std::slice::from_ref(&other));
        assert!(other.exists());
    }
}
