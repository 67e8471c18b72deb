//! Lines of a byte stream, none longer than a limit.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of one message: a prompt with images fits, a runaway peer does not.
pub const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes that a buffer keeps between two messages: most are shorter, and one long message shall
/// not hold its memory for the rest of the connection.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// It was longer than [`LINE_BYTES_MAX`] and was passed over.
    TooLong,
}

#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    begun: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), begun: Vec::new(), is_too_long: false }
    }

    /// Waits for the next line; none at the end of the stream. What stands behind the last line's
    /// end is a line as well. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                let is_over = self.begun.is_empty() && !self.is_too_long;
                return Ok((!is_over).then(|| self.take()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let (part, used) = match end {
                Some(end) => (chunk.get(..end).unwrap_or_default(), end + 1),
                None => (chunk, chunk.len()),
            };
            if self.begun.len() + part.len() > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.begun = Vec::new();
            } else if !self.is_too_long {
                self.begun.extend_from_slice(part);
            }
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        if std::mem::take(&mut self.is_too_long) {
            return Line::TooLong;
        }
        let fresh = Vec::with_capacity(self.begun.len().min(KEPT_BYTES_MAX));
        let mut line = std::mem::replace(&mut self.begun, fresh);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Line::Whole(line)
    }
}
