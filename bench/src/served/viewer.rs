//! A viewer of an event stream.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use super::client::{get, status};
use super::wire::{Wire, header};
use crate::moment;

/// Bytes of a stream that may wait for the end of their event.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// One event of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) event: &'a str,
    pub(crate) data: &'a str,
    /// When the read that brought its end came back, in nanoseconds of the bench's clock.
    pub(crate) at: u64,
}

/// A stream that is read.
#[derive(Debug)]
pub(crate) struct Viewer {
    wire: Wire,
    chunks: Chunks,
    text: Vec<u8>,
    /// Whether what is not used yet is a part of a chunk's size.
    is_partial: bool,
}

impl Viewer {
    /// Opens a stream of the server; with `after` it begins behind that id.
    ///
    /// # Errors
    /// When the answer is no event stream.
    pub(crate) async fn open(
        address: SocketAddr,
        session: &str,
        after: Option<u64>,
    ) -> Result<Self> {
        let query = after.map_or_else(String::new, |id| format!("?last_event_id={id}"));
        Self::ask(address, &get(&format!("/v1/sessions/{session}/events{query}"))).await
    }

    /// Sends a request whose answer is a stream.
    ///
    /// # Errors
    /// When the answer is no event stream in chunks.
    pub(crate) async fn ask(address: SocketAddr, request: &[u8]) -> Result<Self> {
        let mut wire = Wire::connect(address).await?;
        wire.write(request).await?;
        let head = wire.head().await?.context("the server hung up")?;
        let is_stream = header(&head, "content-type") == Some("text/event-stream")
            && header(&head, "transfer-encoding") == Some("chunked");
        if status(&head)? != 200 || !is_stream {
            bail!("expected an event stream: {head}");
        }
        Ok(Self { wire, chunks: Chunks::default(), text: Vec::new(), is_partial: false })
    }

    /// Reads once and hands on the events that are whole; false at the end of the stream.
    ///
    /// # Errors
    /// When the stream breaks, or is none.
    pub(crate) async fn read(&mut self, mut see: impl FnMut(&Frame<'_>)) -> Result<bool> {
        let mut goes_on = true;
        if self.wire.unused().is_empty() || self.is_partial {
            goes_on = self.wire.fill().await?;
        }
        let at = moment::nanos();
        let used = self.chunks.take(self.wire.unused(), &mut self.text)?;
        self.wire.advance(used);
        self.is_partial = !self.wire.unused().is_empty();
        let pair = self.text.windows(2).rposition(|two| two == b"\n\n");
        let whole = pair.map_or(0, |at| at + 2);
        let text = std::str::from_utf8(self.text.get(..whole).unwrap_or_default());
        frames(text.context("read a stream")?, at, &mut see);
        self.text.drain(..whole);
        if self.text.len() > EVENT_BYTES_MAX {
            bail!("an event of a stream does not end");
        }
        Ok(goes_on && !self.chunks.is_over)
    }
}

/// Hands on the events of a text that ends with one.
fn frames(text: &str, at: u64, see: &mut impl FnMut(&Frame<'_>)) {
    let mut frame = Frame { at, ..Frame::default() };
    for line in text.split('\n') {
        if line.is_empty() {
            if !frame.event.is_empty() {
                see(&frame);
            }
            frame = Frame { at, ..Frame::default() };
        } else if let Some(data) = line.strip_prefix("data: ") {
            frame.data = data;
        } else if let Some(event) = line.strip_prefix("event: ") {
            frame.event = event;
        } else if let Some(id) = line.strip_prefix("id: ") {
            frame.id = id.parse().ok();
        }
    }
}

/// Where a body in chunks is read.
#[derive(Debug, Default)]
struct Chunks {
    /// Bytes that are left of the chunk, its line end included.
    left: usize,
    is_over: bool,
}

impl Chunks {
    /// Moves what is there of the body into `text`; returns how many bytes were used.
    fn take(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over {
            if self.left == 0 {
                let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
                let (line, after) = rest.split_at(end + 1);
                let line = std::str::from_utf8(line).context("read the size of a chunk")?;
                let size = usize::from_str_radix(line.trim(), 16);
                let size = size.with_context(|| format!("no size of a chunk: {line}"))?;
                self.is_over = size == 0;
                self.left = size + 2;
                rest = after;
                continue;
            }
            let (piece, after) = rest.split_at(self.left.min(rest.len()));
            // The last two bytes of a chunk are its line end.
            let of_text = self.left.saturating_sub(2).min(piece.len());
            text.extend_from_slice(piece.get(..of_text).unwrap_or_default());
            self.left -= piece.len();
            rest = after;
        }
        Ok(bytes.len() - rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let whole = b"5\r\nhello\r\n1\r\n \r\n6\r\nworld!\r\n0\r\n\r\n";
        for cut in 0..whole.len() {
            let (mut chunks, mut text, mut held) = (Chunks::default(), Vec::new(), Vec::new());
            for piece in [&whole[..cut], &whole[cut..]] {
                held.extend_from_slice(piece);
                let used = chunks.take(&held, &mut text).unwrap();
                held.drain(..used);
            }
            assert_eq!(text, b"hello world!", "cut at {cut}");
            assert!(chunks.is_over);
        }
    }

    #[test]
    fn events_are_taken_apart() {
        let text = ": heartbeat\n\nid: 7\nevent: done\ndata: {}\n\nevent: replay_gap\ndata: 1\n\n";
        let mut seen = Vec::new();
        frames(text, 3, &mut |frame: &Frame<'_>| {
            seen.push((frame.id, frame.event.to_owned(), frame.data.to_owned(), frame.at));
        });
        let done = (Some(7), "done".to_owned(), "{}".to_owned(), 3);
        assert_eq!(seen, [done, (None, "replay_gap".to_owned(), "1".to_owned(), 3)]);
    }
}
