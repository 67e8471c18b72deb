//! One command from its start to the proof that nothing of it is left.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus};

use super::Post;
use crate::sys;
use crate::tree::{Reaped, reap};
use crate::wire::{Ended, Reply, Request, Status};

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

/// How long the start of a command may remain unsaid. Many commands are over by then: start and
/// end are said together, and agent and narthex are not woken in the middle, where they would take
/// the processor away from the command.
const HUSH: Duration = Duration::from_millis(3);

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

/// What is to be said of a command that was watched to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// Whether nothing out of the ordinary happened: the command and all of its descendants ended
    /// by themselves, and nobody had to be signalled.
    pub(crate) is_plain: bool,
}

#[derive(Debug)]
pub(crate) struct Watch<'a> {
    post: &'a mut Post,
    id: u32,
    command: Pid,
    /// Until when the start may remain unsaid, unless it was said.
    hush: Option<Instant>,
    status: Option<Status>,
    killed: bool,
    leftovers: u32,
    phase: Phase,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(post: &'a mut Post, id: u32, command: Pid) -> Self {
        Self {
            post,
            id,
            command,
            hush: Some(Instant::now() + HUSH),
            status: None,
            killed: false,
            leftovers: 0,
            phase: Phase::Runs,
        }
    }

    /// Returns when no descendant exists any more, or none that can be ended. The start is said,
    /// or noted to be said together with the end.
    pub(crate) fn until_gone(&mut self) -> Outcome {
        // A kill may have come together with the command.
        self.obey();
        loop {
            let is_gone = self.reap_all();
            if is_gone || self.is_given_up() {
                self.note_start();
                return self.outcome(is_gone);
            }
            self.step();
            self.wait();
        }
    }

    fn outcome(&self, is_gone: bool) -> Outcome {
        let survivors = if is_gone { 0 } else { self.post.tree.members(&[]).len() };
        let ended = Ended {
            // The command's own status can only be missing where it was given up.
            status: self.status.unwrap_or(Status::Signal(libc::SIGKILL)),
            leftovers: self.leftovers,
            killed: self.killed,
            survivors: u32::try_from(survivors).unwrap_or(u32::MAX),
        };
        let is_plain = is_gone && self.is_undisturbed() && self.status.is_some();
        Outcome { ended, is_plain }
    }

    /// Tells whether nothing was signalled so far.
    pub(super) fn is_undisturbed(&self) -> bool {
        matches!(self.phase, Phase::Runs | Phase::Settles(_))
    }

    fn note_start(&mut self) {
        if self.hush.take().is_some() {
            let pid = self.command.as_raw_pid().unsigned_abs();
            self.post.note(self.id, &Reply::Started { pid });
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
                let members = self.post.tree.members(&[]);
                self.leftovers = u32::try_from(members.len()).unwrap_or(u32::MAX);
                self.ask(now + LEFTOVER_GRACE);
            }
            Phase::Asked(until) if now >= until => self.phase = Phase::Kills(now + KILL_TIME),
            Phase::Runs | Phase::Settles(_) | Phase::Asked(_) | Phase::Kills(_) => {}
        }
        if let Phase::Kills(_) = self.phase {
            self.post.tree.kill_round(&[]);
        }
    }

    /// Sends SIGTERM to everything. Stopped processes are woken to hear it.
    fn ask(&mut self, until: Instant) {
        let members = self.post.tree.members(&[]);
        self.post.tree.signal_all(&members, Signal::TERM);
        self.post.tree.signal_all(&members, Signal::CONT);
        self.phase = Phase::Asked(until);
    }

    /// Waits until a child ends, the agent says something, or the time of the phase or of the
    /// hush is over.
    fn wait(&mut self) {
        let now = Instant::now();
        let until = |moment: Instant| moment.saturating_duration_since(now);
        let limit = match self.phase {
            Phase::Runs => None,
            Phase::Settles(moment) | Phase::Asked(moment) => Some(until(moment)),
            Phase::Kills(_) => Some(KILL_ROUND),
        };
        let limit = [limit, self.hush.map(until)].into_iter().flatten().min();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = vec![PollFd::new(&self.post.signals, PollFlags::IN)];
        fds.extend(self.post.control.as_ref().map(|control| PollFd::new(control, PollFlags::IN)));
        // An interrupted wait only means one more turn of the loop.
        let _count = poll(&mut fds, limit.as_ref());
        let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
        let (is_signalled, is_told) = (is_ready(fds.first()), is_ready(fds.get(1)));
        if is_signalled {
            sys::drain_signals(&self.post.signals);
        }
        if is_told {
            self.hear();
        }
        if self.hush.is_some_and(|moment| Instant::now() >= moment) {
            self.note_start();
            // Whatever becomes of the agent, the tree has to be ended.
            let _told = self.post.say();
        }
    }

    fn hear(&mut self) {
        let read = self.post.control.as_ref().map(|control| self.post.inbox.fill(control));
        self.obey();
        if self.post.control.is_some() && !matches!(read, Some(Ok(1..))) {
            self.orphan();
        }
    }

    /// Does what the frames that are here already ask for.
    pub(super) fn obey(&mut self) {
        let mut grace = None;
        loop {
            match self.post.inbox.next() {
                Ok(Some(frame)) => {
                    // A kill that comes late is meant for a command before this one.
                    if frame.header.id != self.id {
                        continue;
                    }
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
        self.post.control = None;
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
