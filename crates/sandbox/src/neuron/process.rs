//! Processes of other parents: which one it is, whether it lives, its end.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// How long a killed process may take to be gone. One that is stuck in the kernel is stuck longer
/// than anybody waits.
const END_TIME: Duration = Duration::from_secs(10);

/// A process and when it was started: a number alone may be somebody else's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// In clock ticks since the machine was started.
    pub(super) started: u64,
}

impl Identity {
    /// Returns the identity of a living process; none where there is none of that number.
    ///
    /// # Errors
    /// When that cannot be told, for example for want of a descriptor: files are taken away from
    /// the dead, so that nobody is taken for dead who only could not be looked at.
    pub(super) fn of(pid: u32) -> io::Result<Option<Self>> {
        let text = stat_of(pid)?.unwrap_or_default();
        Ok(parent_and_start(&text).map(|(_, started)| Self { pid, started }))
    }

    /// Returns whether it lives. One that is dead and whose parent has not asked yet does not.
    ///
    /// # Errors
    /// As [`Identity::of`].
    pub(super) fn is_alive(self) -> io::Result<bool> {
        Ok(Self::of(self.pid)? == Some(self))
    }

    /// Sends it a signal, where it still is the one.
    pub(super) fn signal(self, signal: Signal) -> io::Result<()> {
        self.reach(signal).map(drop)
    }

    /// Kills it, where it still is the one, and waits until it is gone.
    pub(super) fn end(self) -> io::Result<()> {
        let Some(handle) = self.reach(Signal::KILL)? else { return Ok(()) };
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        let limit = Timespec::try_from(END_TIME).ok();
        let count = rustix::io::retry_on_intr(|| poll(&mut watched, limit.as_ref()))?;
        if count == 0 {
            let text = format!("process {} was killed and does not end", self.pid);
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(())
    }

    /// Signals it and returns a handle of it; nothing where it is gone.
    fn reach(self, signal: Signal) -> io::Result<Option<OwnedFd>> {
        let number = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Ok(None) };
        let handle = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // From here on the handle is of one process for good, so that this look decides.
        if !self.is_alive()? {
            return Ok(None);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(Some(handle)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns every living process with the number of its parent.
pub(super) fn parents() -> io::Result<Vec<(Identity, u32)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may be gone by now.
        let text = stat_of(pid)?.unwrap_or_default();
        all.extend(
            parent_and_start(&text).map(|(parent, started)| (Identity { pid, started }, parent)),
        );
    }
    Ok(all)
}

/// Returns the line that the system tells of a process; none where it is gone.
fn stat_of(pid: u32) -> io::Result<Option<String>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // It ended between the opening and the reading.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the parent and the start time from a line of `/proc/PID/stat`, of a process that lives.
fn parent_and_start(line: &str) -> Option<(u32, u64)> {
    // The name in parentheses may hold anything, parentheses too.
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    Some((parent, fields.nth(17)?.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "these tests end processes of their own")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_line_of_a_process_is_read_whatever_its_name() {
        let rest = "1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parent_and_start(&format!("7 (a) b)) S {rest}")), Some((1, 4711)));
        assert_eq!(parent_and_start(&format!("7 (a) Z {rest}")), None);
        assert_eq!(parent_and_start("7 (a) S 1"), None);
    }

    #[test]
    fn the_right_process_is_ended_and_no_other() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        assert!(identity.is_alive().unwrap());
        let other = Identity { started: identity.started + 1, ..identity };
        assert!(!other.is_alive().unwrap());
        other.end().unwrap();
        assert!(identity.is_alive().unwrap(), "another process of that number was meant");
        identity.end().unwrap();
        // Its exit was not taken yet.
        assert!(!identity.is_alive().unwrap());
        child.wait().unwrap();
        identity.end().unwrap();
    }
}
