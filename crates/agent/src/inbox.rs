//! Bytes that arrived and frames that can be cut from them.

use std::io;
use std::os::fd::AsFd;

use crate::wire::{HEADER_LEN, Header, WireError};

/// How many bytes one read asks for.
const READ_LEN: usize = 64 << 10;

/// The incoming side of a stream. Holds at most one whole frame beyond what was read at once.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
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
        self.bytes.drain(..self.start);
        self.start = 0;
        let len = self.bytes.len();
        self.bytes.resize(len + READ_LEN, 0);
        let free = self.bytes.get_mut(len..).unwrap_or_default();
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&from, &mut *free));
        self.bytes.truncate(len + read.unwrap_or(0));
        Ok(read?)
    }

    /// Cuts the next frame, if one is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let unread = self.bytes.get(self.start..).unwrap_or_default();
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
}
