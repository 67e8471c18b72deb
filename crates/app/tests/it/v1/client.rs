//! A plain client: one request, or one event stream, over a socket; strict about what comes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a client waits for a frame, heartbeats not counted, before it gives a test up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The kinds of events that are not recorded.
const DELTAS: [&str; 3] = ["text_delta", "thinking_delta", "tool_progress"];

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) port: u16,
    pub(super) token: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("JSON: {self:?}"))
    }

    /// Returns the code of a refusal.
    pub(super) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection for one request after another.
pub(super) struct Line {
    api: Api,
    stream: BufReader<TcpStream>,
}

impl Line {
    pub(super) fn open(api: &Api) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", api.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { api: api.clone(), stream: BufReader::new(stream) })
    }

    /// Sends a request without waiting for its answer.
    pub(super) fn send(
        &mut self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<()> {
        let text = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} /v1{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n",
            self.api.token
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if body.is_some() {
            head.push_str("content-type: application/json\r\n");
        }
        head.push_str(&format!("content-length: {}\r\n\r\n{text}", text.len()));
        self.stream.get_mut().write_all(head.as_bytes())
    }

    /// Reads the head of an answer.
    fn head(&mut self) -> io::Result<(u16, BTreeMap<String, String>)> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("a status line: {line:?}"));
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                return Ok((status, headers));
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    /// Reads an answer.
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let (status, headers) = self.head()?;
        let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, headers, body: String::from_utf8(body).unwrap() })
    }

    pub(super) fn ask(
        &mut self,
        request: (&str, &str),
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        self.send(request, &[], body)?;
        self.answer()
    }

    /// Says nothing more, and goes on reading.
    pub(super) fn half_close(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    }
}

/// One frame of an event stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) id: Option<u64>,
    pub(super) data: Value,
}

impl Frame {
    pub(super) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_default()
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind() == kind
    }
}

/// What a stream brings next.
#[derive(Debug)]
pub(super) enum Next {
    Frame(Frame),
    /// The server said that this was all.
    Ended,
    /// The connection broke.
    Broken,
}

/// A stream, or the status of a refusal, or a network that failed.
#[derive(Debug)]
pub(super) enum Refused {
    Status(u16),
    Network,
}

/// An event stream of a session.
pub(super) struct Stream {
    body: BufReader<Chunks>,
    last: Option<u64>,
    session: String,
}

impl Stream {
    pub(super) fn open(api: &Api, session: &str, last: Option<u64>) -> Result<Self, Refused> {
        let last_text = last.map(|id| id.to_string());
        let headers = last_text.iter().map(|id| ("last-event-id", id.as_str()));
        let headers: Vec<_> = headers.collect();
        let open = || {
            let mut line = Line::open(api)?;
            line.send(("GET", &format!("/sessions/{session}/events")), &headers, None)?;
            let head = line.head()?;
            io::Result::Ok((line, head))
        };
        let Ok((line, (status, headers))) = open() else { return Err(Refused::Network) };
        if status != 200 {
            return Err(Refused::Status(status));
        }
        assert_eq!(headers["content-type"], "text/event-stream", "{headers:?}");
        assert_eq!(headers["transfer-encoding"], "chunked", "{headers:?}");
        let chunks = Chunks { stream: line.stream, left: 0, is_begun: false, is_over: false };
        Ok(Self { body: BufReader::new(chunks), last, session: session.to_owned() })
    }

    /// Reads the next frame, or the end. What was begun of a frame does not count.
    pub(super) fn next(&mut self) -> Next {
        let (mut id, mut name, mut data) = (None, None, None);
        let begun = Instant::now();
        loop {
            let waited = begun.elapsed();
            assert!(waited < PATIENCE, "no frame of {} came behind {:?}", self.session, self.last);
            let mut line = String::new();
            match self.body.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => {}
                Ok(_) => {
                    return if self.body.get_ref().is_over { Next::Ended } else { Next::Broken };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("nothing came within {PATIENCE:?}, the last id was {:?}", self.last)
                }
                Err(_) => return Next::Broken,
            }
            let line = line.strip_suffix('\n').unwrap();
            match line.split_once(": ") {
                None if line.is_empty() && data.is_none() => {}
                None if line.is_empty() => break,
                Some(("id", value)) => id = Some(value.parse().unwrap()),
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                Some(("", "heartbeat")) => {}
                _ => panic!("a line that has no place in a stream: {line:?}"),
            }
        }
        Next::Frame(self.checked(Frame { id, data: data.unwrap() }, name.as_deref()))
    }

    fn checked(&mut self, frame: Frame, name: Option<&str>) -> Frame {
        assert_eq!(name, Some(frame.kind()));
        if frame.is("replay_gap") {
            assert_eq!(frame.id, None, "a gap is no place to resume from");
            return frame;
        }
        assert!(frame.id.is_some() && frame.id > self.last, "{:?} then {frame:?}", self.last);
        assert_eq!(frame.data["sessionId"], *self.session, "{frame:?}");
        let is_delta = DELTAS.contains(&frame.kind());
        assert_eq!(frame.data["seq"].is_null(), is_delta, "{frame:?}");
        self.last = frame.id;
        frame
    }

    /// Reads up to the first frame that fits; it is the last one.
    pub(super) fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            match self.next() {
                Next::Frame(frame) => {
                    let is_last = fits(&frame);
                    frames.push(frame);
                    if is_last {
                        return frames;
                    }
                }
                other => panic!("{other:?} behind {:?}", frames.last()),
            }
        }
    }

    /// Reads the rest of a stream that ends.
    pub(super) fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            match self.next() {
                Next::Frame(frame) => frames.push(frame),
                Next::Ended => return frames,
                Next::Broken => panic!("it broke behind {:?}", frames.last()),
            }
        }
    }
}

/// A body in chunks.
struct Chunks {
    stream: BufReader<TcpStream>,
    left: usize,
    is_begun: bool,
    is_over: bool,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_over {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            if std::mem::replace(&mut self.is_begun, true) {
                // The end of the chunk before. Whoever waits for it behind that chunk's last
                // byte may wait in vain.
                self.stream.read_line(&mut line)?;
                line.clear();
            }
            self.stream.read_line(&mut line)?;
            let Some(size) = line.strip_suffix("\r\n") else { return Ok(0) };
            self.left = usize::from_str_radix(size, 16).expect("the size of a chunk");
            if self.left == 0 {
                self.is_over = true;
                return Ok(0);
            }
        }
        let most = out.len().min(self.left);
        let count = self.stream.read(&mut out[..most])?;
        self.left -= count;
        Ok(count)
    }
}

/// What a client has seen over all its connections.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Where it goes on.
    pub(super) last: u64,
    pub(super) recorded: Vec<Frame>,
    pub(super) deltas: Vec<Frame>,
    pub(super) gaps: usize,
}

impl Seen {
    pub(super) fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    pub(super) fn take(&mut self, frame: Frame) {
        let Some(id) = frame.id else {
            self.gaps += 1;
            return;
        };
        assert!(id > self.last, "{frame:?} came twice");
        self.last = id;
        let is_delta = DELTAS.contains(&frame.kind());
        if is_delta { self.deltas.push(frame) } else { self.recorded.push(frame) }
    }

    pub(super) fn count(&self, kind: &str) -> usize {
        count(&self.recorded, kind)
    }
}

/// Counts the frames of a kind.
pub(super) fn count(frames: &[Frame], kind: &str) -> usize {
    frames.iter().filter(|frame| frame.is(kind)).count()
}
