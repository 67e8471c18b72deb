//! The frames between the runtime and the agent, and between the agent and its minders.
//!
//! A frame is a header of [`HEADER_LEN`] bytes (length of the rest as `u32`, kind as `u8`, id of
//! the command as `u32`) and its fields. Numbers are little-endian; texts are bytes, because
//! paths and arguments need not be UTF-8.

#[cfg(test)]
mod tests;

/// The version that the agent names in its first frame. Both ends must speak the same.
pub const VERSION: u16 = 2;

/// How many bytes a header has.
pub const HEADER_LEN: usize = 9;

/// How many bytes a frame may have after its header. Linux accepts at most 6 MiB of arguments and
/// environment together, and [`STDIN_MAX`] may come with them; no other frame comes near.
pub const FRAME_MAX: usize = 12 << 20;

/// How many bytes a command may be given on standard input. They are held in memory on their whole
/// way: more than that belongs into a file.
pub const STDIN_MAX: usize = 4 << 20;

/// How many bytes of output may be on their way per command before the reader says that it took
/// them: enough to keep a pipe busy over a round trip, small enough for many commands at once.
pub const WINDOW: u32 = 1 << 20;

/// What a frame of output costs beside its bytes, so that a window also limits how many small
/// frames may wait.
pub const FRAME_COST: u32 = 256;

/// How many bytes of output one frame may carry: what a pipe holds.
pub const OUTPUT_MAX: usize = 64 << 10;

/// The kind of [`Reply::Output`], for readers that want its bytes without a copy.
pub const OUTPUT: u8 = 0x84;

const SPAWN: u8 = 0x01;
const KILL: u8 = 0x02;
const CREDIT: u8 = 0x03;
const HELLO: u8 = 0x81;
const STARTED: u8 = 0x82;
const FAILED: u8 = 0x83;
const ENDED: u8 = 0x85;
const LOST: u8 = 0x86;

/// A frame that cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is longer than [`FRAME_MAX`].
    #[error("frame of {0} bytes is over the limit of {FRAME_MAX}")]
    TooLong(usize),
    /// It gives a command more than [`STDIN_MAX`] to read.
    #[error("standard input of {0} bytes is over the limit of {STDIN_MAX}")]
    InputTooLong(usize),
    /// Its kind is unknown.
    #[error("frame of unknown kind {0:#04x}")]
    Unknown(u8),
    /// Its fields end too early, go on too long, or have a value that does not exist.
    #[error("frame of kind {0:#04x} is malformed")]
    Malformed(u8),
}

/// What stands before the fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How many bytes follow.
    pub len: usize,
    /// The kind of frame.
    pub kind: u8,
    /// The command.
    pub id: u32,
}

impl Header {
    /// Reads a header, or returns nothing while there are too few bytes.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let Some(&[a, b, c, d, kind, e, f, g, h]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > FRAME_MAX {
            return Err(WireError::TooLong(len));
        }
        Ok(Some(Self { len, kind, id: u32::from_le_bytes([e, f, g, h]) }))
    }
}

/// A command to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// The program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// The folder to run in, absolute.
    pub cwd: Vec<u8>,
    /// The whole environment, each as `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// What it reads on standard input, then the end of it; at most [`STDIN_MAX`] bytes.
    pub stdin: Vec<u8>,
}

/// What the agent is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Start a command under a new id.
    Spawn(Spawn),
    /// End a tree: SIGTERM now, SIGKILL after this many milliseconds.
    Kill {
        /// The time between the two signals.
        grace_ms: u32,
    },
    /// The reader took this many bytes (frame costs included).
    Credit {
        /// How many.
        bytes: u32,
    },
}

/// At which step a command could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Entering its folder.
    Folder,
    /// Finding or executing its program.
    Program,
    /// Anything on our side.
    Launch,
}

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Reads the first field of a [`Reply::Output`].
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Stream::Stdout),
            2 => Some(Stream::Stderr),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        }
    }
}

/// A true wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The process ended by itself with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The end of a command and its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The wait status of the command's own process.
    pub status: Status,
    /// How many descendants were still running when it ended.
    pub leftovers: u32,
    /// Whether [`Request::Kill`] came while it ran.
    pub killed: bool,
    /// How many processes could not be ended (another user's, or stuck in the kernel).
    pub survivors: u32,
}

/// What the agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The first frame. A minder says it to its agent after the last word about a command, when
    /// it is ready for another.
    Hello {
        /// The version that the agent speaks.
        version: u16,
    },
    /// The command runs.
    Started {
        /// The id of its process.
        pid: u32,
    },
    /// The command does not run.
    Failed {
        /// What failed.
        step: Step,
        /// The system's error number.
        errno: i32,
    },
    /// A piece of output.
    Output {
        /// Where it came from.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The command and its whole tree ended; all of its output has been sent.
    Ended(Ended),
    /// The command's minder died, so that the status is not known. Its tree was ended.
    Lost,
}

impl Request {
    /// Appends this request for command `id`.
    ///
    /// # Errors
    /// [`WireError::TooLong`], [`WireError::InputTooLong`]; nothing is appended then.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Request::Spawn(spawn) if spawn.stdin.len() > STDIN_MAX => {
                Err(WireError::InputTooLong(spawn.stdin.len()))
            }
            Request::Spawn(spawn) => frame(out, SPAWN, id, |out| {
                put_list(out, &spawn.argv);
                put_bytes(out, &spawn.cwd);
                put_list(out, &spawn.env);
                put_bytes(out, &spawn.stdin);
            }),
            Request::Kill { grace_ms } => frame(out, KILL, id, |out| put_u32(out, *grace_ms)),
            Request::Credit { bytes } => frame(out, CREDIT, id, |out| put_u32(out, *bytes)),
        }
    }

    /// Reads the fields of a request.
    ///
    /// # Errors
    /// [`WireError::Unknown`], [`WireError::Malformed`], [`WireError::InputTooLong`].
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields { kind, rest: payload };
        let request = match kind {
            SPAWN => Request::Spawn(Spawn {
                argv: fields.list()?,
                cwd: fields.bytes()?.to_vec(),
                env: fields.list()?,
                stdin: fields.input()?.to_vec(),
            }),
            KILL => Request::Kill { grace_ms: fields.u32()? },
            CREDIT => Request::Credit { bytes: fields.u32()? },
            _ => return Err(WireError::Unknown(kind)),
        };
        fields.end()?;
        Ok(request)
    }

    /// Tells whether frames of this kind ask for a command to be started; those are handed to a
    /// minder as they are.
    pub(crate) fn is_spawn(kind: u8) -> bool {
        kind == SPAWN
    }
}

impl Reply {
    /// Appends this reply about command `id`.
    ///
    /// # Errors
    /// [`WireError::TooLong`]; nothing is appended then.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Reply::Hello { version } => {
                frame(out, HELLO, id, |out| out.extend_from_slice(&version.to_le_bytes()))
            }
            Reply::Started { pid } => frame(out, STARTED, id, |out| put_u32(out, *pid)),
            Reply::Failed { step, errno } => frame(out, FAILED, id, |out| {
                out.push(match step {
                    Step::Folder => 1,
                    Step::Program => 2,
                    Step::Launch => 3,
                });
                out.extend_from_slice(&errno.to_le_bytes());
            }),
            Reply::Output { stream, bytes } => encode_output(out, id, *stream, bytes),
            Reply::Ended(ended) => frame(out, ENDED, id, |out| {
                let (tag, number) = match ended.status {
                    Status::Code(code) => (1, code),
                    Status::Signal(signal) => (2, signal),
                };
                out.push(tag);
                out.extend_from_slice(&number.to_le_bytes());
                put_u32(out, ended.leftovers);
                out.push(u8::from(ended.killed));
                put_u32(out, ended.survivors);
            }),
            Reply::Lost => frame(out, LOST, id, |_| ()),
        }
    }

    /// Reads the fields of a reply.
    ///
    /// # Errors
    /// [`WireError::Unknown`], [`WireError::Malformed`].
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let malformed = WireError::Malformed(kind);
        let mut fields = Fields { kind, rest: payload };
        let reply = match kind {
            HELLO => Reply::Hello { version: u16::from_le_bytes(fields.array()?) },
            STARTED => Reply::Started { pid: fields.u32()? },
            FAILED => {
                let step = match fields.u8()? {
                    1 => Step::Folder,
                    2 => Step::Program,
                    3 => Step::Launch,
                    _ => return Err(malformed),
                };
                Reply::Failed { step, errno: fields.i32()? }
            }
            OUTPUT => {
                let stream = Stream::from_byte(fields.u8()?).ok_or(malformed)?;
                let bytes = std::mem::take(&mut fields.rest).to_vec();
                Reply::Output { stream, bytes }
            }
            ENDED => {
                let status = match (fields.u8()?, fields.i32()?) {
                    (1, code) => Status::Code(code),
                    (2, signal) => Status::Signal(signal),
                    _ => return Err(malformed),
                };
                let leftovers = fields.u32()?;
                let killed = fields.u8()? != 0;
                Reply::Ended(Ended { status, leftovers, killed, survivors: fields.u32()? })
            }
            LOST => Reply::Lost,
            _ => return Err(WireError::Unknown(kind)),
        };
        fields.end()?;
        Ok(reply)
    }
}

/// Appends a [`Reply::Output`] without taking its bytes.
///
/// # Errors
/// [`WireError::TooLong`].
pub fn encode_output(
    out: &mut Vec<u8>,
    id: u32,
    stream: Stream,
    bytes: &[u8],
) -> Result<(), WireError> {
    frame(out, OUTPUT, id, |out| {
        out.push(stream.byte());
        out.extend_from_slice(bytes);
    })
}

/// Appends a header, the fields, and then the length that they turned out to have.
fn frame(
    out: &mut Vec<u8>,
    kind: u8,
    id: u32,
    fields: impl FnOnce(&mut Vec<u8>),
) -> Result<(), WireError> {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    put_u32(out, id);
    fields(out);
    let len = out.len() - start - HEADER_LEN;
    match (u32::try_from(len), out.get_mut(start..start + 4)) {
        (Ok(short), Some(place)) if len <= FRAME_MAX => {
            place.copy_from_slice(&short.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(WireError::TooLong(len))
        }
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A length over `u32` makes a frame that is over the limit anyway, so that it never leaves.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(bytes);
}

fn put_list(out: &mut Vec<u8>, list: &[Vec<u8>]) {
    put_u32(out, u32::try_from(list.len()).unwrap_or(u32::MAX));
    for item in list {
        put_bytes(out, item);
    }
}

/// The fields of a frame that were not read yet.
struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.malformed())?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(self.malformed())?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    fn input(&mut self) -> Result<&'a [u8], WireError> {
        let input = self.bytes()?;
        if input.len() > STDIN_MAX {
            return Err(WireError::InputTooLong(input.len()));
        }
        Ok(input)
    }

    fn list(&mut self) -> Result<Vec<Vec<u8>>, WireError> {
        let count = self.u32()? as usize;
        // Each item has at least its length, so a count beyond that is a lie; no memory for it.
        if count > self.rest.len() / 4 {
            return Err(self.malformed());
        }
        (0..count).map(|_| self.bytes().map(<[u8]>::to_vec)).collect()
    }

    fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }

    fn malformed(&self) -> WireError {
        WireError::Malformed(self.kind)
    }
}
