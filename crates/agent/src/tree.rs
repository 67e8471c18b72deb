//! Who descends from a process, and signals that reach exactly those.

use std::collections::{HashSet, VecDeque};
use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open,
    pidfd_send_signal, wait,
};

/// How often a round looks for processes that were forked while it stopped the others.
const STOP_PASSES: usize = 8;

/// The facts of a process that `/proc/PID/stat` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: Option<Pid>,
    pub(crate) is_dead: bool,
    /// In clock ticks since boot: with the id it names a process for good.
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The name stands in parentheses and may contain anything, parentheses too.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(text.get(end + 1..)?).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok().and_then(Pid::from_raw);
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { parent, is_dead: matches!(state, "Z" | "X"), started })
    }
}

/// A descendant and the parent under which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    parent: Pid,
}

/// The descendants of one subreaper: everything that it has to end.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Pid,
    /// Kernels without `/proc/PID/task/TID/children` are scanned as a whole.
    by_scan: bool,
}

impl Tree {
    /// The tree below this process.
    pub(crate) fn of_self() -> Self {
        let by_scan = !fs::exists("/proc/thread-self/children").unwrap_or(false);
        Self { root: getpid(), by_scan }
    }

    /// Lists the living descendants, parents before children, without those in `skip` and what
    /// is below them.
    pub(crate) fn members(&self, skip: &[Pid]) -> Vec<Member> {
        let children = if self.by_scan { scan() } else { Vec::new() };
        let mut found = Vec::new();
        let mut seen: HashSet<Pid> = skip.iter().copied().chain([self.root]).collect();
        let mut queue = VecDeque::from([self.root]);
        while let Some(parent) = queue.pop_front() {
            let below = if self.by_scan { below(&children, parent) } else { listed(parent) };
            for pid in below {
                if seen.insert(pid) {
                    queue.push_back(pid);
                    found.push(Member { pid, parent });
                }
            }
        }
        found.retain(|member: &Member| Stat::of(member.pid).is_some_and(|stat| !stat.is_dead));
        found
    }

    /// Sends a signal to all of them.
    pub(crate) fn signal_all(&self, members: &[Member], signal: Signal) {
        for member in members {
            self.signal(member, signal);
        }
    }

    /// One round of ending for good: stops everything first, so that nothing can fork away from
    /// the list, then kills it. What was born meanwhile is for the next round.
    pub(crate) fn kill_round(&self, skip: &[Pid]) {
        let mut stopped = Vec::new();
        for _ in 0..STOP_PASSES {
            let fresh: Vec<Member> =
                self.members(skip).into_iter().filter(|member| !stopped.contains(member)).collect();
            if fresh.is_empty() {
                break;
            }
            self.signal_all(&fresh, Signal::STOP);
            stopped.extend(fresh);
        }
        self.signal_all(&stopped, Signal::KILL);
    }

    /// Signals a process only if it still is the descendant that was listed. The descriptor pins
    /// the process first and its parent is read after, so that a number that was given to
    /// somebody else meanwhile is noticed.
    fn signal(&self, member: &Member, signal: Signal) {
        let pinned = pidfd_open(member.pid, PidfdFlags::empty());
        let parent = Stat::of(member.pid).and_then(|stat| stat.parent);
        if parent != Some(member.parent) && parent != Some(self.root) {
            return;
        }
        // A process that is gone or belongs to somebody else: `waitpid` tells what remains.
        let _sent = match pinned {
            Ok(process) => pidfd_send_signal(&process, signal),
            Err(Errno::SRCH) => Ok(()),
            // No pidfds here (before 5.3, or out of descriptors): a plain signal still does.
            Err(_) => kill_process(member.pid, signal),
        };
    }
}

/// What `waitpid` has to tell.
pub(crate) enum Reaped {
    /// A child ended.
    Child(Pid, WaitStatus),
    /// Children run.
    Running,
    /// There is no child any more.
    None,
}

/// Takes the status of one child that ended.
pub(crate) fn reap() -> Reaped {
    match rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG)) {
        Ok(Some((pid, status))) => Reaped::Child(pid, status),
        Ok(None) => Reaped::Running,
        Err(_) => Reaped::None,
    }
}

/// The children of all threads of a process.
fn listed(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid())) else {
        return Vec::new();
    };
    let lists = threads.flatten().filter_map(|thread| {
        let mut path = thread.path();
        path.push("children");
        fs::read_to_string(path).ok()
    });
    lists.flat_map(|list| pids(&list)).collect()
}

fn pids(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace()
        .filter_map(|word| word.parse().ok().and_then(Pid::from_raw))
        .collect()
}

/// All processes with their parents.
fn scan() -> Vec<(Pid, Pid)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter_map(|pid| Some((pid, Stat::of(pid)?.parent?))).collect()
}

fn below(all: &[(Pid, Pid)], parent: Pid) -> Vec<Pid> {
    all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_facts() {
        let text = b"42 (a) Z 1 (b)) S 17 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
        let stat = Stat { parent: Pid::from_raw(17), is_dead: false, started: 9876 };
        assert_eq!(Stat::parse(text), Some(stat));
    }

    #[test]
    fn text_that_is_not_a_stat_is_refused() {
        for text in ["", "42 (a", "42 (a) S", "42 (a) S 17 1 1"] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test needs a child of its own")]
    fn both_ways_of_looking_find_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        for by_scan in [true, false] {
            let tree = Tree { root: getpid(), by_scan };
            assert!(tree.members(&[]).iter().any(|member| member.pid == pid), "scan {by_scan}");
            assert!(!tree.members(&[pid]).iter().any(|member| member.pid == pid));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
