//! A prompt that is left before its end is stopped, and no other.

use std::time::Duration;

use bytes::Bytes;
use outbound::Method;
use protocol::PromptId;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::error::Repeat;
use super::line::{Ask, Key, decode, encode};
use super::shapes::{Interrupted, Queued};
use super::{ClientError, RemoteSession};

/// How long each attempt to tell the server that a run was left may take: nobody waits for it long.
const LEAVE: Duration = Duration::from_secs(5);

/// A prompt at a server, from its sending on. Dropping it before its end stops the prompt, in the
/// background.
#[derive(Debug)]
pub(super) struct SentPrompt {
    session: RemoteSession,
    body: Bytes,
    key: Key,
    accepted: Option<PromptId>,
    /// Whether the prompt may be with the server and is not over.
    is_open: bool,
    tokio: Option<tokio::runtime::Handle>,
}

impl SentPrompt {
    pub(super) fn new(session: &RemoteSession, body: Bytes) -> Result<Self, ClientError> {
        Ok(Self {
            session: session.clone(),
            body,
            key: Key::fresh()?,
            accepted: None,
            is_open: false,
            tokio: tokio::runtime::Handle::try_current().ok(),
        })
    }

    /// Sends the prompt.
    pub(super) async fn send(&mut self) -> Result<Queued, ClientError> {
        self.is_open = true;
        let sent = send(&self.session, self.body.clone(), &self.key, None).await;
        match &sent {
            Ok(queued) => self.accepted = Some(queued.prompt_id.clone()),
            // The server said no, or nobody is there who could be told.
            Err(_) => self.is_open = false,
        }
        sent
    }

    /// Notes that there is nothing to stop any more.
    pub(super) fn is_over(&mut self) {
        self.is_open = false;
    }

    /// Stops the prompt where it is not over, and waits until the server knows.
    pub(super) async fn leave(mut self) {
        // A task of its own: a caller that gives up waiting does not leave the prompt running.
        if let Some(leaving) = self.leaving() {
            drop(leaving.await);
        }
    }

    fn leaving(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        if !std::mem::replace(&mut self.is_open, false) {
            return None;
        }
        let tokio = self.tokio.take()?;
        let (session, body, key) = (self.session.clone(), self.body.clone(), self.key.clone());
        let accepted = self.accepted.take();
        let stop = async move {
            if let Err(error) = stop(&session, body, &key, accepted).await {
                tracing::warn!(%error, "stop a prompt that was left");
            }
        };
        // It ends after its few attempts.
        Some(TaskTracker::new().spawn_on(stop, &tokio))
    }
}

impl Drop for SentPrompt {
    fn drop(&mut self) {
        drop(self.leaving());
    }
}

/// Sends a prompt, or learns by its key what became of it.
async fn send(
    session: &RemoteSession,
    body: Bytes,
    key: &Key,
    limit: Option<Duration>,
) -> Result<Queued, ClientError> {
    let ask = Ask {
        method: Method::POST,
        path: &["sessions", session.id().as_str(), "prompt"],
        body: Some(body),
        key: Some(key),
        repeat: Repeat::Harmless,
        limit,
        ..Ask::default()
    };
    decode(&session.line().send(ask).await?)
}

async fn stop(
    session: &RemoteSession,
    body: Bytes,
    key: &Key,
    accepted: Option<PromptId>,
) -> Result<(), ClientError> {
    // Cut off while it was sent: whether it has arrived cannot be told. The same key tells its id,
    // or makes it come, and by that it can be stopped.
    let prompt = match accepted {
        Some(prompt) => prompt,
        None => send(session, body, key, Some(LEAVE)).await?.prompt_id,
    };
    interrupt(session, Some(&prompt), Some(LEAVE)).await.map(drop)
}

/// Stops one prompt, or what runs.
pub(super) async fn interrupt(
    session: &RemoteSession,
    prompt: Option<&PromptId>,
    limit: Option<Duration>,
) -> Result<bool, ClientError> {
    let body = prompt.map_or_else(|| json!({}), |prompt| json!({"promptId": prompt}));
    let ask = Ask {
        method: Method::POST,
        path: &["sessions", session.id().as_str(), "interrupt"],
        body: Some(encode(&body)?),
        repeat: Repeat::Harmless,
        limit,
        ..Ask::default()
    };
    let done: Interrupted = decode(&session.line().send(ask).await?)?;
    Ok(done.interrupted)
}
