//! Bytes that arrived and frames that can be cut from them.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::handover::FILES_SPACE;
use crate::wire::{HEADER_LEN, Header, WireError};

/// How many bytes one read asks for.
const READ_LEN: usize = 64 << 10;

/// How long a buffer may stay when it is empty: one that held a frame near the limit is given
/// back, because whoever holds it may live long.
const KEEP_LEN: usize = 256 << 10;

/// The incoming side of a stream. Holds at most one whole frame beyond what was read at once.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Clean memory, cleared once and not for each read; what is unread stands in it.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// One frame, still in the buffer.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    pub(crate) payload: &'a [u8],
    /// Header and payload, for handing the frame on as it is.
    pub(crate) whole: &'a [u8],
}

impl Inbox {
    /// Reads once. Returns how many bytes came; 0 is the end of the stream.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<usize> {
        let room = self.room();
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&from, &mut *room))?;
        self.end += count;
        Ok(count)
    }

    /// Does the same, and takes the descriptors that came along.
    pub(crate) fn fill_with_files(
        &mut self,
        from: impl AsFd,
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let room = self.room();
        let mut space = [MaybeUninit::uninit(); FILES_SPACE];
        let mut along = RecvAncillaryBuffer::new(&mut space);
        let count = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut *room)];
            recvmsg(&from, &mut parts, &mut along, RecvFlags::CMSG_CLOEXEC)
        })?
        .bytes;
        for message in along.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                files.extend(came);
            }
        }
        self.end += count;
        Ok(count)
    }

    /// Cuts the next frame, if one is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let unread = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some(header) = Header::parse(unread)? else {
            return Ok(None);
        };
        let len = HEADER_LEN + header.len;
        let Some(whole) = unread.get(..len) else {
            return Ok(None);
        };
        self.start += len;
        Ok(Some(Frame { header, payload: whole.get(HEADER_LEN..).unwrap_or_default(), whole }))
    }

    /// Moves what is unread to the front and returns the place for what comes next.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == 0 && self.bytes.len() > KEEP_LEN {
            self.bytes = Vec::new();
        }
        if self.bytes.len() < self.end + READ_LEN {
            self.bytes.resize(self.end + READ_LEN, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::handover::hand_over;
    use crate::wire::Request;

    fn kills(inbox: &mut Inbox) -> Vec<u32> {
        let mut ids = Vec::new();
        while let Some(frame) = inbox.next().unwrap() {
            ids.push(frame.header.id);
        }
        ids
    }

    #[test]
    fn frames_come_out_however_they_were_cut() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut inbox = Inbox::default();
        let mut bytes = Vec::new();
        for id in 0..4 {
            Request::Kill { grace_ms: 1 }.encode(id, &mut bytes).unwrap();
        }
        let mut seen = Vec::new();
        for piece in bytes.chunks(5) {
            near.write_all(piece).unwrap();
            assert_eq!(inbox.fill(&far).unwrap(), piece.len());
            seen.extend(kills(&mut inbox));
        }
        assert_eq!(seen, [0, 1, 2, 3]);
        drop(near);
        assert_eq!(inbox.fill(&far).unwrap(), 0);
    }

    #[test]
    fn the_room_of_a_long_frame_is_given_back() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut inbox = Inbox::default();
        let writer = std::thread::spawn(move || {
            let mut frame = vec![0, 0, 0x10, 0, 0x7f, 9, 0, 0, 0];
            frame.resize(HEADER_LEN + (1 << 20), 7);
            near.write_all(&frame).unwrap();
            near
        });
        let len = loop {
            inbox.fill(&far).unwrap();
            if let Some(frame) = inbox.next().unwrap() {
                assert!(frame.payload.iter().all(|byte| *byte == 7));
                break frame.payload.len();
            }
        };
        assert_eq!(len, 1 << 20);
        assert!(inbox.bytes.len() >= 1 << 20);
        writer.join().unwrap().write_all(&[0]).unwrap();
        inbox.fill(&far).unwrap();
        assert!(inbox.bytes.len() <= KEEP_LEN);
    }

    #[test]
    fn descriptors_come_with_their_frame_behind_others() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let (probe, handed) = UnixStream::pair().unwrap();
        let mut kill = Vec::new();
        Request::Kill { grace_ms: 1 }.encode(1, &mut kill).unwrap();
        near.write_all(&kill).unwrap();
        hand_over(&near, &kill, &[handed.as_fd(), handed.as_fd()]).unwrap();
        near.write_all(&kill).unwrap();
        let (mut inbox, mut files) = (Inbox::default(), Vec::new());
        let mut count = 0;
        while count < 3 {
            inbox.fill_with_files(&far, &mut files).unwrap();
            count += kills(&mut inbox).len();
        }
        assert_eq!((count, files.len()), (3, 2));
        drop(handed);
        rustix::io::write(&files[1], b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&probe, &mut byte).unwrap(), 1);
    }
}
