//! Starting the program that becomes a neuron.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ::agent::OPEN_FILES_VARIABLE;
use ::agent::neuron::{Answer, MESSAGE_MAX, Plan, Probe};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// How long a launcher may take to answer. It takes milliseconds; a machine may be busy.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long a launcher that has answered may take to be gone before it is killed.
const EXIT_TIME: Duration = Duration::from_secs(5);

/// How often to look whether it is.
const EXIT_PAUSE: Duration = Duration::from_millis(1);

/// The program that becomes a neuron.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    /// The program and its arguments: that of the agent.
    pub(super) command: Vec<OsString>,
    /// How many files may be open in a command.
    pub(super) open_files: Option<u64>,
}

/// A started program, its end of the socket, and its death when this is dropped.
struct Started {
    child: Child,
    stream: UnixStream,
}

impl Launcher {
    /// Starts a neuron whose first process listens on `socket`. When this fails, nothing of it
    /// runs any more.
    pub(super) fn launch(&self, plan: &Plan, socket: OwnedFd) -> io::Result<Answer> {
        let plan = plan.encode().map_err(io::Error::other)?;
        let mut started = self.start("neuron")?;
        started.send(&plan, &socket)?;
        // Whoever still had it would make a dead neuron look alive.
        drop(socket);
        let answer = Answer::decode(&started.receive()?).map_err(io::Error::other)?;
        started.wait_for_end()?;
        started.let_leave();
        Ok(answer)
    }

    /// Asks what this machine can do.
    pub(super) fn probe(&self) -> io::Result<Probe> {
        let mut started = self.start("probe")?;
        let probe = Probe::decode(&started.receive()?).map_err(io::Error::other)?;
        started.let_leave();
        Ok(probe)
    }

    #[allow(clippy::disallowed_methods, reason = "this crate is the one that starts processes")]
    fn start(&self, argument: &str) -> io::Result<Started> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(io::Error::other("no command is set"));
        };
        let (stream, far) = UnixStream::pair()?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .arg(argument)
            // What it starts with can be read in the neuron as long as that lives.
            .env_clear()
            .envs(self.open_files.map(|count| (OPEN_FILES_VARIABLE, count.to_string())))
            .stdin(Stdio::from(OwnedFd::from(far)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Started { child, stream })
    }
}

impl Started {
    fn send(&mut self, message: &[u8], socket: &OwnedFd) -> io::Result<()> {
        let len = u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        let files = [socket.as_fd()];
        let fits = along.push(SendAncillaryMessage::ScmRights(&files));
        debug_assert!(fits, "the room is made for it");
        let part = [IoSlice::new(&len)];
        // It belongs to the first byte.
        let sent = sendmsg(&self.stream, &part, &mut along, SendFlags::NOSIGNAL)?;
        self.stream.write_all(len.get(sent..).unwrap_or_default())?;
        self.stream.write_all(message)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).map_err(unanswered)?;
        let len = u32::from_le_bytes(len) as usize;
        if len > MESSAGE_MAX {
            return Err(io::Error::other(format!("the launcher's answer has {len} bytes")));
        }
        let mut message = vec![0; len];
        self.stream.read_exact(&mut message).map_err(unanswered)?;
        Ok(message)
    }

    /// Waits until it has let go of what it started: the end of its stream says so. Before, that
    /// would end with it.
    fn wait_for_end(&mut self) -> io::Result<()> {
        match self.stream.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(io::Error::other("the launcher says more than its answer")),
            Err(error) => Err(unanswered(error)),
        }
    }

    /// Takes its exit when it has left by itself. It has some tidying to do, for which nobody
    /// waits.
    fn let_leave(mut self) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || self.end())),
            Err(_) => self.end(),
        }
    }

    fn end(&mut self) {
        let since = Instant::now();
        while since.elapsed() < EXIT_TIME {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(EXIT_PAUSE),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}

fn unanswered(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("the launcher ended without an answer: is it this program's agent?")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other("the launcher did not answer in time")
        }
        _ => error,
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that has left is not killed: its exit was taken.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}
