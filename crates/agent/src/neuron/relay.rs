//! The way out of a neuron without a network: connections to a port of its own loopback device go
//! to a socket of the machine, where a proxy decides.
//!
//! A process of its own, which stands in the folder of that socket: no command has a path to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Ipv4Addr, Shutdown, SocketAddrUnix, SocketAddrV4, SocketFlags, SocketType,
    accept_with, bind, connect, listen, shutdown, socket_with,
};
use rustix::process::fchdir;

use super::plan::EGRESS_PORT;
use crate::sys;

/// How many connections are relayed at once: package managers open a few dozen. More wait to be
/// accepted.
const LINKS_MAX: usize = 128;

/// How many bytes wait in each direction of a connection: what a pipe holds.
const BUFFER_LEN: usize = 64 << 10;

/// Listens where commands look for the proxy.
pub(super) fn listen_inside() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, EGRESS_PORT))?;
    listen(&socket, 128)?;
    Ok(socket)
}

/// Relays until the process is killed. Returns only where it cannot go on.
pub(super) fn relay(inside: &OwnedFd, folder: &OwnedFd, name: &str) -> io::Result<()> {
    sys::set_name(c"narthex-relay");
    fchdir(folder)?;
    let outside = SocketAddrUnix::new(name)?;
    let mut links: Vec<Link> = Vec::new();
    loop {
        let mut fds = Vec::with_capacity(1 + links.len() * 2);
        let wanted = if links.len() < LINKS_MAX { PollFlags::IN } else { PollFlags::empty() };
        fds.push(PollFd::new(inside, wanted));
        for link in &links {
            let [near, far] = link.interests();
            fds.push(PollFd::new(&link.near, near));
            fds.push(PollFd::new(&link.far, far));
        }
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let is_called = ready.next().unwrap_or_default();
        let touched: Vec<bool> =
            std::iter::from_fn(|| Some(ready.next()? | ready.next()?)).collect();
        drop(fds);
        let mut touched = touched.into_iter();
        links.retain_mut(|link| !touched.next().unwrap_or_default() || link.carry().is_ok());
        if is_called && links.len() < LINKS_MAX {
            links.extend(take(inside, &outside));
        }
    }
}

/// Accepts a connection and connects it. One for which there is no proxy is closed.
fn take(inside: &OwnedFd, outside: &SocketAddrUnix) -> Option<Link> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let near = accept_with(inside, flags).ok()?;
    let far = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&far, outside).ok()?;
    Some(Link { near, far, there: Flow::new(), back: Flow::new() })
}

/// One connection.
struct Link {
    near: OwnedFd,
    far: OwnedFd,
    there: Flow,
    back: Flow,
}

impl Link {
    /// What to wait for at both ends. One that is done with says nothing but that it is gone.
    fn interests(&self) -> [PollFlags; 2] {
        let mut near = PollFlags::empty();
        let mut far = PollFlags::empty();
        near.set(PollFlags::IN, self.there.wants_more());
        far.set(PollFlags::OUT, self.there.has_more());
        far.set(PollFlags::IN, self.back.wants_more());
        near.set(PollFlags::OUT, self.back.has_more());
        [near, far]
    }

    /// Moves what can be moved.
    ///
    /// # Errors
    /// When the connection is over, in both directions or because one end is gone.
    fn carry(&mut self) -> Result<(), Errno> {
        self.there.carry(&self.near, &self.far)?;
        self.back.carry(&self.far, &self.near)?;
        if self.there.is_over && self.back.is_over { Err(Errno::PIPE) } else { Ok(()) }
    }
}

/// One direction of a connection.
struct Flow {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the source has ended.
    is_dry: bool,
    /// Whether that was passed on.
    is_over: bool,
}

impl Flow {
    fn new() -> Self {
        let bytes = vec![0; BUFFER_LEN].into_boxed_slice();
        Self { bytes, start: 0, end: 0, is_dry: false, is_over: false }
    }

    fn has_more(&self) -> bool {
        self.start < self.end
    }

    /// The buffer is filled again when it is empty: one copy, and neither end overtakes the other.
    fn wants_more(&self) -> bool {
        !self.is_dry && !self.has_more()
    }

    fn carry(&mut self, from: impl AsFd, to: impl AsFd) -> Result<(), Errno> {
        if self.wants_more() {
            match rustix::io::read(from, &mut *self.bytes) {
                Ok(0) => self.is_dry = true,
                Ok(count) => (self.start, self.end) = (0, count),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(rest) = self.bytes.get(self.start..self.end).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&to, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => self.start += count,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_dry && !self.has_more() && !self.is_over {
            self.is_over = true;
            shutdown(to, Shutdown::Write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A link between two streams, served by a thread until it is over.
    fn link() -> (UnixStream, UnixStream, std::thread::JoinHandle<()>) {
        let (near, inner) = UnixStream::pair().unwrap();
        let (far, outer) = UnixStream::pair().unwrap();
        inner.set_nonblocking(true).unwrap();
        outer.set_nonblocking(true).unwrap();
        let mut link =
            Link { near: inner.into(), far: outer.into(), there: Flow::new(), back: Flow::new() };
        let served = std::thread::spawn(move || {
            loop {
                let [one, other] = link.interests();
                let mut fds = [PollFd::new(&link.near, one), PollFd::new(&link.far, other)];
                poll(&mut fds, None).unwrap();
                if link.carry().is_err() {
                    return;
                }
            }
        });
        (near, far, served)
    }

    #[test]
    fn both_directions_flow_and_end_one_by_one() {
        let (mut near, mut far, served) = link();
        let much: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let sent = much.clone();
        let writer = std::thread::spawn(move || {
            near.write_all(&sent).unwrap();
            near.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).unwrap();
            answer
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        assert!(received == much, "expected all bytes in order");
        // The other direction still is open.
        far.write_all(b"answer").unwrap();
        drop(far);
        assert_eq!(writer.join().unwrap(), "answer");
        served.join().unwrap();
    }

    #[test]
    fn an_end_that_is_gone_ends_the_link() {
        let (near, mut far, served) = link();
        drop(near);
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        let _refused = far.write(b"x");
        drop(far);
        served.join().unwrap();
    }
}
