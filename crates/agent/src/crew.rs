//! The minders that wait for a command. One is forked ahead of time; one whose command ended well
//! waits for the next, because to fork a process and to let it exit costs as much as a shell.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use crate::cgroup::Cgroup;
use crate::handover::{FILES, hand_over, pipe, write_all};
use crate::inbox::Inbox;
use crate::minder::mind;
use crate::sys::{self, Side};

/// How long a minder may leave its socket unread. It only ever waits for it, so more means that
/// somebody stopped the minder, and the agent must not hang with it.
const CONTROL_TIME: Duration = Duration::from_secs(5);

/// How many minders may wait: as many as the commands that an agent usually runs side by side.
const IDLE_MAX: usize = 8;

/// A forked minder and our end of its socket.
#[derive(Debug)]
pub(crate) struct Minder {
    /// Absent once its exit was taken: the number may be somebody else's then.
    pub(crate) pid: Option<Pid>,
    pub(crate) control: OwnedFd,
    pub(crate) inbox: Inbox,
}

impl Minder {
    /// Forks a minder that waits for its command.
    fn fork(cgroup: Option<&Cgroup>) -> io::Result<Self> {
        let (control, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&control, Timeout::Send, Some(CONTROL_TIME))?;
        match sys::fork_into(cgroup.map(AsFd::as_fd))? {
            Side::Parent(pid) => Ok(Self { pid: Some(pid), control, inbox: Inbox::default() }),
            Side::Child => {
                sys::close_all_but(&mut [far.as_raw_fd()]);
                // A panic must not unwind into the agent's own frames, of which this is a copy.
                let minded = catch_unwind(AssertUnwindSafe(|| mind(far)));
                sys::exit_now(i32::from(!matches!(minded, Ok(Ok(())))))
            }
        }
    }

    /// Writes a whole frame to the minder.
    pub(crate) fn tell(&self, frame: &[u8]) -> io::Result<()> {
        write_all(&self.control, frame)
    }

    /// Gives the minder a command, and returns where its two outputs can be read. They are new for
    /// each command: whoever got away with old ones can neither write into another command's
    /// output nor keep it open.
    fn assign(&self, frame: &[u8]) -> io::Result<[OwnedFd; FILES]> {
        let (out, out_end) = pipe()?;
        let (err, err_end) = pipe()?;
        hand_over(&self.control, frame, &[out_end.as_fd(), err_end.as_fd()])?;
        Ok([out, err])
    }
}

/// The minders without a command.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    /// The one that worked last comes first: its memory is still warm.
    idle: Vec<Minder>,
}

impl Crew {
    /// Sees to it that a minder waits, so that the next command does not wait for a fork.
    pub(crate) fn renew(&mut self, cgroup: Option<&Cgroup>) -> io::Result<()> {
        if self.idle.is_empty() {
            self.idle.push(Minder::fork(cgroup)?);
        }
        Ok(())
    }

    /// Hands a command to a minder, and returns it with the read ends of the outputs.
    pub(crate) fn assign(
        &mut self,
        frame: &[u8],
        cgroup: Option<&Cgroup>,
    ) -> io::Result<(Minder, [OwnedFd; FILES])> {
        if let Some(minder) = self.idle.pop()
            && let Ok(outputs) = minder.assign(frame)
        {
            return Ok((minder, outputs));
        }
        // The one that was ready has died: it had not started anything.
        let minder = Minder::fork(cgroup)?;
        let outputs = minder.assign(frame)?;
        Ok((minder, outputs))
    }

    /// Takes a minder back. One too many leaves when its socket closes.
    pub(crate) fn park(&mut self, minder: Minder) {
        if self.idle.len() < IDLE_MAX {
            self.idle.push(minder);
        }
    }

    /// Forgets a minder that died while it waited.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.idle.retain(|minder| minder.pid != Some(pid));
    }

    /// Lets all of them leave.
    pub(crate) fn dismiss(&mut self) {
        self.idle.clear();
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.idle.iter().filter_map(|minder| minder.pid)
    }
}
