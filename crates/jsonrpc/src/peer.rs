//! The other side, to be called and answered.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::message::{self, ErrorObject, Id};

/// Requests that may wait for an answer at once: more than all sessions of a process ask.
const ASKED_MAX: usize = 4096;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The other side said no.
    #[error("{} ({})", .0.message, .0.code)]
    Refused(ErrorObject),
    /// It did not answer in time.
    #[error("no answer in time")]
    Late,
    /// The connection has ended, or too much waits for answers already.
    #[error("the connection has ended")]
    Gone,
}

type Answered = Result<Value, ErrorObject>;

/// What both halves share.
pub(crate) struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    asked: Mutex<HashMap<u64, oneshot::Sender<Answered>>>,
    last_id: AtomicU64,
    /// The connection is being closed here.
    pub(crate) closing: CancellationToken,
    /// One of the halves has ended.
    gone: CancellationToken,
}

impl Shared {
    pub(crate) fn new(outgoing: mpsc::Sender<Vec<u8>>) -> Self {
        let (closing, gone) = Default::default();
        Self { outgoing, asked: Mutex::default(), last_id: AtomicU64::new(0), closing, gone }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answered>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settle(&self, number: u64, answer: Answered) {
        match self.asked().remove(&number) {
            // Nobody waits for it any more.
            Some(waiting) => drop(waiting.send(answer)),
            None => tracing::debug!(number, "an answer that came too late"),
        }
    }

    pub(crate) async fn answer(&self, id: &Id, answer: &Answered) {
        drop(self.send(message::answer(id, answer)).await);
    }

    /// Says that a half has ended: nothing that was asked will be answered.
    pub(crate) fn hang_up(&self) {
        self.gone.cancel();
        self.asked().clear();
    }

    async fn send(&self, line: Vec<u8>) -> Result<(), CallError> {
        tokio::select! {
            biased;
            sent = self.outgoing.send(line) => sent.map_err(|_| CallError::Gone),
            () = self.gone.cancelled() => Err(CallError::Gone),
        }
    }
}

/// The other side. Cheap to clone; all clones are one connection.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

impl Peer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Asks the other side and waits for its answer, at most `limit` where there is one.
    ///
    /// # Errors
    /// [`CallError`]. Dropping the future forgets the question; a late answer is passed over.
    pub async fn call(
        &self,
        method: &str,
        params: &Value,
        limit: Option<Duration>,
    ) -> Result<Value, CallError> {
        let (answer, answered) = oneshot::channel();
        let number = self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        {
            let mut asked = self.0.asked();
            if self.0.gone.is_cancelled() || asked.len() >= ASKED_MAX {
                return Err(CallError::Gone);
            }
            asked.insert(number, answer);
        }
        let _forgotten = Forgotten { shared: &self.0, number };
        let line = message::call(Some(number), method, params);
        let asking = async {
            self.0.send(line).await?;
            match answered.await {
                Ok(answer) => answer.map_err(CallError::Refused),
                Err(_) => Err(CallError::Gone),
            }
        };
        match limit {
            None => asking.await,
            Some(limit) => timeout(limit, asking).await.unwrap_or(Err(CallError::Late)),
        }
    }

    /// Tells the other side something; waits while too much is on its way to it.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub async fn notify(&self, method: &str, params: &Value) -> Result<(), CallError> {
        self.0.send(message::call(None, method, params)).await
    }

    /// Answers a request. Nothing happens where the other side has gone.
    pub async fn answer(&self, id: &Id, answer: Result<Value, ErrorObject>) {
        self.0.answer(id, &answer).await;
    }

    /// Ends the connection once what waits was written.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Waits for the end of the connection, whoever ended it.
    pub async fn gone(&self) {
        self.0.gone.cancelled().await;
    }

    /// Tells whether the connection has ended.
    pub fn is_gone(&self) -> bool {
        self.0.gone.is_cancelled()
    }
}

/// Forgets a question that nobody waits for any more.
struct Forgotten<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.shared.asked().remove(&self.number);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}
