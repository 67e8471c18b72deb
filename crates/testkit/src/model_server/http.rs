//! Just enough HTTP/1.1 to read requests, keep connections alive and break off wherever the
//! script says. Bodies come with a `Content-Length`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest head of a request: far beyond any client's, so that a runaway one is noticed.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest body: twice what the product may send to a model.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The first lines of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl Head {
    /// Tells whether the connection closes after the answer.
    pub(super) fn is_last(&self) -> bool {
        self.headers.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// One client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not yet used.
    carry: BytesMut,
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Small frames must leave at once; a socket that cannot promise it still works.
        let _ = stream.set_nodelay(true).is_ok();
        Self { stream, carry: BytesMut::new() }
    }

    /// Reads the next request; `None` where the client has closed.
    pub(super) async fn request(&mut self) -> io::Result<Option<(Head, Bytes)>> {
        let end = loop {
            if let Some(at) = self.carry.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if self.carry.len() > HEAD_BYTES_MAX {
                return Err(broken("the head of the request is too long"));
            }
            if self.stream.read_buf(&mut self.carry).await? == 0 {
                return Ok(None);
            }
        };
        let head = parse(&self.carry.split_to(end))?;
        self.carry.advance(4);
        if head.headers.contains_key("transfer-encoding") {
            return Err(broken("this server reads bodies with a content-length only"));
        }
        let length = head.headers.get("content-length").map_or("0", String::as_str);
        let length: usize = length.parse().map_err(|_| broken("odd content-length"))?;
        if length > BODY_BYTES_MAX {
            return Err(broken("the body is too long"));
        }
        if head.headers.contains_key("expect") {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        self.carry.reserve(length.saturating_sub(self.carry.len()));
        while self.carry.len() < length {
            if self.stream.read_buf(&mut self.carry).await? == 0 {
                return Ok(None);
            }
        }
        Ok(Some((head, self.carry.split_to(length).freeze())))
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Waits until the client closes. What it sends meanwhile is kept for the next request.
    pub(super) async fn closed(&mut self) {
        while self.carry.len() < BODY_BYTES_MAX {
            match self.stream.read_buf(&mut self.carry).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// Makes the coming close a TCP reset.
    pub(super) fn reset_on_close(&self) {
        let _ = self.stream.set_zero_linger().is_ok();
    }
}

fn parse(head: &[u8]) -> io::Result<Head> {
    let text = std::str::from_utf8(head).map_err(|_| broken("the head is no UTF-8"))?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (first.next(), first.next()) else {
        return Err(broken("no request line"));
    };
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    Ok(Head {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: lines.filter_map(pair).collect(),
    })
}

/// Writes the head of an answer. `length` is the body's, or absent for a chunked one.
pub(super) fn head(
    status: u16,
    content_type: &str,
    length: Option<usize>,
    headers: &[(String, String)],
) -> String {
    let mut out = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
    // Writing to a string cannot fail.
    let _ = write!(out, "content-type: {content_type}\r\n").is_ok();
    let _ = match length {
        Some(length) => write!(out, "content-length: {length}\r\n"),
        None => write!(out, "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n"),
    }
    .is_ok();
    for (name, value) in headers {
        let _ = write!(out, "{name}: {value}\r\n").is_ok();
    }
    out + "\r\n"
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        _ => "Scripted",
    }
}
