//! Counts what a server sends until a fault is due.

use super::At;

/// Counts the bytes of one connection.
#[derive(Debug)]
pub(super) struct Meter {
    at: At,
    bytes: u64,
    /// The frames that are whole; none before the end of the head.
    frames: Option<usize>,
    /// The bytes behind the frames that were asked for.
    behind: u64,
    /// The last four bytes.
    last: [u8; 4],
}

impl Meter {
    pub(super) fn new(at: At) -> Self {
        Self { at, bytes: 0, frames: None, behind: 0, last: [0; 4] }
    }

    /// Takes what comes next; returns how many bytes of it come before the fault, once it is due.
    pub(super) fn pass(&mut self, piece: &[u8]) -> Option<usize> {
        if self.at == At::Bytes(0) {
            return Some(0);
        }
        let end = piece.iter().position(|byte| self.is_due_behind(*byte))?;
        Some(end + 1)
    }

    fn is_due_behind(&mut self, byte: u8) -> bool {
        self.bytes += 1;
        let (count, more) = match self.at {
            At::Bytes(bytes) => return self.bytes >= bytes,
            At::Frame { count, more } => (count, more),
        };
        if self.frames == Some(count) {
            self.behind += 1;
            return self.behind >= more;
        }
        self.last.rotate_left(1);
        self.last[3] = byte;
        match &mut self.frames {
            None if self.last == *b"\r\n\r\n" => self.frames = Some(0),
            // The two line feeds of a frame's end never straddle two chunks.
            Some(frames) if self.last.ends_with(b"\n\n") => *frames += 1,
            _ => return false,
        }
        self.frames == Some(count) && more == 0
    }
}
