//! The socket of a neuron: how one comes to its first process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use ::agent::neuron::{COMMANDS, FILES};
use driver_api::{Fault, WorkspaceError};
use protocol::NeuronId;
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::process::Identity;

/// The name of the socket in the neuron's folder.
pub(super) const SOCKET: &str = "agent.sock";

/// How often to try again while the first process has more connections to accept than may wait.
const CONNECT_TRIES: u32 = 200;

/// How long to wait in between: a second in all.
const CONNECT_PAUSE: Duration = Duration::from_millis(5);

/// How long to wait, where this may block, for a first process that has no room for one more.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// What a connection is for: the first byte that is said on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Commands, with the frames of `agent::wire`.
    Commands,
    /// Files, with the frames of `agent::files::wire`.
    Files,
}

/// Where a neuron is met.
#[derive(Debug)]
pub(crate) struct Door {
    neuron: NeuronId,
    folder: PathBuf,
}

impl Door {
    /// Names the door of a neuron with this folder. A neuron that takes its place has the same.
    pub(super) fn new(neuron: NeuronId, folder: PathBuf) -> Self {
        Self { neuron, folder }
    }

    /// Says that nobody is there.
    pub(super) fn not_running(&self) -> WorkspaceError {
        WorkspaceError::Unfit(format!("neuron {} does not run", self.neuron))
    }

    /// Connects and says what for.
    pub(crate) async fn open(&self, what_for: Use) -> Result<UnixStream, WorkspaceError> {
        let mut stream = self.connect().await?;
        let byte = match what_for {
            Use::Commands => COMMANDS,
            Use::Files => FILES,
        };
        // One that has just died takes nothing any more.
        stream.write_all(&[byte]).await.map_err(|_| self.not_running())?;
        Ok(stream)
    }

    async fn connect(&self) -> Result<UnixStream, WorkspaceError> {
        for _ in 0..CONNECT_TRIES {
            let Ok((folder, path)) = self.short_path() else { return Err(self.not_running()) };
            let connected = UnixStream::connect(&path).await;
            drop(folder);
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
                Err(error) if is_nobody(&error) => return Err(self.not_running()),
                Err(error) => {
                    return Err(
                        Fault::with(format!("connect to neuron {}", self.neuron), error).into()
                    );
                }
            }
        }
        Err(Fault::new(format!("neuron {} accepts no connection", self.neuron)).into())
    }

    /// Makes the socket, for nobody but this user. Nobody is let in before its new owner listens.
    pub(super) fn bind(&self) -> io::Result<OwnedFd> {
        let (_folder, path) = self.short_path()?;
        let socket = unix_socket()?;
        // The name gets the bits that the socket has when it is bound, whatever the mask is.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// Returns the first process of the neuron, where somebody listens.
    ///
    /// # Errors
    /// When that cannot be told.
    pub(super) fn first_process(&self) -> io::Result<Option<Identity>> {
        let socket = unix_socket()?;
        // A full queue of those who want in is waited for no longer.
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECT_TIME))?;
        let connected = self.short_path().and_then(|(_folder, path)| {
            connect(&socket, &SocketAddrUnix::new(path)?).map_err(io::Error::from)
        });
        match connected {
            Ok(()) => {}
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        // What the system says about the one who listens, not what he says himself.
        let peer = sockopt::socket_peercred(&socket)?;
        match u32::try_from(peer.pid.as_raw_pid()) {
            Ok(pid) if pid > 0 => Identity::of(pid),
            _ => Ok(None),
        }
    }

    /// Names the socket by its open folder: an address has at most 107 bytes, a home may be
    /// anywhere.
    fn short_path(&self) -> io::Result<(OwnedFd, PathBuf)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &self.folder, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        Ok((folder, path))
    }
}

fn unix_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::net::listen;

    use super::*;

    fn door(folder: &std::path::Path) -> Door {
        Door::new(NeuronId::new("n"), folder.to_owned())
    }

    #[tokio::test]
    async fn one_meets_whoever_listens_however_long_the_path_is() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let door = door(&deep);
        let socket = door.bind().unwrap();
        let mode = std::fs::metadata(deep.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(door.first_process().unwrap(), None, "nobody listens yet");
        listen(&socket, 8).unwrap();
        let first = door.first_process().unwrap().unwrap();
        assert_eq!(first.pid, std::process::id());
        let _stream = door.open(Use::Files).await.unwrap();
        drop(socket);
        assert_eq!(door.first_process().unwrap(), None);
    }

    #[tokio::test]
    async fn a_neuron_that_is_gone_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none")] {
            let refused = door(&path).open(Use::Commands).await.unwrap_err();
            assert_eq!(refused.to_string(), "neuron n does not run");
        }
    }
}
