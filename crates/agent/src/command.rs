//! A command as the agent sees it: its minder, its output, what its reader may still be sent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::cgroup::Cgroup;
use crate::inbox::Inbox;
use crate::minder::{Ends, mind};
use crate::outbox::Outbox;
use crate::sys::{self, Side};
use crate::wire::{FRAME_COST, OUTPUT_MAX, Reply, Stream, WINDOW};

/// How long a minder may leave its socket unread. It only ever waits for it, so more means that
/// somebody stopped the minder, and the agent must not hang with it.
const CONTROL_TIME: Duration = Duration::from_secs(5);

/// How much output is still taken once the tree is gone. A pipe holds at most this much; more can
/// only come from a stranger who was handed the pipe.
const DRAIN_MAX: usize = 1 << 20;

/// A forked minder and our ends of its descriptors.
#[derive(Debug)]
pub(crate) struct Minder {
    /// Absent once its exit was taken: the number may be somebody else's then.
    pub(crate) pid: Option<Pid>,
    pub(crate) control: OwnedFd,
    pub(crate) inbox: Inbox,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
}

impl Minder {
    /// Forks a minder that waits for its command.
    pub(crate) fn fork(cgroup: Option<&Cgroup>) -> io::Result<Self> {
        let (control, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&control, Timeout::Send, Some(CONTROL_TIME))?;
        let (out, out_end) = pipe()?;
        let (err, err_end) = pipe()?;
        match sys::fork_into(cgroup.map(std::os::fd::AsFd::as_fd))? {
            Side::Parent(pid) => Ok(Self {
                pid: Some(pid),
                control,
                inbox: Inbox::default(),
                out: Some(out),
                err: Some(err),
            }),
            Side::Child => {
                let mut keep = [far.as_raw_fd(), out_end.as_raw_fd(), err_end.as_raw_fd()];
                sys::close_all_but(&mut keep);
                let ends = Ends { control: far, out: out_end, err: err_end };
                // A panic must not unwind into the agent's own frames, of which this is a copy.
                let minded = catch_unwind(AssertUnwindSafe(|| mind(ends)));
                sys::exit_now(i32::from(!matches!(minded, Ok(Ok(())))))
            }
        }
    }

    /// Writes a whole frame to the minder.
    pub(crate) fn tell(&self, frame: &[u8]) -> io::Result<()> {
        let mut unsent = frame;
        while !unsent.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::write(&self.control, unsent))?;
            unsent = unsent.get(count..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The read end does not block; the command's end does, as programs expect.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// How far a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its minder lives.
    Minded,
    /// Its minder died; the agent ends what is left.
    Orphaned,
    /// Nothing of it lives any more; this is to be said when its output is through.
    Over(Reply),
}

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) minder: Minder,
    pub(crate) stage: Stage,
    /// Output waits until the start was told: a quick command writes before its minder speaks.
    pub(crate) is_started: bool,
    credit: u32,
    drained: usize,
}

impl Command {
    pub(crate) fn new(minder: Minder) -> Self {
        Self { minder, stage: Stage::Minded, is_started: false, credit: WINDOW, drained: 0 }
    }

    /// Gives back what the reader took.
    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes).min(WINDOW);
    }

    /// Returns the pipes that may be read now.
    pub(crate) fn readable(&self) -> impl Iterator<Item = (Stream, &OwnedFd)> {
        let out = self.minder.out.as_ref().map(|pipe| (Stream::Stdout, pipe));
        let err = self.minder.err.as_ref().map(|pipe| (Stream::Stderr, pipe));
        let may_read = self.may_read();
        [out, err].into_iter().flatten().filter(move |_| may_read)
    }

    fn may_read(&self) -> bool {
        self.is_started && self.credit > FRAME_COST
    }

    /// Reads one piece of a stream into the outbox.
    pub(crate) fn relay(&mut self, id: u32, stream: Stream, outbox: &mut Outbox) {
        let room = self.credit.saturating_sub(FRAME_COST) as usize;
        let is_over = matches!(self.stage, Stage::Over(_));
        let pipe = match stream {
            Stream::Stdout => &mut self.minder.out,
            Stream::Stderr => &mut self.minder.err,
        };
        let Some(open) = pipe else { return };
        let mut buffer = [0; OUTPUT_MAX];
        let part = buffer.get_mut(..room.min(OUTPUT_MAX)).unwrap_or_default();
        match rustix::io::retry_on_intr(|| rustix::io::read(&*open, &mut *part)) {
            Ok(count @ 1..) => {
                outbox.push_output(id, stream, part.get(..count).unwrap_or_default());
                let cost = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(FRAME_COST);
                self.credit = self.credit.saturating_sub(cost);
                if is_over {
                    self.drained += count;
                }
            }
            // Somebody outside of the tree may hold the pipe for ever: empty is enough.
            Err(Errno::AGAIN) if !is_over => {}
            Ok(_) | Err(_) => *pipe = None,
        }
        if self.drained > DRAIN_MAX {
            self.stop_reading();
        }
    }

    /// Closes the pipes: nobody reads any more.
    pub(crate) fn stop_reading(&mut self) {
        self.minder.out = None;
        self.minder.err = None;
    }

    /// Sends on what the pipes of a command that is over still hold, as far as the reader and
    /// the outbox have room. Returns the last word once everything is through.
    pub(crate) fn finish(&mut self, id: u32, outbox: &mut Outbox) -> Option<Reply> {
        let Stage::Over(last) = self.stage.clone() else { return None };
        if !self.is_started {
            // Its minder died before it could say so: nobody waits for output.
            self.stop_reading();
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.is_open(stream) && self.may_read() && !outbox.is_full() {
                self.relay(id, stream, outbox);
            }
        }
        (self.minder.out.is_none() && self.minder.err.is_none()).then_some(last)
    }

    fn is_open(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.minder.out.is_some(),
            Stream::Stderr => self.minder.err.is_some(),
        }
    }
}
