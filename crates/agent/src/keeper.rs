//! The loop of the agent: one stream, many commands, no waits but one.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, set_child_subreaper, setsid};

use crate::cgroup::Cgroup;
use crate::command::{Command, Stage};
use crate::crew::{Crew, Minder};
use crate::inbox::{Frame, Inbox};
use crate::outbox::Outbox;
use crate::sys;
use crate::tree::{Reaped, Tree, reap};
use crate::wire::{Reply, Request, Step, Stream, VERSION};

/// How many commands may run at once. Each takes three descriptors here, and a process has 1,024
/// by default.
const COMMANDS_MAX: usize = 256;

/// How often the agent looks after orphans while there are some, and after its own end.
const TICK: Duration = Duration::from_millis(3);

/// How long orphans are killed again before they count as out of reach.
const ORPHAN_TIME: Duration = Duration::from_secs(5);

/// The time between SIGTERM and SIGKILL when narthex is gone.
const CLOSE_GRACE_MS: u32 = 300;

/// From when on the agent no longer trusts its minders to end their trees.
const CLOSE_TIME: Duration = Duration::from_millis(1_500);

/// When the agent leaves, whatever is left then is out of reach for it.
const CLOSE_MAX: Duration = Duration::from_secs(4);

/// The agent.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: OwnedFd,
    signals: OwnedFd,
    inbox: Inbox,
    outbox: Outbox,
    commands: BTreeMap<u32, Command>,
    crew: Crew,
    tree: Tree,
    cgroup: Option<Cgroup>,
    /// Since when there are orphans.
    orphans: Option<Instant>,
    /// Since when the stream is closed.
    closed: Option<Instant>,
}

/// What became ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Stream,
    Signals,
    Control(u32),
    Output(u32, Stream),
}

impl Keeper {
    /// Makes this process an agent and says hello.
    ///
    /// # Errors
    /// Where the system refuses what every Linux since 3.4 offers, or no process can be forked.
    pub(crate) fn start(stream: OwnedFd, has_cgroup: bool) -> io::Result<Self> {
        sys::set_name(c"narthex-agent");
        sys::close_all_but(&mut [stream.as_raw_fd()]);
        sys::ignore_signals();
        // Already a leader: then there is no terminal to get away from either.
        let _session = setsid();
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let signals = sys::child_signals()?;
        // No folder is to be kept busy by the agent.
        std::env::set_current_dir("/")?;
        fcntl_setfl(&stream, OFlags::NONBLOCK)?;
        let cgroup = if has_cgroup { Cgroup::make() } else { None };
        let mut crew = Crew::default();
        crew.renew(cgroup.as_ref())?;
        let mut outbox = Outbox::default();
        outbox.push(0, &Reply::Hello { version: VERSION });
        if let Some(cgroup) = &cgroup {
            cgroup.sweep();
        }
        Ok(Self {
            stream,
            signals,
            inbox: Inbox::default(),
            outbox,
            commands: BTreeMap::new(),
            crew,
            tree: Tree::of_self(),
            cgroup,
            orphans: None,
            closed: None,
        })
    }

    /// Serves until the stream is closed and every tree is gone.
    pub(crate) fn keep(&mut self) {
        while !self.is_over() {
            for ready in self.wait() {
                self.handle(ready);
            }
            self.end_orphans();
            self.finish_commands();
            self.flush();
            self.end_slow_minders();
        }
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.end();
        }
    }

    fn is_over(&self) -> bool {
        self.closed.is_some_and(|since| self.commands.is_empty() || since.elapsed() > CLOSE_MAX)
    }

    fn wait(&self) -> Vec<Ready> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut kinds = vec![Ready::Signals];
        if self.closed.is_none() {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !self.outbox.is_empty());
            fds.push(PollFd::new(&self.stream, flags));
            kinds.push(Ready::Stream);
        }
        for (id, command) in &self.commands {
            if let (Stage::Minded, Some(minder)) = (&command.stage, &command.minder) {
                fds.push(PollFd::new(&minder.control, PollFlags::IN));
                kinds.push(Ready::Control(*id));
            }
            for (stream, pipe) in command.readable().filter(|_| !self.outbox.is_full()) {
                fds.push(PollFd::new(pipe, PollFlags::IN));
                kinds.push(Ready::Output(*id, stream));
            }
        }
        let is_busy = self.orphans.is_some() || self.closed.is_some();
        let limit = is_busy.then_some(TICK).and_then(|limit| Timespec::try_from(limit).ok());
        // An interrupted wait means that nothing is known to be ready.
        if poll(&mut fds, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().zip(kinds).filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, kind)| kind).collect()
    }

    fn handle(&mut self, ready: Ready) {
        match ready {
            Ready::Stream => self.hear(),
            Ready::Signals => self.reap(),
            Ready::Control(id) => self.hear_minder(id),
            Ready::Output(id, stream) => {
                if let Some(command) = self.commands.get_mut(&id) {
                    command.relay(id, stream, &mut self.outbox);
                }
            }
        }
    }

    fn hear(&mut self) {
        match self.inbox.fill(&self.stream) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => return self.close(),
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        while self.closed.is_none() {
            match inbox.next() {
                Ok(Some(frame)) => self.obey(&frame),
                Ok(None) => break,
                // Whoever speaks like that is not narthex.
                Err(_) => return self.close(),
            }
        }
        self.inbox = inbox;
    }

    fn obey(&mut self, frame: &Frame<'_>) {
        let id = frame.header.id;
        if Request::is_spawn(frame.header.kind) {
            if let Err(error) = self.dispatch(id, frame.whole) {
                let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                self.outbox.push(id, &Reply::Failed { step: Step::Launch, errno });
            }
            self.renew_crew();
            return;
        }
        // Of a command that is not known the end has been told already.
        let Some(command) = self.commands.get_mut(&id) else { return };
        match Request::decode(frame.header.kind, frame.payload) {
            Ok(Request::Credit { bytes }) => command.add_credit(bytes),
            // A minder that cannot be told has died, which its socket tells as well.
            Ok(Request::Kill { .. }) => drop(command.tell(frame.whole)),
            Ok(Request::Spawn(_)) => {}
            Err(_) => self.close(),
        }
    }

    /// Hands a command to a minder.
    fn dispatch(&mut self, id: u32, frame: &[u8]) -> io::Result<()> {
        if self.commands.len() >= COMMANDS_MAX {
            return Err(Errno::AGAIN.into());
        }
        if self.commands.contains_key(&id) {
            return Err(Errno::EXIST.into());
        }
        let (minder, outputs) = self.crew.assign(frame, self.cgroup.as_ref())?;
        self.commands.insert(id, Command::new(minder, outputs));
        Ok(())
    }

    /// If no process can be forked now, the next command tries again and reports it.
    fn renew_crew(&mut self) {
        if self.closed.is_none() {
            drop(self.crew.renew(self.cgroup.as_ref()));
        }
    }

    fn hear_minder(&mut self, id: u32) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let Some(mut minder) = command.minder.take() else { return };
        let is_alive = minder.inbox.fill(&minder.control).is_ok_and(|count| count > 0);
        let (mut is_failed, mut is_free) = (false, false);
        while let Ok(Some(frame)) = minder.inbox.next() {
            if frame.header.id != id {
                continue;
            }
            match Reply::decode(frame.header.kind, frame.payload) {
                Ok(reply @ Reply::Started { .. }) => {
                    self.outbox.push(id, &reply);
                    command.is_started = true;
                }
                Ok(reply @ Reply::Failed { .. }) => {
                    self.outbox.push(id, &reply);
                    is_failed = true;
                }
                Ok(reply @ Reply::Ended(_)) => command.stage = Stage::Over(reply),
                // Said after the last word: it is ready for another command.
                Ok(Reply::Hello { .. }) => is_free = is_failed || command.is_over(),
                Ok(Reply::Output { .. } | Reply::Lost) | Err(_) => {}
            }
        }
        // One whose exit was taken already has died since.
        if is_free && minder.pid.is_some() && self.closed.is_none() {
            self.crew.park(minder);
        } else {
            command.minder = Some(minder);
        }
        if is_failed {
            self.commands.remove(&id);
        } else if !is_alive && command.stage == Stage::Minded {
            command.stage = Stage::Orphaned;
            self.orphans.get_or_insert_with(Instant::now);
        }
    }

    /// Takes the exits of minders, and of orphans that came to this process.
    fn reap(&mut self) {
        sys::drain_signals(&self.signals);
        while let Reaped::Child(pid, _) = reap() {
            let minders = self.commands.values_mut().filter_map(|command| command.minder.as_mut());
            for minder in minders.filter(|minder| minder.pid == Some(pid)) {
                minder.pid = None;
            }
            self.crew.forget(pid);
        }
        self.renew_crew();
    }

    fn minders(&self) -> Vec<Pid> {
        let minders = self.commands.values().filter_map(|command| command.minder.as_ref());
        minders.filter_map(|minder: &Minder| minder.pid).chain(self.crew.pids()).collect()
    }

    /// What is below the agent and below none of its minders had a minder that died.
    fn end_orphans(&mut self) {
        let Some(since) = self.orphans else { return };
        self.reap();
        if since.elapsed() < ORPHAN_TIME {
            // A dying process closes its sockets before its children get another parent. They
            // have it when its exit can be taken, and not surely before.
            let is_dying = |command: &Command| {
                let pid = command.minder.as_ref().and_then(|minder| minder.pid);
                command.stage == Stage::Orphaned && pid.is_some()
            };
            if self.commands.values().any(is_dying) {
                return;
            }
            let minders = self.minders();
            if !self.tree.members(&minders).is_empty() {
                self.tree.kill_round(&minders);
                return;
            }
        }
        self.orphans = None;
        for command in self.commands.values_mut() {
            if command.stage == Stage::Orphaned {
                command.stage = Stage::Over(Reply::Lost);
            }
        }
    }

    fn finish_commands(&mut self) {
        let outbox = &mut self.outbox;
        self.commands.retain(|id, command| match command.finish(*id, outbox) {
            Some(last) => {
                outbox.push(*id, &last);
                false
            }
            None => true,
        });
    }

    fn flush(&mut self) {
        if self.closed.is_none() && self.outbox.flush(&self.stream).is_err() {
            self.close();
        }
    }

    /// Narthex is gone, or does not want us any more: ends everything.
    fn close(&mut self) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(Instant::now());
        self.crew.dismiss();
        for (id, command) in &mut self.commands {
            command.stop_reading();
            let mut frame = Vec::new();
            let encoded = Request::Kill { grace_ms: CLOSE_GRACE_MS }.encode(*id, &mut frame);
            debug_assert!(encoded.is_ok(), "the frame has four bytes");
            // A minder that cannot be told is killed a moment later.
            drop(command.tell(&frame));
        }
    }

    /// A minder that does not come to an end is killed; its tree becomes the agent's.
    fn end_slow_minders(&mut self) {
        if self.closed.is_some_and(|since| since.elapsed() > CLOSE_TIME) {
            for pid in self.minders() {
                // It is our child and its exit was not taken, so the number is still its own.
                let _sent = kill_process(pid, Signal::KILL);
            }
        }
    }
}
