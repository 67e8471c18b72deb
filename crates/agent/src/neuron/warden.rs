//! The first process of a neuron: accepts connections, starts what serves them, and takes in
//! orphans. It never waits for anybody, and never ends while the neuron has a folder.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketFlags, accept_with, listen};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, wait,
};

use super::failure::{At, Outcome};
use super::relay::relay;
use crate::sys::namespace::peer;
use crate::sys::{self, Side};
use crate::tree::Tree;

/// How many connections are served at once. Each is a process; a neuron has two per session that
/// works in it.
const CONNECTIONS_MAX: usize = 64;

/// How many connections may wait to be accepted.
const WAITING_MAX: i32 = 128;

/// How long a connection may take to say what it is for.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// How long whatever served a connection has to end what it started, before the warden does.
const ORPHAN_TIME: Duration = Duration::from_secs(5);

/// How soon the relay is started again at most, should something end it.
const RELAY_PAUSE: Duration = Duration::from_secs(1);

/// How often it looks whether the neuron's folder is still there. A neuron without one can be
/// found by nobody; fifteen seconds are soon enough, and a look costs nothing.
const HOME_PAUSE: Duration = Duration::from_secs(15);

/// The first byte of a connection that brings commands: it then speaks [`crate::wire`].
pub const COMMANDS: u8 = b'C';

/// The first byte of a connection for files: it then speaks [`crate::files::wire`].
pub const FILES: u8 = b'F';

/// What the relay needs.
#[derive(Debug)]
pub(super) struct WayOut {
    pub(super) inside: OwnedFd,
    pub(super) folder: OwnedFd,
    pub(super) socket: String,
}

/// Who may connect: the kernel's word on the other end is in terms of this process's namespaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    /// Whether the neuron has process ids of its own. A peer with one of them is a command.
    pub(super) is_apart: bool,
    /// The user of the one who made the neuron, as seen from here; absent where users cannot be
    /// told apart and the mode of the socket alone decides.
    pub(super) creator: Option<u32>,
}

/// The first process.
#[derive(Debug)]
pub(super) struct Warden {
    listener: OwnedFd,
    signals: OwnedFd,
    door: Door,
    way_out: Option<WayOut>,
    relay: Option<Pid>,
    relay_since: Option<Instant>,
    /// Those that serve a connection.
    servers: BTreeMap<i32, ()>,
    tree: Tree,
    /// When to look for what a server left behind.
    sweep: Option<Instant>,
    /// The neuron's folder on the machine, for nothing but to see that it is there.
    home: Option<OwnedFd>,
    home_seen: Instant,
}

impl Warden {
    /// Begins to listen.
    pub(super) fn new(
        listener: OwnedFd,
        door: Door,
        way_out: Option<WayOut>,
        home: Option<OwnedFd>,
    ) -> Outcome<Self> {
        fcntl_setfl(&listener, OFlags::NONBLOCK).at("prepare to listen")?;
        // Also where somebody listens already: whoever connects is shown who did so last.
        listen(&listener, WAITING_MAX).at("listen")?;
        let signals = sys::child_signals().at("watch for children")?;
        Ok(Self {
            listener,
            signals,
            door,
            way_out,
            relay: None,
            relay_since: None,
            servers: BTreeMap::new(),
            tree: Tree::of_self(),
            sweep: None,
            home,
            home_seen: Instant::now(),
        })
    }

    /// Descriptors that must stay open.
    pub(super) fn descriptors(&self) -> Vec<i32> {
        let mut open = vec![self.listener.as_raw_fd(), self.signals.as_raw_fd()];
        if let Some(way_out) = &self.way_out {
            open.extend([way_out.inside.as_raw_fd(), way_out.folder.as_raw_fd()]);
        }
        open.extend(self.home.as_ref().map(AsRawFd::as_raw_fd));
        open
    }

    /// Serves until the neuron's folder is removed.
    pub(super) fn keep(mut self) -> ! {
        loop {
            if self.is_homeless() {
                sys::exit_now(0);
            }
            self.start_relay();
            self.wait();
            self.reap();
            self.end_orphans();
            self.accept();
        }
    }

    /// Tells whether the neuron's folder was removed, where it is time to look.
    fn is_homeless(&mut self) -> bool {
        let Some(home) = self.home.as_ref().filter(|_| self.home_seen.elapsed() >= HOME_PAUSE)
        else {
            return false;
        };
        self.home_seen = Instant::now();
        // One that cannot be asked counts as there.
        fstat(home).is_ok_and(|stat| stat.st_nlink == 0)
    }

    fn wait(&self) {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if self.servers.len() < CONNECTIONS_MAX {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let relay = self.relay_since.filter(|_| self.relay.is_none() && self.way_out.is_some());
        let look = self.home.as_ref().map(|_| self.home_seen + HOME_PAUSE);
        let next = [self.sweep, relay.map(|since| since + RELAY_PAUSE), look];
        let next = next.into_iter().flatten().min();
        let limit = next.map(|at| at.saturating_duration_since(Instant::now()));
        // A little later than due, never a little sooner, or it would be looked at twice.
        let limit = limit.map(|limit| limit + Duration::from_millis(1));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // Interrupted: nothing is known, and everything below can be asked in vain.
        let _count = poll(&mut fds, limit.as_ref());
    }

    fn reap(&mut self) {
        sys::drain_signals(&self.signals);
        let options = WaitOptions::NOHANG.union(WaitOptions::UNTRACED);
        while let Ok(Some((pid, status))) = wait(options) {
            if status.stopped() {
                // Commands can do that, and whoever waits for it would wait for ever. Of an orphan
                // nobody waits for anything.
                if self.relay == Some(pid) || self.servers.contains_key(&pid.as_raw_pid()) {
                    let _gone = kill_process(pid, Signal::KILL);
                }
                continue;
            }
            if self.relay == Some(pid) {
                self.relay = None;
            }
            if self.servers.remove(&pid.as_raw_pid()).is_some() {
                self.sweep = Some(Instant::now() + ORPHAN_TIME);
            }
        }
    }

    /// Ends what lives on without anybody who knows it: its server and that one's minders died.
    fn end_orphans(&mut self) {
        if self.sweep.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let known: Vec<Pid> =
            self.servers.keys().filter_map(|pid| Pid::from_raw(*pid)).chain(self.relay).collect();
        self.tree.kill_round(&known);
        let is_clear = self.tree.members(&known).is_empty();
        self.sweep = if is_clear { None } else { Some(Instant::now() + RELAY_PAUSE) };
    }

    fn accept(&mut self) {
        let warden = getpid();
        while self.servers.len() < CONNECTIONS_MAX {
            let Ok(stream) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return };
            if !self.door.admits(&stream) {
                continue;
            }
            match sys::fork_into(None) {
                Ok(Side::Parent(pid)) => {
                    self.servers.insert(pid.as_raw_pid(), ());
                }
                Ok(Side::Child) => become_server(stream, warden, self.door),
                // As many processes as may be: the connection is closed, and one may try again.
                Err(_) => {}
            }
        }
    }

    fn start_relay(&mut self) {
        let Some(way_out) = self.way_out.as_ref().filter(|_| self.relay.is_none()) else { return };
        if self.relay_since.is_some_and(|since| since.elapsed() < RELAY_PAUSE) {
            return;
        }
        self.relay_since = Some(Instant::now());
        match sys::fork_into(None) {
            Ok(Side::Parent(pid)) => self.relay = Some(pid),
            Ok(Side::Child) => {
                let WayOut { inside, folder, socket } = way_out;
                sys::close_all_but(&mut [inside.as_raw_fd(), folder.as_raw_fd()]);
                let relayed = catch_unwind(AssertUnwindSafe(|| relay(inside, folder, socket)));
                sys::exit_now(i32::from(!matches!(relayed, Ok(Ok(())))))
            }
            Err(_) => {}
        }
    }
}

impl Door {
    fn admits(self, stream: &OwnedFd) -> bool {
        let Ok((pid, uid)) = peer(stream) else { return false };
        let is_inside = self.is_apart && pid != 0;
        let is_known = self.creator.is_none_or(|creator| uid == creator || uid == 0);
        !is_inside && is_known
    }
}

/// Serves one connection in a fork of the warden and ends: at the latest with the warden, which
/// nothing but this sees to where there is no process namespace.
fn become_server(stream: OwnedFd, warden: Pid, door: Door) -> ! {
    sys::close_all_but(&mut [stream.as_raw_fd()]);
    let served = catch_unwind(AssertUnwindSafe(|| {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before that.
        if getppid() != Some(warden) {
            return Err(Errno::SRCH.into());
        }
        serve(stream, door)
    }));
    sys::exit_now(i32::from(!matches!(served, Ok(Ok(ExitCode::SUCCESS)))))
}

fn serve(stream: OwnedFd, door: Door) -> io::Result<ExitCode> {
    set_socket_timeout(&stream, Timeout::Recv, Some(GREETING_TIME))?;
    let mut greeting = [0];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(&stream, &mut greeting))?;
    set_socket_timeout(stream.as_fd(), Timeout::Recv, None)?;
    match (count, greeting) {
        // Apart, there is no cgroup that it could see.
        (1, [COMMANDS]) => Ok(crate::entry::main_of(stream, !door.is_apart)),
        (1, [FILES]) => Ok(crate::files::serve(stream)),
        _ => Err(Errno::PROTO.into()),
    }
}
