//! The cgroups of a neuron: limits where a hierarchy has the controller, and one group of the
//! second version where there is any, to freeze and kill by.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
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
    /// Which of them sets a limit for what.
    limits: Vec<(PathBuf, Layer)>,
}

impl Groups {
    /// Makes them. What cannot be had is noted as missing; nothing of it is a failure.
    pub(super) fn make(plan: &Plan, notes: &mut Notes) -> Self {
        Self::make_in(&hierarchies(), plan, notes)
    }

    fn make_in(hierarchies: &[Hierarchy], plan: &Plan, notes: &mut Notes) -> Self {
        let mut groups = Self::default();
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
        for hierarchy in hierarchies {
            let wanted: Vec<&Setting> =
                settings.iter().filter(|setting| setting.is_for(hierarchy)).collect();
            if wanted.is_empty() && !hierarchy.is_unified {
                continue;
            }
            let Some((path, enabled)) =
                hierarchy.make_group(parents(plan, hierarchy), &name, &wanted)
            else {
                continue;
            };
            for setting in enabled {
                if setting.write(&path, hierarchy.is_unified).is_ok() {
                    notes.have(setting.layer);
                    groups.limits.push((path.clone(), setting.layer));
                }
            }
            if hierarchy.is_unified {
                groups.unified = Some(path.clone());
            }
            groups.made.push(path);
        }
        for setting in settings {
            // The limit of processes is one of resources as well.
            if !notes.layers.has(setting.layer) && setting.layer != Layer::Pids {
                notes.lack(setting.layer, setting.reason(hierarchies));
            }
        }
        groups
    }

    /// Puts a process into all of them but the one in which it was born. One that it may not enter
    /// is let go of, and what it would have limited is noted as missing: who may make a group need
    /// not be allowed to move somebody there from where he is.
    pub(super) fn place(&mut self, pid: Pid, is_born_in: bool, notes: &mut Notes) {
        let born = self.unified.clone().filter(|_| is_born_in);
        let (limits, unified) = (&self.limits, &mut self.unified);
        self.made.retain(|group| {
            if born.as_ref() == Some(group) {
                return true;
            }
            let entered = fs::write(group.join("cgroup.procs"), pid.as_raw_pid().to_string());
            let error = match entered {
                // A process that is gone has said why.
                Err(error) if error.raw_os_error() != Some(Errno::SRCH.raw_os_error()) => error,
                _ => return true,
            };
            for (_, layer) in limits.iter().filter(|(path, _)| path == group) {
                notes.layers = notes.layers.without(*layer);
                if *layer == Layer::Pids {
                    // Of resources there is a limit as well.
                    continue;
                }
                let what = layer.as_str();
                let reason = format!(
                    "the limit of {what} is not in force: the neuron may not enter its cgroup: \
                     {error}; run as root, or let the service manager delegate a cgroup that \
                     narthex itself is in (Delegate=yes)"
                );
                notes.lack(*layer, reason);
            }
            if unified.as_ref() == Some(group) {
                *unified = None;
            }
            let _removed = fs::remove_dir(group).is_ok();
            false
        });
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

    /// Makes a group below the first of these in which all can be limited that is wanted; where
    /// there is none, below the first of those in which most can. Returns what can.
    fn make_group<'s>(
        &self,
        parents: Vec<PathBuf>,
        name: &str,
        wanted: &[&'s Setting],
    ) -> Option<(PathBuf, Vec<&'s Setting>)> {
        let mut lesser: Vec<(PathBuf, Vec<&Setting>)> = Vec::new();
        for parent in parents {
            let can = |setting: &&Setting| self.enable(&parent, setting.controller).is_ok();
            let enabled: Vec<_> = wanted.iter().copied().filter(can).collect();
            if enabled.len() < wanted.len() {
                lesser.push((parent, enabled));
            } else if let Ok(path) = Self::make_below(&parent, name) {
                return Some((path, enabled));
            }
        }
        lesser.sort_by_key(|(_, enabled)| std::cmp::Reverse(enabled.len()));
        let mut lesser = lesser.into_iter();
        lesser.find_map(|(parent, enabled)| Some((Self::make_below(&parent, name).ok()?, enabled)))
    }

    /// Sees to it that groups below this one have a controller.
    fn enable(&self, parent: &Path, controller: &str) -> io::Result<()> {
        if !self.is_unified {
            return Ok(());
        }
        let lists = |file: &str| {
            let listed = fs::read_to_string(parent.join(file));
            listed.map(|listed| listed.split_ascii_whitespace().any(|name| name == controller))
        };
        // As it is in a subtree that somebody delegated with some of them.
        if !lists("cgroup.controllers")? {
            return Err(io::ErrorKind::NotFound.into());
        }
        if lists("cgroup.subtree_control").unwrap_or_default() {
            return Ok(());
        }
        // Refused where the group has processes of its own: one above may do.
        fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"))
    }

    fn make_below(parent: &Path, name: &str) -> io::Result<PathBuf> {
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

    /// A hierarchy of the second version in a folder: `/a/b` is where this process is. Each of the
    /// three has its controllers, and a group that says `None` has processes of its own, so that
    /// it cannot pass any on.
    fn faked(top: &Path, controllers: [Option<&str>; 3]) -> Hierarchy {
        let mut path = top.to_owned();
        for (name, controllers) in ["", "a", "b"].into_iter().zip(controllers) {
            path.push(name);
            fs::create_dir_all(&path).unwrap();
            let text = controllers.unwrap_or("memory pids cpu");
            fs::write(path.join("cgroup.controllers"), format!("{text}\n")).unwrap();
            if controllers.is_none() {
                // Nobody writes to a folder, not even root.
                fs::create_dir(path.join("cgroup.subtree_control")).unwrap();
            }
        }
        let (mount, own) = (top.to_owned(), top.join("a/b"));
        Hierarchy { controllers: vec![String::new()], mount, own, is_unified: true }
    }

    fn limited(limits: Limits) -> Plan {
        Plan {
            name: "n-1".to_owned(),
            layers: super::super::layer::Layers::ALL,
            base: super::super::plan::Base::default(),
            layer: "/".into(),
            disk: None,
            folder: None,
            home: "/home/neuron".into(),
            host_id: None,
            limits,
            cgroup_parents: Vec::new(),
            egress: None,
            files: Vec::new(),
        }
    }

    const ALL: Limits = Limits {
        memory_bytes: Some(1 << 30),
        pids: Some(64),
        cpu_millis: Some(1_500),
        disk_bytes: None,
    };

    fn made(top: &Path, controllers: [Option<&str>; 3], plan: &Plan) -> (Groups, Notes) {
        let hierarchy = faked(top, controllers);
        let mut notes = Notes::default();
        let groups = Groups::make_in(&[hierarchy], plan, &mut notes);
        (groups, notes)
    }

    fn says(group: &Path, file: &str) -> Option<String> {
        fs::read_to_string(group.join(file)).ok()
    }

    #[test]
    fn limits_of_the_second_version_are_written_where_the_process_is() {
        let top = tempfile::tempdir().unwrap();
        let all = Some("cpu memory pids io");
        let (groups, notes) = made(top.path(), [all; 3], &limited(ALL));
        let own = top.path().join("a/b/narthex-neuron-n-1");
        assert_eq!(groups.made, std::slice::from_ref(&own));
        assert_eq!(groups.unified.as_ref(), Some(&own));
        for (file, value) in [
            ("memory.max", "1073741824"),
            ("memory.swap.max", "0"),
            ("pids.max", "64"),
            ("cpu.max", "150000 100000"),
        ] {
            assert_eq!(says(&own, file).as_deref(), Some(value), "{file}");
        }
        for layer in [Layer::Memory, Layer::Pids, Layer::Cpu] {
            assert!(notes.layers.has(layer), "{layer:?}");
        }
        assert!(notes.missing.is_empty(), "{:?}", notes.missing);
        // What nobody limits needs no controller, but the group is there to freeze and kill by.
        let top = tempfile::tempdir().unwrap();
        let (groups, notes) = made(top.path(), [None; 3], &limited(Limits::default()));
        assert_eq!(groups.made, [top.path().join("a/b/narthex-neuron-n-1")]);
        assert!(notes.missing.is_empty() && says(&groups.made[0], "pids.max").is_none());
    }

    #[test]
    fn a_group_with_processes_of_its_own_is_passed_over_for_one_above() {
        let top = tempfile::tempdir().unwrap();
        let all = Some("cpu memory pids");
        let (groups, notes) = made(top.path(), [all, all, None], &limited(ALL));
        assert_eq!(groups.made, [top.path().join("a/narthex-neuron-n-1")]);
        assert!(notes.missing.is_empty(), "{:?}", notes.missing);
        // What a group passes on already is not written again, which may be forbidden.
        let top = tempfile::tempdir().unwrap();
        let hierarchy = faked(top.path(), [all, all, None]);
        let passed = top.path().join("a/cgroup.subtree_control");
        fs::write(&passed, "cpu memory pids\n").unwrap();
        Groups::make_in(&[hierarchy], &limited(ALL), &mut Notes::default());
        assert_eq!(fs::read_to_string(passed).unwrap(), "cpu memory pids\n");
    }

    #[test]
    fn a_controller_that_was_not_delegated_takes_no_other_along() {
        let top = tempfile::tempdir().unwrap();
        let some = Some("memory pids");
        let (groups, notes) = made(top.path(), [None, some, None], &limited(ALL));
        let group = top.path().join("a/narthex-neuron-n-1");
        assert_eq!(groups.made, std::slice::from_ref(&group));
        assert_eq!(says(&group, "memory.max").as_deref(), Some("1073741824"));
        assert_eq!(says(&group, "cpu.max"), None);
        assert!(notes.layers.has(Layer::Memory) && !notes.layers.has(Layer::Cpu));
        let missing: Vec<_> = notes.missing.iter().map(|entry| entry.layer).collect();
        assert_eq!(missing, [Layer::Cpu]);
        assert!(notes.missing[0].reason.contains("Delegate=yes"), "{:?}", notes.missing);
    }

    #[test]
    fn what_no_hierarchy_has_is_told() {
        let top = tempfile::tempdir().unwrap();
        let (groups, notes) = made(top.path(), [Some("io"); 3], &limited(ALL));
        assert_eq!(groups.made.len(), 1, "a group without a limit can still be killed by");
        let reasons: Vec<_> = notes.missing.iter().map(|entry| entry.reason.as_str()).collect();
        assert_eq!(
            reasons.len(),
            2,
            "processes are limited by a limit of resources too: {reasons:?}"
        );
        assert!(reasons.iter().all(|reason| reason.contains("no hierarchy")), "{reasons:?}");
        let mut notes = Notes::default();
        let groups = Groups::make_in(&[], &limited(ALL), &mut notes);
        assert!(groups.made.is_empty() && notes.missing.len() == 2);
    }

    #[test]
    fn parents_that_are_given_are_the_only_ones() {
        let top = tempfile::tempdir().unwrap();
        let all = Some("cpu memory pids");
        let mut plan = limited(ALL);
        plan.cgroup_parents = vec![top.path().join("given"), "/elsewhere".into()];
        let given = top.path().join("given");
        fs::create_dir(&given).unwrap();
        fs::write(given.join("cgroup.controllers"), "cpu memory pids").unwrap();
        let (groups, _) = made(top.path(), [all; 3], &plan);
        assert_eq!(groups.made, [given.join("narthex-neuron-n-1")]);
    }

    #[test]
    fn a_group_that_may_not_be_entered_limits_nothing() {
        let pid = rustix::process::getpid();
        let top = tempfile::tempdir().unwrap();
        let all = Some("cpu memory pids");
        let (mut groups, mut notes) = made(top.path(), [all; 3], &limited(ALL));
        let group = groups.made[0].clone();
        groups.place(pid, false, &mut notes);
        assert_eq!(says(&group, "cgroup.procs"), Some(pid.as_raw_pid().to_string()));
        assert!(notes.missing.is_empty() && groups.made.len() == 1);
        fs::remove_file(group.join("cgroup.procs")).unwrap();
        // Nobody writes to a folder.
        fs::create_dir(group.join("cgroup.procs")).unwrap();
        groups.place(pid, true, &mut notes);
        assert_eq!(groups.made.len(), 1, "it was born there");
        groups.place(pid, false, &mut notes);
        assert!(groups.made.is_empty() && groups.unified.is_none());
        let missing: Vec<_> = notes.missing.iter().map(|entry| entry.layer).collect();
        assert_eq!(missing, [Layer::Memory, Layer::Cpu]);
        assert!([Layer::Memory, Layer::Cpu].iter().all(|layer| !notes.layers.has(*layer)));
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
