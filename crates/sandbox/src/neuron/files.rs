//! The client of a neuron's file service.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::agent::files::wire::{HEADER_LEN, Header, Reply, Request, VERSION, WireError};
use driver_api::{Fault, WorkspaceError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::door::{Door, Use};
use crate::file;

/// How many requests may be under way: each has a connection, and each connection a process in
/// the neuron.
const CONNECTIONS_MAX: usize = 4;

/// How many connections are kept for later.
const IDLE_MAX: usize = 2;

/// How long a request may take. The largest file is written within a second; a machine may swap.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// Asks a neuron for work on its files.
#[derive(Debug)]
pub(super) struct Files {
    door: Arc<Door>,
    idle: Mutex<Vec<UnixStream>>,
    under_way: Semaphore,
}

/// A reply, and whether the request may have been carried out twice.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) is_second: bool,
}

impl Files {
    pub(super) fn new(door: Arc<Door>) -> Self {
        Self { door, idle: Mutex::new(Vec::new()), under_way: Semaphore::new(CONNECTIONS_MAX) }
    }

    /// Asks once, and a second time over a new connection where one from before has died.
    pub(super) async fn ask(&self, request: &Request<'_>) -> Result<Answer, WorkspaceError> {
        let mut frame = Vec::new();
        request.encode(&mut frame).map_err(|error| WorkspaceError::Unfit(error.to_string()))?;
        let failed = |error| Fault::with("work on files of a neuron", error);
        let _permit = self.under_way.acquire().await.map_err(|error| Fault::with("ask", error))?;
        let mut is_second = false;
        let kept = self.idle().pop();
        if let Some(stream) = kept {
            match self.exchange(stream, &frame).await {
                Ok(reply) => return answer(reply, false),
                Err(error) if is_death(&error) => is_second = true,
                Err(error) => return Err(failed(error).into()),
            }
        }
        let stream = self.connect().await?;
        match self.exchange(stream, &frame).await {
            Ok(reply) => answer(reply, is_second),
            Err(error) if is_death(&error) => Err(self.door.not_running()),
            Err(error) => Err(failed(error).into()),
        }
    }

    /// Returns whether somebody is there to be asked.
    pub(super) async fn is_met(&self) -> bool {
        self.door.open(Use::Files).await.is_ok()
    }

    async fn connect(&self) -> Result<UnixStream, WorkspaceError> {
        let mut stream = self.door.open(Use::Files).await?;
        let hello = tokio::time::timeout(ANSWER_TIME, hear(&mut stream)).await;
        match hello.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(Reply::Hello { version: VERSION }) => Ok(stream),
            Ok(Reply::Hello { version }) => {
                let text = format!(
                    "the neuron's file service speaks version {version}, this program {VERSION}"
                );
                Err(Fault::new(text).into())
            }
            Ok(_) => Err(Fault::new("what answers in the neuron is no file service").into()),
            Err(error) if is_death(&error) => Err(self.door.not_running()),
            Err(error) => Err(Fault::with("greet the file service of a neuron", error).into()),
        }
    }

    /// Sends a request and reads its reply. Where this is given up, or fails, nobody knows what
    /// comes next on the stream, so that it is closed; else it is kept.
    async fn exchange(&self, mut stream: UnixStream, frame: &[u8]) -> io::Result<Reply> {
        let exchanged = tokio::time::timeout(ANSWER_TIME, async {
            stream.write_all(frame).await?;
            hear(&mut stream).await
        });
        let reply = exchanged.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(stream);
        }
        Ok(reply)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<UnixStream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(reply: Reply, is_second: bool) -> Result<Answer, WorkspaceError> {
    match reply {
        Reply::Refused(error) if !is_second => Err(file::refusal(error)),
        reply => Ok(Answer { reply, is_second }),
    }
}

async fn hear(stream: &mut UnixStream) -> io::Result<Reply> {
    let bad = |error: WireError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await?;
    let header = Header::parse(header).map_err(bad)?;
    let mut payload = vec![0; header.len];
    stream.read_exact(&mut payload).await?;
    Reply::decode(header.kind, &payload).map_err(bad)
}

/// Whether the other end is gone, rather than that it says something wrong or nothing.
fn is_death(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
