//! Frames on their way to the runtime.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::wire::{Reply, Stream, encode_output};

/// From how many waiting bytes on no more output is read from commands. The windows limit each
/// command; this limits all of them together.
const FULL_LEN: usize = 512 << 10;

/// The outgoing side of the stream: what it did not take at once waits here.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Outbox {
    /// Appends a reply. Replies other than output are few and short: they need no limit.
    pub(crate) fn push(&mut self, id: u32, reply: &Reply) {
        let encoded = reply.encode(id, &mut self.bytes);
        debug_assert!(encoded.is_ok(), "replies are far below the frame limit");
    }

    /// Appends a piece of output.
    pub(crate) fn push_output(&mut self, id: u32, stream: Stream, bytes: &[u8]) {
        let encoded = encode_output(&mut self.bytes, id, stream, bytes);
        debug_assert!(encoded.is_ok(), "a pipe's worth is far below the frame limit");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.start
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.start >= FULL_LEN
    }

    /// Writes what the stream takes without waiting.
    pub(crate) fn flush(&mut self, to: impl AsFd) -> io::Result<()> {
        while let Some(unsent) = self.bytes.get(self.start..).filter(|unsent| !unsent.is_empty()) {
            match rustix::io::write(&to, unsent) {
                Ok(count) => self.start += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.start >= FULL_LEN {
                        self.bytes.drain(..self.start);
                        self.start = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.bytes.clear();
        self.start = 0;
        Ok(())
    }
}
