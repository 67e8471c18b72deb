//! What goes to the client: answers, updates, and requests of our own.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    CancelRequestNotification, Error, RequestId, SessionNotification, SessionUpdate,
};
use bytes::Bytes;
use protocol::SessionId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::line;

/// Lines that wait to be written. What makes them waits when it is full: a client that reads
/// slowly slows its sessions down and costs no memory.
const LINES_MAX: usize = 256;

/// How long one line may take to be written. Longer than any pause of a client that goes on.
const WRITE_WAIT: Duration = Duration::from_mins(10);

/// How many requests of ours may wait for the client: each is a call or a question of a session,
/// which run by the dozen at most.
const WAITING_MAX: usize = 1_024;

/// Why there is no answer of the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It is gone, or will not be heard any more.
    #[error("the client is gone")]
    Gone,
    /// It refused.
    #[error("{0}")]
    Refused(Error),
    /// What it answered is no answer to that.
    #[error("the client's answer cannot be read: {0}")]
    Odd(String),
}

type Answer = Result<Box<RawValue>, Error>;

/// The way to the client. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Outlet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lines: mpsc::Sender<Bytes>,
    waiting: Mutex<HashMap<i64, oneshot::Sender<Answer>>>,
    next: AtomicI64,
    /// Set when nothing more can be written, or nothing more is read.
    gone: CancellationToken,
}

/// What [`Outlet::new`] leaves to be written.
#[derive(Debug)]
pub(crate) struct Pending {
    lines: mpsc::Receiver<Bytes>,
    gone: CancellationToken,
}

impl Outlet {
    pub(crate) fn new() -> (Self, Pending) {
        let (sender, lines) = mpsc::channel(LINES_MAX);
        let gone = CancellationToken::new();
        let inner = Inner {
            lines: sender,
            waiting: Mutex::default(),
            next: AtomicI64::new(1),
            gone: gone.clone(),
        };
        (Self(Arc::new(inner)), Pending { lines, gone })
    }

    /// Waits until the client is gone.
    pub(crate) async fn gone(&self) {
        self.0.gone.cancelled().await;
    }

    /// Tells everybody that the client will not answer any more.
    pub(crate) fn give_up(&self) {
        self.0.gone.cancel();
    }

    /// Answers a request.
    pub(crate) async fn answer<T: Serialize>(&self, id: &RequestId, answer: &Result<T, Error>) {
        let line = match answer {
            Ok(result) => line::result(id, result),
            Err(error) => line::error(id, error),
        };
        self.send(line).await;
    }

    /// Shows the client something of a session.
    pub(crate) async fn update(&self, session: &SessionId, update: SessionUpdate) {
        let note = SessionNotification::new(session.as_str().to_owned(), update);
        self.send(line::call(None, "session/update", &note)).await;
    }

    async fn send(&self, line: serde_json::Result<Bytes>) {
        match line {
            // Nobody is told where the writer has ended: the client is gone.
            Ok(line) => drop(self.0.lines.send(line).await),
            Err(error) => tracing::error!(%error, "a message has no JSON form"),
        }
    }

    /// Asks the client and waits for its answer. Dropping this tells the client that the answer
    /// is not wanted any more.
    ///
    /// # Errors
    /// [`AskError`].
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, AskError> {
        let (mut asked, answer) = self.expect()?;
        let id = RequestId::Number(asked.id);
        let line = line::call(Some(&id), method, params);
        tokio::select! {
            () = self.gone() => return Err(AskError::Gone),
            () = self.send(line) => {}
        }
        asked.is_sent = true;
        let answer = tokio::select! {
            () = self.gone() => return Err(AskError::Gone),
            answer = answer => answer.map_err(|_| AskError::Gone)?,
        };
        asked.is_sent = false;
        let result = answer.map_err(AskError::Refused)?;
        line::params(&result).map_err(|error| AskError::Odd(error.message))
    }

    fn expect(&self) -> Result<(Asked<'_>, oneshot::Receiver<Answer>), AskError> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX {
            return Err(AskError::Odd("too many requests wait for it".to_owned()));
        }
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        waiting.insert(id, sender);
        Ok((Asked { outlet: self, id, is_sent: false }, receiver))
    }

    /// Takes an answer of the client; one that nobody waits for is passed over.
    pub(crate) fn answered(&self, id: &RequestId, answer: Answer) {
        let RequestId::Number(id) = id else { return };
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.remove(id) {
            // Whoever asked may have stopped waiting just now.
            let _asked = sender.send(answer);
        }
    }
}

/// A request that waits for the client.
struct Asked<'a> {
    outlet: &'a Outlet,
    id: i64,
    /// Whether the client has it and has not answered.
    is_sent: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let Inner { lines, waiting, gone, .. } = &*self.outlet.0;
        waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if self.is_sent && !gone.is_cancelled() {
            let note = CancelRequestNotification::new(RequestId::Number(self.id));
            if let Ok(line) = line::call(None, "$/cancel_request", &note) {
                // A courtesy: where the queue is full, its answer is passed over later.
                drop(lines.try_send(line));
            }
        }
    }
}

impl Pending {
    /// Writes lines until it is told to finish and none waits, or the client does not take them.
    ///
    /// # Errors
    /// When a line cannot be written; whoever waits for the client is told.
    pub(crate) async fn write<W>(mut self, out: W, finish: CancellationToken) -> io::Result<()>
    where
        W: AsyncWrite + Unpin,
    {
        let _told = self.gone.clone().drop_guard();
        let mut out = tokio::io::BufWriter::new(out);
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => Some(line),
                Err(_) => {
                    in_time(out.flush()).await?;
                    tokio::select! {
                        biased;
                        line = self.lines.recv() => line,
                        () = finish.cancelled() => None,
                    }
                }
            };
            let Some(line) = line else { break };
            in_time(out.write_all(&line)).await?;
        }
        in_time(out.shutdown()).await
    }
}

async fn in_time(write: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::time::timeout(WRITE_WAIT, write).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol_schema::v1::ReadTextFileResponse;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    fn written(bytes: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn what_waits_is_written_before_the_end() {
        let (outlet, pending) = Outlet::new();
        for number in 0..100 {
            outlet.answer(&RequestId::Number(number), &Ok(json!({}))).await;
        }
        let (finish, mut out) = (CancellationToken::new(), Vec::new());
        finish.cancel();
        pending.write(&mut out, finish).await.unwrap();
        assert_eq!(written(&out).len(), 100);
        // Later ones go nowhere and hold nobody up.
        outlet.answer(&RequestId::Null, &Ok(json!({}))).await;
    }

    #[tokio::test]
    async fn an_answer_finds_who_asked() {
        let (outlet, pending) = Outlet::new();
        let (ours, theirs) = tokio::io::duplex(4096);
        let writing = pending.write(ours, CancellationToken::new());
        let params = json!({});
        let asking = outlet.ask::<ReadTextFileResponse>("fs/read_text_file", &params);
        let client = async {
            let mut lines = BufReader::new(theirs).lines();
            let line = lines.next_line().await.unwrap().unwrap();
            let id = serde_json::from_str::<Value>(&line).unwrap()["id"].as_i64().unwrap();
            let content = RawValue::from_string(r#"{"content": "abc"}"#.to_owned()).unwrap();
            outlet.answered(&RequestId::Number(id + 1), Ok(content.clone()));
            outlet.answered(&RequestId::Number(id), Ok(content));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = asking => assert_eq!(answer.unwrap().content, "abc"),
            _ = writing => panic!("the writer ended"),
            () = client => panic!("the client ended"),
        }
        assert!(outlet.0.waiting.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_is_dropped_is_taken_back() {
        let (outlet, pending) = Outlet::new();
        let params = json!({});
        let asking = outlet.ask::<ReadTextFileResponse>("a/question", &params);
        assert!(tokio::time::timeout(Duration::from_millis(50), asking).await.is_err());
        let (finish, mut out) = (CancellationToken::new(), Vec::new());
        finish.cancel();
        pending.write(&mut out, finish).await.unwrap();
        let lines = written(&out);
        assert_eq!(lines[1]["method"], "$/cancel_request");
        assert_eq!(lines[1]["params"]["requestId"], lines[0]["id"]);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_answers_nothing() {
        let (outlet, pending) = Outlet::new();
        let (ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let params = json!({});
        let asking = outlet.ask::<ReadTextFileResponse>("a/question", &params);
        let writing = pending.write(ours, CancellationToken::new());
        let (answer, written) = tokio::join!(asking, writing);
        assert!(matches!(answer, Err(AskError::Gone)), "{answer:?}");
        assert!(written.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (outlet, pending) = Outlet::new();
        let (ours, _theirs) = tokio::io::duplex(8);
        outlet.answer(&RequestId::Number(1), &Ok(json!({"long": "x".repeat(20_000)}))).await;
        let error = pending.write(ours, CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        outlet.gone().await;
    }
}
