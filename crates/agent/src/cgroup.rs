//! A cgroup for everything that one agent starts.
//!
//! The minders do the work while they live. The cgroup is for the case that agent and minders
//! were killed together: its name says whose it was, and the next agent ends what is left in it.
//! Only the second version of cgroups can do that (`cgroup.kill`); it needs no controllers for
//! it, so the `unified` hierarchy beside the first version does as well. Without one, all else
//! still holds.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, getpid};

use crate::tree::Stat;

const PREFIX: &str = "narthex-agent-";

/// How often to try to remove a group whose processes are just dying: a tenth of a second in all.
const REMOVE_TRIES: usize = 20;

/// A killed process is gone within a few milliseconds.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// How deep groups are removed: an agent in a command of an agent, a few times over.
const DEPTH_MAX: usize = 8;

/// The cgroup of this agent.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    folder: OwnedFd,
}

/// Whose a cgroup is. Process ids are told apart by their namespace, and in time by the start.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    namespace: u64,
    pid: i32,
    started: u64,
}

impl Name {
    fn of_self() -> Option<Self> {
        let pid = getpid();
        Some(Self {
            namespace: namespace()?,
            pid: pid.as_raw_pid(),
            started: Stat::of(pid)?.started,
        })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let namespace = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { namespace, pid, started })
    }

    fn text(&self) -> String {
        format!("{PREFIX}{}-{}-{}", self.namespace, self.pid, self.started)
    }

    /// Tells whether the agent of that name certainly lives no more. Of another namespace's
    /// processes nothing can be said.
    fn is_dead(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| Some(self.namespace) == namespace())
        else {
            return false;
        };
        Stat::of(pid).is_none_or(|stat| stat.is_dead || stat.started != self.started)
    }
}

fn namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

impl Cgroup {
    /// Makes the group below the one that this process is in, where that is allowed.
    pub(crate) fn make() -> Option<Self> {
        let path = own_group()?.join(Name::of_self()?.text());
        fs::create_dir(&path).ok()?;
        let made = Self::open(path.clone());
        if made.is_none() {
            // A hierarchy without `cgroup.kill` (before 5.14) is of no use here.
            let _removed = fs::remove_dir(&path);
        }
        made
    }

    fn open(path: PathBuf) -> Option<Self> {
        fs::exists(path.join("cgroup.kill")).ok().filter(|exists| *exists)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        Some(Self { path, folder })
    }

    /// Ends what dead agents left beside this group.
    pub(crate) fn sweep(&self) {
        let Some(Ok(entries)) = self.path.parent().map(fs::read_dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_stale = name.to_str().and_then(Name::parse).is_some_and(|name| name.is_dead());
            if is_stale {
                end(&entry.path(), 1);
            }
        }
    }

    /// Ends whatever is in the group and removes it.
    pub(crate) fn end(&self) {
        end(&self.path, REMOVE_TRIES);
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// Ends what is in a group and removes it.
pub(crate) fn end(path: &Path, tries: usize) {
    // Kills the processes of the groups below as well, at once and without a way to escape.
    let _killed = fs::write(path.join("cgroup.kill"), "1");
    for _ in 0..tries {
        if remove(path, DEPTH_MAX).is_ok() {
            return;
        }
        std::thread::sleep(REMOVE_PAUSE);
    }
}

fn remove(path: &Path, depth: usize) -> io::Result<()> {
    if depth > 0 {
        for entry in fs::read_dir(path)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path(), depth - 1)?;
            }
        }
    }
    fs::remove_dir(path)
}

/// Returns the folder of the group that this process is in.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    locate(&groups, &mounts)
}

fn locate(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        if kind.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = place.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // Paths with blanks are escaped; nobody mounts cgroups there.
        let below = own.strip_prefix(root.trim_end_matches('/'))?;
        let fits = below.is_empty() || below.starts_with('/');
        let is_plain = !point.contains('\\') && !below.contains("/..");
        (fits && is_plain).then(|| Path::new(point).join(below.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let name = Name { namespace: 4_026_531_836, pid: 17, started: 99 };
        assert_eq!(Name::parse(&name.text()), Some(name));
        for foreign in ["narthex-agent-1-2", "narthex-agent-1-2-3-4", "session.slice"] {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn only_a_process_that_is_gone_counts_as_dead() {
        let own = Name::of_self().unwrap();
        assert!(!own.is_dead());
        assert!(Name { started: own.started + 1, ..own.clone() }.is_dead());
        let elsewhere = Name { namespace: 1, started: own.started + 1, ..own };
        assert!(!elsewhere.is_dead());
    }

    #[test]
    fn the_own_group_is_found_in_each_kind_of_mount() {
        let v2 = "30 25 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
        let hybrid = "31 25 0:28 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw";
        let part = "32 25 0:28 /pod/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let cases = [
            ("0::/user.slice/x.scope", v2, Some("/sys/fs/cgroup/user.slice/x.scope")),
            ("9:pids:/\n0::/", hybrid, Some("/sys/fs/cgroup/unified/")),
            ("0::/pod/a/b", part, Some("/sys/fs/cgroup/b")),
            ("0::/pod/ab", part, None),
            ("0::/../x", v2, None),
            ("9:pids:/", hybrid, None),
            ("0::/", "33 25 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw", None),
        ];
        for (groups, mounts, expected) in cases {
            assert_eq!(locate(groups, mounts), expected.map(PathBuf::from), "{groups} {mounts}");
        }
    }
}
