//! A session of a server.

use outbound::Method;
use protocol::event::{Answer, RewindScope};
use protocol::{CheckpointId, EventBody, Message, MessageId, Mode, PromptId, RequestId, SessionId};
use runtime_api::GoBack;
use serde::Deserialize;
use serde_json::json;

use super::backoff::Patience;
use super::error::Repeat;
use super::feed::{EventFeed, Feed};
use super::line::{Ask, Line, encode};
use super::shapes::{
    CheckpointInfo, Checkpoints, CommandInfo, Commands, GoBackBody, Messages, PendingRequest,
    Prompt, Queued, Requests, RewindBody, RewindOutcome, SessionSummary, SessionUsage, UndoOutcome,
};
use super::{ClientError, leaving, run};
use crate::{Callbacks, RunResult};

/// How many messages are asked for at a time: the most that the server gives.
const MESSAGES_PAGE: usize = 1_000;

/// A session of a server. Cheap to clone.
///
/// Every method may answer any of [`ClientError`]; the code of a session that is not open at the
/// server is `session_not_found`.
#[derive(Clone, Debug)]
pub struct RemoteSession {
    line: Line,
    id: SessionId,
}

impl RemoteSession {
    pub(super) fn new(line: Line, id: SessionId) -> Self {
        Self { line, id }
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs a prompt to its end and answers with callbacks what it asks; what has none is decided
    /// against.
    ///
    /// Only requests of this prompt's own turn are answered: those of a prompt before it belong to
    /// whoever sent that. The connection may break meanwhile, and the server may even start anew
    /// if it takes the session up again. Dropping the future before the prompt's end, or an error,
    /// stops this prompt and no other; one that still waits is withdrawn. That is told to the
    /// server in the background, on the tokio runtime where this was called.
    ///
    /// # Errors
    /// Any of [`ClientError`]. A turn that went wrong is no error: see [`RunResult::reason`].
    pub async fn run(
        &self,
        prompt: impl Into<Prompt>,
        callbacks: Callbacks,
    ) -> Result<RunResult, ClientError> {
        self.run_with(prompt, callbacks, |_| {}).await
    }

    /// Runs a prompt and shows each event of it on the way, and
    /// [`ServerEvent::ReplayGap`](super::ServerEvent::ReplayGap) where some are missing.
    ///
    /// # Errors
    /// As [`RemoteSession::run`].
    pub async fn run_with(
        &self,
        prompt: impl Into<Prompt>,
        callbacks: Callbacks,
        mut on_event: impl FnMut(&super::RemoteEvent) + Send,
    ) -> Result<RunResult, ClientError> {
        let prompt = prompt.into();
        Box::pin(run::run(self, &prompt, callbacks, &mut on_event)).await
    }

    /// Watches from now on: from when the stream is first read.
    #[must_use]
    pub fn events(&self) -> EventFeed {
        Feed::new(self, None).into_stream()
    }

    /// Watches from after an event on: those that the server still keeps come first. Where it
    /// keeps some no longer, [`ServerEvent::ReplayGap`](super::ServerEvent::ReplayGap) is before
    /// them.
    #[must_use]
    pub fn events_after(&self, id: u64) -> EventFeed {
        Feed::new(self, Some(id)).into_stream()
    }

    /// Sends a prompt; it runs at once or waits for its turn. An answer that is lost is asked for
    /// again; that starts no second prompt.
    ///
    /// # Errors
    /// Codes `queue_full`, `payload_too_large`, `validation_error`.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<Queued, ClientError> {
        self.line.ask_once(&self.path("prompt"), &prompt.into()).await
    }

    /// Returns the session's facts.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn info(&self) -> Result<SessionSummary, ClientError> {
        self.line.read(&["sessions", self.id.as_str()], &[]).await
    }

    /// Stops the prompt that runs; true when one did.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn interrupt(&self) -> Result<bool, ClientError> {
        leaving::interrupt(self, None, None).await
    }

    /// Stops one prompt, or withdraws it where it still waits; true when it was told to stop or
    /// waited.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn interrupt_prompt(&self, prompt: &PromptId) -> Result<bool, ClientError> {
        leaving::interrupt(self, Some(prompt), None).await
    }

    /// Changes the mode.
    ///
    /// # Errors
    /// Code `locked_by_policy`.
    pub async fn set_mode(&self, mode: Mode) -> Result<SessionSummary, ClientError> {
        let body = json!({"mode": mode});
        self.line.set(&self.path("mode"), &body).await
    }

    /// Changes the model from the next model call on.
    ///
    /// # Errors
    /// Codes `invalid_model`, `model_not_allowed`, `locked_by_policy`.
    pub async fn set_model(&self, model: &str) -> Result<SessionSummary, ClientError> {
        let body = json!({"model": model});
        self.line.set(&self.path("model"), &body).await
    }

    /// Returns the whole transcript, oldest message first.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn messages(&self) -> Result<Vec<Message>, ClientError> {
        let mut messages: Vec<Message> = Vec::new();
        loop {
            let after = messages.last().map(|last| last.id.clone());
            let page = self.messages_after(after.as_ref(), MESSAGES_PAGE).await?;
            let is_last = page.len() < MESSAGES_PAGE;
            messages.extend(page);
            if is_last {
                return Ok(messages);
            }
        }
    }

    /// Returns a part of the transcript: at most `limit` messages, 1,000 at most, after one.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn messages_after(
        &self,
        after: Option<&MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, ClientError> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(after.map(|id| ("after", id.as_str().to_owned())));
        let page: Messages = self.line.read(&self.path("messages"), &query).await?;
        Ok(page.messages)
    }

    /// Lists what waits for an answer.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn permissions(&self) -> Result<Vec<PendingRequest>, ClientError> {
        let path = self.path("permissions");
        let found: Requests = self.line.read(&path, &[]).await?;
        let read = found.requests.into_iter().map(|raw| match EventBody::deserialize(&raw) {
            Ok(body) => PendingRequest::Known(Box::new(body)),
            Err(_) => PendingRequest::Other(raw),
        });
        Ok(read.collect())
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Codes `request_not_found`, `request_resolved`, `validation_error`, `locked_by_policy`.
    pub async fn answer(
        &self,
        request: &RequestId,
        answer: impl Into<Answer>,
    ) -> Result<(), ClientError> {
        self.send_answer(request, &answer.into(), None).await
    }

    /// Answers a request, and tries for as long as an event stream does.
    pub(super) async fn insist(
        &self,
        request: &RequestId,
        answer: &Answer,
    ) -> Result<(), ClientError> {
        let patience = Patience::Time(self.line.options().give_up_after);
        self.send_answer(request, answer, Some(patience)).await
    }

    async fn send_answer(
        &self,
        request: &RequestId,
        answer: &Answer,
        patience: Option<Patience>,
    ) -> Result<(), ClientError> {
        let ask = Ask {
            method: Method::POST,
            path: &["sessions", self.id.as_str(), "permissions", request.as_str()],
            body: Some(encode(answer)?),
            repeat: Repeat::Harmless,
            patience,
            ..Ask::default()
        };
        self.line.send(ask).await.map(drop)
    }

    /// Copies the session up to a message, or as a whole, under a new id. An answer that is lost
    /// is asked for again; that makes no second copy.
    ///
    /// # Errors
    /// Codes `session_busy`, `too_many_sessions`, `validation_error`.
    pub async fn fork(&self, until: Option<&MessageId>) -> Result<RemoteSession, ClientError> {
        let body = match until {
            Some(message) => json!({"messageId": message}),
            None => json!({}),
        };
        let copy: SessionSummary = self.line.ask_once(&self.path("fork"), &body).await?;
        Ok(RemoteSession::new(self.line.clone(), copy.id))
    }

    /// Lists the points that the session can go back to.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, ClientError> {
        let path = self.path("checkpoints");
        let found: Checkpoints = self.line.read(&path, &[]).await?;
        Ok(found.checkpoints)
    }

    /// Goes back to a point.
    ///
    /// # Errors
    /// Codes `checkpoint_not_found`, `session_busy`.
    pub async fn rewind(
        &self,
        checkpoint: &CheckpointId,
        scope: RewindScope,
    ) -> Result<RewindOutcome, ClientError> {
        self.rewind_with(checkpoint, scope, GoBack::default()).await
    }

    /// Goes back to a point, or only looks what that would do; what holds something else than the
    /// agent left is brought back as well where that is forced.
    ///
    /// # Errors
    /// As [`RemoteSession::rewind`].
    pub async fn rewind_with(
        &self,
        checkpoint: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<RewindOutcome, ClientError> {
        let (checkpoint_id, how) = (checkpoint.as_str(), how.into());
        self.line.act(&self.path("rewind"), &RewindBody { checkpoint_id, scope, how }).await
    }

    /// Takes back what the newest turn did to the files.
    ///
    /// # Errors
    /// Code `session_busy`.
    pub async fn undo(&self) -> Result<UndoOutcome, ClientError> {
        self.undo_with(GoBack::default()).await
    }

    /// Takes back what the newest turn did to the files, or only looks what that would do; what
    /// holds something else than the agent left is brought back as well where that is forced.
    ///
    /// # Errors
    /// As [`RemoteSession::undo`].
    pub async fn undo_with(&self, how: GoBack) -> Result<UndoOutcome, ClientError> {
        self.line.act(&self.path("undo"), &GoBackBody::from(how)).await
    }

    /// Returns what the session used.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn usage(&self) -> Result<SessionUsage, ClientError> {
        self.line.read(&self.path("usage"), &[]).await
    }

    /// Lists the slash commands that prompts may be.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn commands(&self) -> Result<Vec<CommandInfo>, ClientError> {
        let path = self.path("commands");
        let found: Commands = self.line.read(&path, &[]).await?;
        Ok(found.commands)
    }

    /// Closes the session at the server: it is not found there afterwards. Its log stays, and can
    /// be opened again by [`CreateSession::resume`](super::CreateSession::resume).
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn close(&self) -> Result<(), ClientError> {
        self.delete(&[]).await
    }

    /// Closes the session at the server, if it is open there, and erases its log for good.
    ///
    /// # Errors
    /// Any of [`ClientError`].
    pub async fn purge(&self) -> Result<(), ClientError> {
        self.delete(&[("purge", "true".to_owned())]).await
    }

    async fn delete(&self, query: &[(&str, String)]) -> Result<(), ClientError> {
        let (method, repeat) = (Method::DELETE, Repeat::Harmless);
        let path = &["sessions", self.id.as_str()];
        self.line.send(Ask { method, path, query, repeat, ..Ask::default() }).await.map(drop)
    }

    fn path<'a>(&'a self, what: &'a str) -> [&'a str; 3] {
        ["sessions", self.id.as_str(), what]
    }
}
