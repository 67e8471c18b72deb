//! HTTP/1.1 over a socket, as little of it as both ends of a measurement need.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of the head of a message; a longer one is none of ours.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a body: a page of a long transcript fits.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Bytes that one read takes at most. A thousand viewers have a buffer each.
const READ_BYTES: usize = 32 * 1024;

/// A socket with what was read from it and not yet used.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    used: usize,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).context("send small packets at once")?;
        Ok(Self { stream, buffer: Vec::new(), used: 0 })
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// When nobody listens there.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await;
        Self::new(stream.with_context(|| format!("connect to {address}"))?)
    }

    /// Returns what was read and not yet used.
    pub(crate) fn unused(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Uses some of it up.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Reads once; false at the end of the stream.
    pub(crate) async fn fill(&mut self) -> Result<bool> {
        if self.used > READ_BYTES {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer).await.context("read from a socket")?;
        Ok(read > 0)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("write to a socket")
    }

    /// Reads the head of a message, with its last empty line; none at the end of the stream.
    pub(crate) async fn head(&mut self) -> Result<Option<String>> {
        loop {
            let bytes = self.unused();
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            if let Some(end) = end {
                let head = bytes.get(..end).unwrap_or_default();
                let head = String::from_utf8(head.to_vec()).context("read a head")?;
                self.advance(end);
                return Ok(Some(head));
            }
            if bytes.len() > HEAD_BYTES_MAX {
                bail!("the head of a message is too long");
            }
            let is_empty = bytes.is_empty();
            if !self.fill().await? {
                if is_empty {
                    return Ok(None);
                }
                bail!("the stream ends in the head of a message");
            }
        }
    }

    /// Reads a body of known length.
    pub(crate) async fn body(&mut self, length: usize) -> Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            bail!("a body of {length} bytes is too large");
        }
        while self.unused().len() < length {
            if !self.fill().await? {
                bail!("the stream ends in a body");
            }
        }
        let body = self.unused().get(..length).unwrap_or_default().to_vec();
        self.advance(length);
        Ok(body)
    }
}

/// Returns the value of a header of a head.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Returns the length that a head says its body has; 0 where it says nothing.
///
/// # Errors
/// For a body in chunks, and for what is no number.
pub(crate) fn length(head: &str) -> Result<usize> {
    if header(head, "transfer-encoding").is_some() {
        bail!("expected a body of known length: {head}");
    }
    header(head, "content-length").map_or(Ok(0), |text| text.parse().context("read the length"))
}
