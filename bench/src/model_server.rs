//! A model server on loopback that answers at once and keeps exact times.
//!
//! Plain threads and blocking sockets: nothing between the kernel and the clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::wire;

/// The longest line of a request's head, and all of the head, in bytes.
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// The longest body, in bytes: more than any subject may send.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How long a connection may be silent. A run in between two requests is far shorter.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long the note of an answer may come after the subject's end: a matter of scheduling.
const NOTED_MAX: Duration = Duration::from_secs(2);

/// One request and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// When the last byte of the request had come.
    pub(crate) arrived: Instant,
    /// When the last byte of the answer was handed to the kernel.
    pub(crate) sent: Instant,
    /// The size of the request's body.
    pub(crate) bytes: usize,
}

/// What is answered, and what came.
#[derive(Debug, Default)]
struct Script {
    /// How many tool calls come before the text.
    steps: usize,
    exchanges: Vec<Exchange>,
    /// The bodies, where they are kept.
    bodies: Option<Vec<Vec<u8>>>,
    /// How many answers were begun.
    begun: usize,
}

/// A running server. It ends with the program.
#[derive(Debug)]
pub(crate) struct ModelServer {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen on loopback")?;
        let address = listener.local_addr().context("find the server's port")?;
        let script = Arc::new(Mutex::new(Script::default()));
        let shared = Arc::clone(&script);
        drop(std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&shared);
                // A subject that hangs up is no error here: its exit code tells.
                drop(std::thread::spawn(move || drop(serve(stream, &script))));
            }
        }));
        Ok(Self { address, script })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins a run: `steps` tool calls, then a text.
    pub(crate) fn begin(&self, steps: usize, keeps_bodies: bool) {
        let bodies = keeps_bodies.then(Vec::new);
        *lock(&self.script) = Script { steps, bodies, ..Script::default() };
    }

    /// Ends the run and returns what came.
    ///
    /// A subject may have read its answer and gone before the time of that answer is noted.
    pub(crate) fn end(&self) -> (Vec<Exchange>, Vec<Vec<u8>>) {
        let start = Instant::now();
        let is_noted = || {
            let script = lock(&self.script);
            script.exchanges.len() == script.begun
        };
        while !is_noted() && start.elapsed() < NOTED_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        let script = std::mem::take(&mut *lock(&self.script));
        (script.exchanges, script.bodies.unwrap_or_default())
    }
}

fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the requests of one connection.
fn serve(stream: TcpStream, script: &Mutex<Script>) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(256 * 1024, stream);
    while let Some(request) = read_request(&mut reader)? {
        let arrived = Instant::now();
        if !request.is_model_call {
            writer.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        let answer = {
            let mut script = lock(script);
            let step = script.begun;
            script.begun += 1;
            if step < script.steps { wire::tool_call(step) } else { wire::text(step) }
        };
        let mut reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
             transfer-encoding: chunked\r\n\r\n{:x}\r\n",
            answer.len()
        )
        .into_bytes();
        reply.extend_from_slice(&answer);
        reply.extend_from_slice(b"\r\n0\r\n\r\n");
        writer.write_all(&reply)?;
        let sent = Instant::now();
        let bytes = request.body.len();
        let mut script = lock(script);
        script.exchanges.push(Exchange { arrived, sent, bytes });
        if let Some(bodies) = &mut script.bodies {
            bodies.push(request.body);
        }
    }
    Ok(())
}

struct Request {
    is_model_call: bool,
    body: Vec<u8>,
}

/// Reads a request; none at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Result<Option<Request>> {
    let Some(first) = read_line(reader)? else { return Ok(None) };
    let is_model_call = first.starts_with("POST ")
        && ["/messages ", "/messages?"].iter().any(|path| first.contains(path));
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let line = read_line(reader)?.context("the head of a request ends early")?;
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else { bail!("a header without a colon") };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().context("read content-length")?,
            "transfer-encoding" => is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let body = if is_chunked { read_chunks(reader)? } else { read_bytes(reader, length)? };
    Ok(Some(Request { is_model_call, body }))
}

/// Reads a line without its end; none at the end of the stream.
pub(crate) fn read_line(reader: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = String::new();
    let read = reader.take(HEAD_BYTES_MAX).read_line(&mut line).context("read a line")?;
    if read == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

fn read_bytes(reader: &mut impl BufRead, length: usize) -> Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        bail!("a body of {length} bytes is too large");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).context("read a body")?;
    Ok(body)
}

/// Reads a body that comes in chunks.
pub(crate) fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?.context("a chunk is missing")?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("read the size of a chunk")?;
        if body.len().saturating_add(size) > BODY_BYTES_MAX {
            bail!("a body in chunks is too large");
        }
        body.extend(read_bytes(reader, size)?);
        let end = read_line(reader)?;
        if size == 0 {
            return Ok(body);
        }
        if end.as_deref() != Some("") {
            bail!("a chunk is longer than it says");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_in_both_forms() {
        let text = b"POST /v1/messages HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc\
            POST /v1/messages?beta=true HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            2\r\nde\r\n1\r\nf\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n";
        let mut reader = BufReader::new(&text[..]);
        let mut read = || read_request(&mut reader).unwrap();
        let first = read().unwrap();
        assert_eq!((first.is_model_call, first.body.as_slice()), (true, &b"abc"[..]));
        assert_eq!(read().unwrap().body, b"def");
        assert!(!read().unwrap().is_model_call);
        assert!(read().is_none());
    }
}
