//! The handle.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::Fault;
use protocol::event::{Answer, RewindScope};
use protocol::{CheckpointId, Message, Mode, Refusal, RequestId, Seq, SessionId, Timestamp};

use crate::{
    AgentSettings, CreateSession, ExportedSession, GoBack, Overflow, Pending, PointInfo, Position,
    Prompt, PromptAccepted, SessionFilter, SessionInfo, SlashCommand, Spent, Subscription,
    WentBack,
};

/// An answer other than yes: an expected no, or our own failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An expected no, safe to show.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A failure of ours; its text is for the log.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Everything one may ask of the runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(Arc<dyn Runtime>);

impl Handle {
    /// Wraps a runtime.
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self(runtime)
    }
}

impl Deref for Handle {
    type Target = dyn Runtime;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// What a runtime does. Doors hold it as a [`Handle`].
///
/// Every method may answer [`Error::Fault`]; the list of each names the refusals beside it.
#[async_trait]
pub trait Runtime: Send + Sync + Debug {
    /// Creates a session and opens it here.
    ///
    /// # Errors
    /// `invalid` (folder, rule), `invalid_model`, `locked_by_policy`.
    async fn create(&self, session: CreateSession) -> Result<SessionInfo, Error>;

    /// Opens a stored session here: takes ownership and mends what a crash left. A turn that was
    /// cut ends with reason `interrupted`, or is carried on where `agent.carries_on` says so.
    ///
    /// # Errors
    /// `session_not_found`, `owned_elsewhere`.
    async fn open(&self, session: &SessionId, agent: AgentSettings) -> Result<SessionInfo, Error>;

    /// Lets go of a session that is open here; a running turn is stopped first.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn close(&self, session: &SessionId) -> Result<(), Error>;

    /// Accepts a prompt: when this returns it is durable. It runs at once or waits its turn.
    ///
    /// # Errors
    /// `session_not_found`, `queue_full` (a 17th), `too_large`, `invalid` (blank).
    async fn prompt(&self, session: &SessionId, prompt: Prompt) -> Result<PromptAccepted, Error>;

    /// Stops the running turn; true when one ran. Its tree of processes is gone when `done` comes.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn interrupt(&self, session: &SessionId, clear_queue: bool) -> Result<bool, Error>;

    /// Decides an interaction. Where another living process owns the session, the answer is left
    /// for it, and this waits until it was taken, at most ten seconds.
    ///
    /// # Errors
    /// `request_not_found`, `request_resolved`, `invalid` (rule, kind of answer, option),
    /// `locked_by_policy` (mode of a plan, rules beyond the session), `owned_elsewhere` (its owner
    /// did not take the answer).
    async fn answer(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error>;

    /// Changes the mode.
    ///
    /// # Errors
    /// `session_not_found`, `locked_by_policy`.
    async fn set_mode(&self, session: &SessionId, mode: Mode) -> Result<(), Error>;

    /// Changes the model from the next step on.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_model`.
    async fn set_model(&self, session: &SessionId, model: &str) -> Result<(), Error>;

    /// Watches a session that is open here.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn subscribe(
        &self,
        session: &SessionId,
        position: Position,
        overflow: Overflow,
    ) -> Result<Subscription, Error>;

    /// Returns one session's facts, open or stored.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn info(&self, session: &SessionId) -> Result<SessionInfo, Error>;

    /// Lists stored sessions, newest first.
    ///
    /// # Errors
    /// None but faults.
    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, Error>;

    /// Returns the transcript for people, from `after` on, at most `limit` messages.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn messages(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Message>, Error>;

    /// Reads a whole stored session.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn export(&self, session: &SessionId) -> Result<ExportedSession, Error>;

    /// Stores a session that another store exported, under a new id and in the folder that
    /// `info.cwd` names. Its words are taken, its rights are not: the mode is at most the default,
    /// rules and instructions for the model are left out.
    ///
    /// # Errors
    /// `invalid` when the log does not fold.
    async fn import(&self, session: ExportedSession) -> Result<SessionInfo, Error>;

    /// Lists the interactions that wait, of one session or of all, oldest first.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn pending(&self, session: Option<&SessionId>) -> Result<Vec<Pending>, Error>;

    /// Lists the points that a session can go back to, oldest first.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn points(&self, session: &SessionId) -> Result<Vec<PointInfo>, Error>;

    /// Takes back what the newest turn did to the files that was not taken back yet.
    ///
    /// # Errors
    /// `session_not_found`, `session_busy`, `checkpoint_not_found` (its trees are not kept any
    /// more).
    async fn undo(&self, session: &SessionId, how: GoBack) -> Result<WentBack, Error>;

    /// Goes back to a point: the conversation, the files, or both as they were before its prompt.
    ///
    /// # Errors
    /// `session_not_found`, `session_busy`, `checkpoint_not_found`.
    async fn rewind(
        &self,
        session: &SessionId,
        point: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<WentBack, Error>;

    /// Lists the slash commands that prompts may be.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn commands(&self, session: &SessionId) -> Result<Vec<SlashCommand>, Error>;

    /// Returns what model calls of all sessions used since an instant, oldest first.
    ///
    /// # Errors
    /// None but faults.
    async fn spent(&self, since: Timestamp) -> Result<Vec<Spent>, Error>;

    /// Copies a stored session, up to and with `until` where given, under a new id.
    ///
    /// # Errors
    /// `session_not_found`, `session_busy`, `invalid` (position).
    async fn fork(&self, session: &SessionId, until: Option<Seq>) -> Result<SessionInfo, Error>;

    /// Erases a session; a turn that runs here is stopped first.
    ///
    /// # Errors
    /// `session_not_found`, `owned_elsewhere`.
    async fn remove(&self, session: &SessionId) -> Result<(), Error>;

    /// Stops all turns, closes all sessions and the store.
    async fn shutdown(&self);
}
