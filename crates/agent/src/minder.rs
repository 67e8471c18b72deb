//! The minder of one command: starts it, waits for it, ends whatever is left of it.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, set_child_subreaper};

use crate::inbox::Inbox;
use crate::tree::{Reaped, Tree, reap};
use crate::wire::{Ended, Reply, Request, Spawn, Status, Step};
use crate::{program, sys};

/// How long descendants may go on by themselves after the command ended: `cmd > >(tee log)` is
/// over only when `tee` has written what it read. A daemon costs its command this long.
const SETTLE: Duration = Duration::from_millis(100);

/// The time between SIGTERM and SIGKILL for what a command left behind.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

/// The same when the agent died: nobody waits for a status any more.
const ORPHAN_GRACE: Duration = Duration::from_millis(200);

/// How long to wait between two rounds of SIGKILL.
const KILL_ROUND: Duration = Duration::from_millis(3);

/// How long SIGKILL is repeated before what is left counts as out of reach: processes of another
/// user (`sudo`), or stuck in the kernel.
const KILL_TIME: Duration = Duration::from_secs(5);

/// The descriptors of a minder.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The socket to the agent; its end is the agent's death.
    pub(crate) control: OwnedFd,
    /// The command's standard output.
    pub(crate) out: OwnedFd,
    /// The command's standard error.
    pub(crate) err: OwnedFd,
}

/// Lives the life of a minder. Called in a fresh fork; every other descriptor is closed already.
///
/// # Errors
/// When the agent cannot be reached any more before the command was started.
pub(crate) fn mind(ends: Ends) -> io::Result<()> {
    sys::set_name(c"narthex-minder");
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let signals = sys::child_signals()?;
    let mut inbox = Inbox::default();
    let Some((id, spawn)) = wait_for_spawn(&ends.control, &mut inbox)? else {
        return Ok(());
    };
    let command = match start(&spawn, &ends) {
        Ok(command) => command,
        Err((step, errno)) => return say(&ends.control, id, &Reply::Failed { step, errno }),
    };
    drop((spawn, ends.out, ends.err));
    // Whatever becomes of the agent from here on, the tree has to be ended.
    let pid = command.as_raw_pid().unsigned_abs();
    let _told = say(&ends.control, id, &Reply::Started { pid });
    let mut watch = Watch {
        control: Some(ends.control),
        signals,
        inbox,
        tree: Tree::of_self(),
        command,
        status: None,
        killed: false,
        leftovers: 0,
        phase: Phase::Runs,
    };
    let ended = watch.until_gone();
    match watch.control {
        Some(control) => say(&control, id, &Reply::Ended(ended)),
        None => Ok(()),
    }
}

fn say(control: &OwnedFd, id: u32, reply: &Reply) -> io::Result<()> {
    let mut bytes = Vec::new();
    reply.encode(id, &mut bytes).map_err(io::Error::other)?;
    let mut unsent = bytes.as_slice();
    while !unsent.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::write(control, unsent))?;
        unsent = unsent.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn wait_for_spawn(control: &OwnedFd, inbox: &mut Inbox) -> io::Result<Option<(u32, Spawn)>> {
    loop {
        if let Some(frame) = inbox.next().map_err(io::Error::other)? {
            let id = frame.header.id;
            match Request::decode(frame.header.kind, frame.payload) {
                Ok(Request::Spawn(spawn)) => return Ok(Some((id, spawn))),
                Ok(Request::Kill { .. } | Request::Credit { .. }) => {}
                Err(_) => {
                    let errno = Errno::INVAL.raw_os_error();
                    say(control, id, &Reply::Failed { step: Step::Launch, errno })?;
                    return Ok(None);
                }
            }
        } else if inbox.fill(control)? == 0 {
            return Ok(None);
        }
    }
}

fn start(spawn: &Spawn, ends: &Ends) -> Result<Pid, (Step, i32)> {
    let at = |step| {
        move |error: io::Error| (step, error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
    };
    let name = spawn.argv.first().map_or(b"".as_slice(), Vec::as_slice);
    let argv = strings(&spawn.argv).map_err(at(Step::Program))?;
    let env = strings(&spawn.env).map_err(at(Step::Launch))?;
    // A minder has one command, so it can stand in the command's folder itself.
    std::env::set_current_dir(OsStr::from_bytes(&spawn.cwd)).map_err(at(Step::Folder))?;
    let path = program::find(name, &spawn.env).map_err(at(Step::Program))?;
    sys::spawn(&path, &argv, &env, [ends.out.as_fd(), ends.err.as_fd()]).map_err(at(Step::Program))
}

/// Texts with a NUL byte cannot be passed on.
fn strings(list: &[Vec<u8>]) -> io::Result<Vec<CString>> {
    list.iter().map(|item| CString::new(item.as_slice()).map_err(io::Error::from)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The command runs.
    Runs,
    /// The command ended; its descendants may end by themselves until then.
    Settles(Instant),
    /// SIGTERM was sent; SIGKILL comes then.
    Asked(Instant),
    /// SIGKILL is sent again and again, until everything is gone or this moment has come.
    Kills(Instant),
}

#[derive(Debug)]
struct Watch {
    control: Option<OwnedFd>,
    signals: OwnedFd,
    inbox: Inbox,
    tree: Tree,
    command: Pid,
    status: Option<Status>,
    killed: bool,
    leftovers: u32,
    phase: Phase,
}

impl Watch {
    /// Returns when no descendant exists any more, or none that can be ended.
    fn until_gone(&mut self) -> Ended {
        // A kill may have come together with the command.
        self.obey();
        loop {
            sys::drain_signals(&self.signals);
            let is_gone = self.reap_all();
            if is_gone || self.is_given_up() {
                let survivors = if is_gone { 0 } else { self.tree.members(&[]).len() };
                return Ended {
                    // The command's own status can only be missing where it was given up.
                    status: self.status.unwrap_or(Status::Signal(libc::SIGKILL)),
                    leftovers: self.leftovers,
                    killed: self.killed,
                    survivors: u32::try_from(survivors).unwrap_or(u32::MAX),
                };
            }
            self.step();
            self.wait();
        }
    }

    fn is_given_up(&self) -> bool {
        matches!(self.phase, Phase::Kills(until) if Instant::now() >= until)
    }

    /// Takes the statuses of all children that ended. Returns whether none is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match reap() {
                Reaped::Child(pid, status) if pid == self.command => {
                    self.status = Some(true_status(status));
                }
                Reaped::Child(..) => {}
                Reaped::Running => return false,
                Reaped::None => return true,
            }
        }
    }

    /// Moves on to the phase whose time has come.
    fn step(&mut self) {
        let now = Instant::now();
        match self.phase {
            Phase::Runs if self.status.is_some() => self.phase = Phase::Settles(now + SETTLE),
            Phase::Settles(until) if now >= until => {
                let members = self.tree.members(&[]);
                self.leftovers = u32::try_from(members.len()).unwrap_or(u32::MAX);
                self.ask(now + LEFTOVER_GRACE);
            }
            Phase::Asked(until) if now >= until => self.phase = Phase::Kills(now + KILL_TIME),
            Phase::Runs | Phase::Settles(_) | Phase::Asked(_) | Phase::Kills(_) => {}
        }
        if let Phase::Kills(_) = self.phase {
            self.tree.kill_round(&[]);
        }
    }

    /// Sends SIGTERM to everything. Stopped processes are woken to hear it.
    fn ask(&mut self, until: Instant) {
        let members = self.tree.members(&[]);
        self.tree.signal_all(&members, Signal::TERM);
        self.tree.signal_all(&members, Signal::CONT);
        self.phase = Phase::Asked(until);
    }

    /// Waits until a child ends, the agent says something, or the phase's time is over.
    fn wait(&mut self) {
        let now = Instant::now();
        let limit = match self.phase {
            Phase::Runs => None,
            Phase::Settles(until) | Phase::Asked(until) => {
                Some(until.saturating_duration_since(now))
            }
            Phase::Kills(_) => Some(KILL_ROUND),
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.control.as_ref().map(|control| PollFd::new(control, PollFlags::IN)));
        // An interrupted wait only means one more turn of the loop.
        let _count = poll(&mut fds, limit.as_ref());
        let heard = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if heard {
            self.hear();
        }
    }

    fn hear(&mut self) {
        let read = self.control.as_ref().map(|control| self.inbox.fill(control));
        self.obey();
        if self.control.is_some() && !matches!(read, Some(Ok(1..))) {
            self.orphan();
        }
    }

    /// Does what the frames that are here already ask for.
    fn obey(&mut self) {
        let mut grace = None;
        loop {
            match self.inbox.next() {
                Ok(Some(frame)) => {
                    let request = Request::decode(frame.header.kind, frame.payload);
                    if let Ok(Request::Kill { grace_ms }) = request {
                        let asked = Duration::from_millis(u64::from(grace_ms));
                        grace = Some(grace.map_or(asked, |earlier: Duration| earlier.min(asked)));
                    }
                }
                Ok(None) => break,
                Err(_) => return self.orphan(),
            }
        }
        if let Some(grace) = grace {
            self.kill(grace);
        }
    }

    /// The agent is gone: nobody is left to report to.
    fn orphan(&mut self) {
        self.control = None;
        self.kill(ORPHAN_GRACE);
    }

    fn kill(&mut self, grace: Duration) {
        // A command that ended by itself a moment ago was not killed.
        if self.reap_all() {
            return;
        }
        self.killed |= self.status.is_none();
        let until = Instant::now() + grace;
        match self.phase {
            Phase::Runs | Phase::Settles(_) => self.ask(until),
            Phase::Asked(earlier) => self.phase = Phase::Asked(earlier.min(until)),
            Phase::Kills(_) => {}
        }
    }
}

fn true_status(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Code(code),
        (None, Some(signal)) => Status::Signal(signal),
        // Without WUNTRACED and WCONTINUED no other status is reported.
        (None, None) => Status::Signal(libc::SIGKILL),
    }
}
