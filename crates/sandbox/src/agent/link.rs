//! The connection to one living agent process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::agent::OPEN_FILES_VARIABLE;
use ::agent::wire::{
    Ended, FRAME_COST, HEADER_LEN, Header, OUTPUT, Reply, Step, Stream, VERSION, WINDOW,
};
use bytes::{Bytes, BytesMut};
use driver_api::{Fault, Output, WorkspaceError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many frames may wait to be written. Requests are rare; whoever has one can wait.
const REQUESTS_MAX: usize = 64;

/// How many events of a command may wait: as many frames as its window lets through, and the few
/// that are no output. The agent never sends more, so a full queue is its fault.
const EVENTS_MAX: usize = (WINDOW / FRAME_COST) as usize + 8;

/// How much room a new buffer has: two frames of output.
const READ_LEN: usize = 128 << 10;

/// Below how much room a new buffer is taken. Pieces of output keep their buffer alive, so one is
/// filled almost to the end before the next is taken.
const READ_LEN_MIN: usize = 4 << 10;

/// How long a new process may take to say that it is an agent. It takes milliseconds, but a
/// machine may be busy.
const GREET_TIME: Duration = Duration::from_secs(10);

/// How long an agent may take to leave once nobody asks it for anything any more: it gives up by
/// itself after four seconds. One that somebody stopped never leaves.
const LEAVE_TIME: Duration = Duration::from_secs(10);

/// What the agent says about one command.
#[derive(Debug)]
pub(crate) enum Event {
    Started,
    Failed(Step, i32),
    Output(Output),
    Ended(Ended),
    Lost,
}

/// Frames on their way to the agent.
pub(crate) type Requests = mpsc::Sender<Vec<u8>>;

/// One agent process, as long as it lives. A clone is another handle of the same.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    requests: Requests,
    routes: Arc<Routes>,
    last_id: Arc<AtomicU32>,
    closing: CancellationToken,
    gone: CancellationToken,
    silent: CancellationToken,
    /// Absent where it was not started here.
    pid: Option<u32>,
}

/// Where the replies about each command go. Once the agent is dead nothing can be added.
#[derive(Debug)]
struct Routes {
    open: Mutex<Option<HashMap<u32, mpsc::Sender<Event>>>>,
    death: OnceLock<String>,
}

impl Link {
    /// Starts an agent process and the two tasks that talk to it.
    pub(crate) async fn start(
        command: &[OsString],
        open_files: Option<u64>,
        (tasks, closing): (&TaskTracker, CancellationToken),
    ) -> Result<Self, WorkspaceError> {
        let owned = command.to_vec();
        let started = tokio::task::spawn_blocking(move || start_process(&owned, open_files)).await;
        let shown = || format!("start agent {}", command.join(" ".as_ref()).to_string_lossy());
        let (child, near) = started
            .map_err(|error| Fault::with(shown(), error))?
            .map_err(|error| Fault::with(shown(), error))?;
        let stream = near.set_nonblocking(true).and_then(|()| UnixStream::from_std(near));
        let stream = stream.map_err(|error| Fault::with("talk to agent", error))?;
        Ok(Self::over(stream, Some(child), (tasks, closing)))
    }

    /// Takes over a stream to an agent that was there already.
    pub(crate) fn connect(
        stream: UnixStream,
        (tasks, closing): (&TaskTracker, CancellationToken),
    ) -> Self {
        Self::over(stream, None, (tasks, closing))
    }

    fn over(
        stream: UnixStream,
        child: Option<Child>,
        (tasks, closing): (&TaskTracker, CancellationToken),
    ) -> Self {
        let (reader, writer) = stream.into_split();
        let (requests, waiting) = mpsc::channel(REQUESTS_MAX);
        let open = Mutex::new(Some(HashMap::new()));
        let link = Self {
            requests,
            routes: Arc::new(Routes { open, death: OnceLock::new() }),
            last_id: Arc::new(AtomicU32::new(0)),
            closing,
            gone: CancellationToken::new(),
            silent: CancellationToken::new(),
            pid: child.as_ref().map(Child::id),
        };
        let hung_up = CancellationToken::new();
        let hang_up = hung_up.clone().drop_guard();
        let writing = write(writer, waiting, link.closing.clone());
        let _writer = tasks.spawn(async move {
            writing.await;
            drop(hang_up);
        });
        let (routes, gone) = (Arc::clone(&link.routes), link.gone.clone());
        let _reader = tasks.spawn(async move {
            let too_late = async {
                hung_up.cancelled().await;
                tokio::time::sleep(LEAVE_TIME).await;
            };
            let death = tokio::select! {
                death = read(reader, &routes) => death,
                () = too_late => "agent did not leave when it was told to".to_owned(),
            };
            routes.close(death);
            // Usually it has exited already. An agent that breaks the protocol is killed: its
            // minders end the trees then.
            if let Some(child) = child {
                let _reaped = tokio::task::spawn_blocking(move || reap(child)).await;
            }
            gone.cancel();
        });
        link
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.routes.lock().is_some() && !self.closing.is_cancelled()
    }

    /// Returns what is cancelled once the agent did not do in time what it does in milliseconds:
    /// somebody stopped it. Nothing more is asked of it then, and what it runs is let go on.
    pub(crate) fn silent(&self) -> &CancellationToken {
        &self.silent
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Returns why it is dead.
    pub(crate) fn death(&self) -> Option<&str> {
        self.routes.death.get().map(String::as_str)
    }

    /// Reserves an id for a command and returns what its follower needs.
    pub(crate) fn register(
        &self,
    ) -> Result<(u32, Requests, mpsc::Receiver<Event>), WorkspaceError> {
        let (events, followed) = mpsc::channel(EVENTS_MAX);
        // Ids come round after four thousand million commands, none of which lives that long.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match &mut *self.routes.lock() {
            Some(open) => open.insert(id, events),
            None => return Err(Fault::new("agent died").into()),
        };
        Ok((id, self.requests.clone(), followed))
    }

    /// Hangs up and waits until the process is gone.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        self.gone.cancelled().await;
    }
}

impl Routes {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<u32, mpsc::Sender<Event>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all commands, which tells their followers.
    fn close(&self, death: String) {
        let _first = self.death.set(death);
        *self.lock() = None;
    }

    /// Hands an event to its command. Returns whether there was room for it.
    fn send(&self, id: u32, event: Event) -> bool {
        let is_last = matches!(event, Event::Failed(..) | Event::Ended(_) | Event::Lost);
        let mut routes = self.lock();
        let Some(open) = routes.as_mut() else { return true };
        let route = if is_last { open.remove(&id) } else { open.get(&id).cloned() };
        drop(routes);
        match route.map(|route| route.try_send(event)) {
            Some(Err(mpsc::error::TrySendError::Full(_))) => false,
            // A follower that is gone needs no news.
            Some(Ok(()) | Err(mpsc::error::TrySendError::Closed(_))) | None => true,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this crate is the one that starts processes")]
fn start_process(
    command: &[OsString],
    open_files: Option<u64>,
) -> std::io::Result<(Child, StdStream)> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(std::io::Error::other("no command is set"));
    };
    let (near, far) = StdStream::pair()?;
    let child = std::process::Command::new(program)
        .args(arguments)
        // It needs one alone, and any command could read the secrets of ours there.
        .env_clear()
        .envs(open_files.map(|count| (OPEN_FILES_VARIABLE, count.to_string())))
        .stdin(Stdio::from(OwnedFd::from(far)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, near))
}

fn reap(mut child: Child) {
    let _killed = child.kill();
    let _status = child.wait();
}

/// Writes requests until told to hang up, or nobody can have one any more.
async fn write(
    mut stream: OwnedWriteHalf,
    mut requests: mpsc::Receiver<Vec<u8>>,
    closing: CancellationToken,
) {
    let mut frames = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            count = requests.recv_many(&mut frames, REQUESTS_MAX) => {
                let bytes = frames.concat();
                frames.clear();
                let written = tokio::select! {
                    // One that was stopped takes nothing.
                    () = closing.cancelled() => return,
                    written = stream.write_all(&bytes) => written,
                };
                // When the agent is dead, its end of the stream tells the reader.
                if count == 0 || written.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reads replies until the stream ends, and returns why it did.
async fn read(mut stream: OwnedReadHalf, routes: &Routes) -> String {
    let mut buffer = BytesMut::new();
    let mut is_greeted = false;
    loop {
        if buffer.capacity() - buffer.len() < READ_LEN_MIN {
            buffer.reserve(READ_LEN);
        }
        let limit = if is_greeted { Duration::MAX } else { GREET_TIME };
        match tokio::time::timeout(limit, stream.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return "agent closed its stream".to_owned(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return format!("read from agent: {error}"),
            Err(_) => return "the agent's program said nothing".to_owned(),
        }
        loop {
            let (header, payload) = match cut(&mut buffer) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return format!("agent sent a bad frame: {error}"),
            };
            let handled = if is_greeted {
                dispatch(header, payload, routes)
            } else {
                greet(header, &payload).map(|()| is_greeted = true)
            };
            if let Err(reason) = handled {
                return reason;
            }
        }
    }
}

fn cut(buffer: &mut BytesMut) -> Result<Option<(Header, Bytes)>, ::agent::wire::WireError> {
    let Some(header) = Header::parse(buffer)? else { return Ok(None) };
    if buffer.len() < HEADER_LEN + header.len {
        return Ok(None);
    }
    let mut frame = buffer.split_to(HEADER_LEN + header.len).freeze();
    Ok(Some((header, frame.split_off(HEADER_LEN))))
}

fn greet(header: Header, payload: &[u8]) -> Result<(), String> {
    match Reply::decode(header.kind, payload) {
        Ok(Reply::Hello { version: VERSION }) => Ok(()),
        Ok(Reply::Hello { version }) => {
            Err(format!("agent speaks version {version}, this program version {VERSION}"))
        }
        Ok(_) | Err(_) => Err("the agent's program is not an agent".to_owned()),
    }
}

fn dispatch(header: Header, mut payload: Bytes, routes: &Routes) -> Result<(), String> {
    let event = if header.kind == OUTPUT {
        // Taken out of the buffer without a copy.
        let stream = payload.split_to(payload.len().min(1));
        match stream.first().copied().and_then(Stream::from_byte) {
            Some(Stream::Stdout) => Event::Output(Output::Stdout(payload)),
            Some(Stream::Stderr) => Event::Output(Output::Stderr(payload)),
            None => return Err("agent sent output of an unknown stream".to_owned()),
        }
    } else {
        match Reply::decode(header.kind, &payload) {
            Ok(Reply::Started { .. }) => Event::Started,
            Ok(Reply::Failed { step, errno }) => Event::Failed(step, errno),
            Ok(Reply::Ended(ended)) => Event::Ended(ended),
            Ok(Reply::Lost) => Event::Lost,
            Ok(Reply::Hello { .. } | Reply::Output { .. }) => return Ok(()),
            Err(error) => return Err(format!("agent sent a bad frame: {error}")),
        }
    };
    if routes.send(header.id, event) {
        Ok(())
    } else {
        Err("agent sent more output than its window allows".to_owned())
    }
}
