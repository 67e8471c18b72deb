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
            link.watch(&mut fds);
        }
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(PollFd::revents);
        let is_called = ready.next().is_some_and(|events| !events.is_empty());
        let happened: Vec<[PollFlags; 2]> =
            links.iter().map(|link| link.happened(&mut ready)).collect();
        drop(fds);
        let mut happened = happened.into_iter();
        links.retain_mut(|link| {
            link.serve(happened.next().unwrap_or([PollFlags::empty(); 2])).is_ok()
        });
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
    /// What to wait for at both ends. Nothing at all where what came from an end waits for the
    /// other: one that has gone says so without a pause, and there would be nothing to do about it.
    /// An end of which nothing is wanted but to know whether it is still there has an empty set.
    fn interests(&self) -> [Option<PollFlags>; 2] {
        let of = |from: &Flow, to: &Flow| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, from.wants_more());
            wanted.set(PollFlags::OUT, to.has_more());
            (!wanted.is_empty() || !from.has_more()).then_some(wanted)
        };
        [of(&self.there, &self.back), of(&self.back, &self.there)]
    }

    /// Has both ends watched.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for (end, wanted) in [&self.near, &self.far].into_iter().zip(self.interests()) {
            fds.extend(wanted.map(|wanted| PollFd::new(end, wanted)));
        }
    }

    /// Returns what happened at both ends, from what came of those that [`Self::watch`] added.
    fn happened(&self, ready: &mut impl Iterator<Item = PollFlags>) -> [PollFlags; 2] {
        self.interests()
            .map(|wanted| wanted.and_then(|_| ready.next()).unwrap_or(PollFlags::empty()))
    }

    /// Does what there is to do after something happened.
    ///
    /// # Errors
    /// When the connection is over.
    fn serve(&mut self, happened: [PollFlags; 2]) -> Result<(), Errno> {
        if happened.iter().all(|events| events.is_empty()) {
            return Ok(());
        }
        let over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        for (wanted, events) in self.interests().into_iter().zip(happened) {
            // It has said all that it had, and hears nothing any more.
            if wanted == Some(PollFlags::empty()) && events.intersects(over) {
                return Err(Errno::PIPE);
            }
        }
        self.carry()
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
            for turn in 0.. {
                let mut fds = Vec::new();
                link.watch(&mut fds);
                poll(&mut fds, None).unwrap();
                let happened = link.happened(&mut fds.iter().map(PollFd::revents));
                drop(fds);
                if link.serve(happened).is_err() {
                    return;
                }
                assert!(turn < 20_000, "it turns without a pause");
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
    fn an_end_that_ended_and_then_went_ends_the_link_at_once() {
        let (near, mut far, served) = link();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        // Nobody hears an answer any more, and the other end says nothing.
        drop(near);
        served.join().unwrap();
        assert!(far.write(b"x").is_err());
    }

    #[test]
    fn what_an_end_said_before_it_went_waits_for_the_other_without_a_pause_of_its_own() {
        let (mut near, mut far, served) = link();
        far.set_nonblocking(true).unwrap();
        let (mut sent, mut refusals) = (0, 0);
        // Until all that is between the two is full; then the source goes away.
        while refusals < 20 {
            match far.write(&[7; 4_096]) {
                Ok(count) => (sent, refusals) = (sent + count, 0),
                Err(_) => {
                    refusals += 1;
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        }
        drop(far);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut received = Vec::new();
        near.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent, "some of it was lost");
        drop(near);
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
