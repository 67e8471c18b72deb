//! The file service of a neuron: one connection, one request at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::wire::{BODY_MAX, HEADER_LEN, Header, Reply, Request, VERSION, WireError};
use super::{FileError, list, read, remove, write};
use crate::handover::write_all;
use crate::sys;

/// How long a buffer may stay between two requests: one that held a whole file is given back,
/// because a connection may live as long as its session.
const KEEP_LEN: usize = 256 << 10;

/// Serves one connection until its other end closes. Blocks; needs one thread of a process.
///
/// What the process may do is what whoever asks may do: nothing is judged here.
pub fn serve(stream: OwnedFd) -> ExitCode {
    sys::set_name(c"narthex-files");
    match Service::new(stream).and_then(|mut service| service.run()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever speaks like that is not narthex, or is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

struct Service {
    stream: OwnedFd,
    payload: Vec<u8>,
    out: Vec<u8>,
}

impl Service {
    fn new(stream: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&stream, fcntl_getfl(&stream)?.difference(OFlags::NONBLOCK))?;
        Ok(Self { stream, payload: Vec::new(), out: Vec::new() })
    }

    fn run(&mut self) -> io::Result<()> {
        self.say(&Reply::Hello { version: VERSION })?;
        while let Some(header) = self.hear()? {
            let request = Request::decode(header.kind, &self.payload).map_err(bad_frame)?;
            let reply = answer(&request);
            self.say(&reply)?;
        }
        Ok(())
    }

    /// Reads a whole frame; returns nothing where the stream ends before one.
    fn hear(&mut self) -> io::Result<Option<Header>> {
        let mut header = [0; HEADER_LEN];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let header = Header::parse(header).map_err(bad_frame)?;
        let mut payload = std::mem::take(&mut self.payload);
        if payload.capacity() > KEEP_LEN.max(header.len) {
            payload = Vec::new();
        }
        payload.resize(header.len, 0);
        let is_whole = self.fill(&mut payload)?;
        self.payload = payload;
        // A frame that was cut off asks for nothing.
        Ok(is_whole.then_some(header))
    }

    /// Returns whether there were that many bytes.
    fn fill(&self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut start = 0;
        while let Some(room) = buffer.get_mut(start..).filter(|room| !room.is_empty()) {
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.stream, &mut *room))? {
                0 => return Ok(false),
                count => start += count,
            }
        }
        Ok(true)
    }

    fn say(&mut self, reply: &Reply) -> io::Result<()> {
        self.out.clear();
        if self.out.capacity() > KEEP_LEN {
            self.out = Vec::new();
        }
        reply.encode(&mut self.out).map_err(bad_frame)?;
        write_all(&self.stream, &self.out)
    }
}

fn answer(request: &Request<'_>) -> Reply {
    let answered = match request {
        Request::Locate { from, path } => {
            from.locate(path).map(|(target, facts)| Reply::Located(target, facts))
        }
        Request::Read { file, limit } => read(file, (*limit).min(BODY_MAX as u64))
            .map(|(facts, bytes)| Reply::Contents(facts, bytes)),
        Request::Write { file, mode, bytes } => write(file, bytes, *mode).map(Reply::Written),
        Request::Remove { file } => remove(file).map(|()| Reply::Removed),
        Request::List { folder, limit } => list(folder, *limit as usize).map(Reply::Listed),
    };
    answered.unwrap_or_else(|error: FileError| Reply::Refused(error))
}

fn bad_frame(error: WireError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    use super::*;
    use crate::files::{Locator, Target};

    /// A service in a thread of this process, and its other end.
    struct Peer {
        stream: UnixStream,
        service: Option<JoinHandle<bool>>,
    }

    impl Peer {
        fn new() -> Self {
            let (stream, far) = UnixStream::pair().unwrap();
            // `serve` would name this thread; what it does beyond is to map the result.
            let service = std::thread::spawn(move || {
                Service::new(far.into()).and_then(|mut service| service.run()).is_ok()
            });
            let mut peer = Self { stream, service: Some(service) };
            assert_eq!(peer.hear(), Reply::Hello { version: VERSION });
            peer
        }

        fn hear(&mut self) -> Reply {
            let mut header = [0; HEADER_LEN];
            self.stream.read_exact(&mut header).unwrap();
            let header = Header::parse(header).unwrap();
            let mut payload = vec![0; header.len];
            self.stream.read_exact(&mut payload).unwrap();
            Reply::decode(header.kind, &payload).unwrap()
        }

        fn ask(&mut self, request: &Request<'_>) -> Reply {
            let mut frame = Vec::new();
            request.encode(&mut frame).unwrap();
            self.stream.write_all(&frame).unwrap();
            self.hear()
        }

        /// Hangs up and tells whether the service was content.
        fn end(mut self) -> bool {
            self.stream.shutdown(std::net::Shutdown::Both).unwrap();
            self.service.take().unwrap().join().unwrap()
        }
    }

    #[test]
    fn files_are_located_written_read_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let from = Locator { cwd: base.clone(), roots: vec![base.clone()], home: None };
        let mut peer = Peer::new();
        let located = peer.ask(&Request::Locate { from, path: "a/b".to_owned() });
        let file = Target { real: base.join("a/b"), root: Some(base.clone()) };
        assert_eq!(located, Reply::Located(file.clone(), None));
        // More than the buffer that stays, so that it is given back as well.
        let text = vec![b'x'; KEEP_LEN * 2];
        let write = Request::Write { file: file.clone(), mode: Some(0o640), bytes: &text };
        let Reply::Written(facts) = peer.ask(&write) else { panic!("it was not written") };
        assert_eq!((facts.size, facts.mode), (text.len() as u64, 0o640));
        let read = |limit| Request::Read { file: file.clone(), limit };
        assert_eq!(peer.ask(&read(u64::MAX)), Reply::Contents(facts, text));
        let Reply::Refused(FileError::TooLarge { limit: 3, .. }) = peer.ask(&read(3)) else {
            panic!("it is larger than 3 bytes")
        };
        let above = Target { real: base.join("a"), root: Some(base) };
        let Reply::Listed(listing) = peer.ask(&Request::List { folder: above, limit: 9 }) else {
            panic!("it was not listed")
        };
        assert_eq!((listing.entries.len(), listing.entries[0].facts), (1, facts));
        assert_eq!(peer.ask(&Request::Remove { file: file.clone() }), Reply::Removed);
        let Reply::Refused(FileError::NotFound(_)) = peer.ask(&read(9)) else {
            panic!("it is still there")
        };
        assert!(peer.end());
    }

    #[test]
    fn a_stranger_is_hung_up_on() {
        for junk in [&[0, 0, 0, 0, 0x7f][..], &[0xff, 0xff, 0xff, 0xff, 1], &[1, 0, 0, 0, 2, 9]] {
            let mut peer = Peer::new();
            peer.stream.write_all(junk).unwrap();
            assert_eq!(peer.stream.read(&mut [0]).unwrap(), 0, "{junk:?}");
            assert!(!peer.end(), "{junk:?}");
        }
    }

    #[test]
    fn half_a_frame_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let file = Target { real: base.join("file"), root: Some(base.clone()) };
        let mut frame = Vec::new();
        Request::Write { file, mode: None, bytes: b"text" }.encode(&mut frame).unwrap();
        let mut peer = Peer::new();
        peer.stream.write_all(&frame[..frame.len() - 1]).unwrap();
        assert!(peer.end());
        assert!(!base.join("file").exists());
    }
}
