//! The handle.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{BringOver, BroughtOver, Fault};
use protocol::event::{Answer, RewindScope, SessionEnd};
use protocol::{CheckpointId, Mode, Refusal, RequestId, Seq, SessionId, Timestamp};

use crate::{
    AgentSettings, CreateSession, ExportedSession, ForkPoint, GoBack, Interrupt, MessagesAfter,
    MessagesPage, ModelListing, Overflow, Pending, PointInfo, Position, Prompt, PromptAccepted,
    SessionFilter, SessionInfo, SessionUsage, Shown, SlashCommand, Spent, Subscription, TakeUp,
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
/// Every method may answer [`Error::Fault`], and `shutting_down` once the program stops; the list
/// of each names the refusals beside them.
#[async_trait]
pub trait Runtime: Send + Sync + Debug {
    /// Creates a session and opens it here.
    ///
    /// # Errors
    /// `invalid` (folder, rule, tool, effect), `invalid_model`, `model_not_allowed`,
    /// `locked_by_policy`, `too_many_sessions`; for a neuron `neuron_not_found`,
    /// `neuron_not_running`, `owned_elsewhere`, `not_supported`.
    async fn create(&self, session: CreateSession) -> Result<SessionInfo, Error>;

    /// Opens a stored session here: takes ownership and mends what a crash left. A turn that was
    /// cut ends with reason `interrupted`, or is carried on where `agent.carries_on` says so. One
    /// whose neuron is gone opens as well: it can be read, and prompts are refused.
    ///
    /// # Errors
    /// `session_not_found`, `owned_elsewhere`, `too_many_sessions`.
    async fn open(&self, session: &SessionId, agent: AgentSettings) -> Result<SessionInfo, Error>;

    /// Lets go of a session that is open here; a running turn is stopped first, what waits for a
    /// person is decided against, prompts that wait are dropped. Viewers get `session_closed` with
    /// the reason, then their streams end. It is recorded, except where the program stops while a
    /// turn does nothing but wait for a person: that turn goes on after the next opening. A closing
    /// that has begun goes on when its caller does not wait for it.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn close(&self, session: &SessionId, reason: SessionEnd) -> Result<(), Error>;

    /// Lists the sessions that are open here, newest first. Waits for none of them.
    ///
    /// # Errors
    /// None but faults.
    async fn opened(&self) -> Result<Vec<SessionInfo>, Error>;

    /// Opens the stored sessions whose turns a crash cut, or that wait for a person, and that no
    /// living process owns; returns them. One that cannot be opened is passed over.
    ///
    /// # Errors
    /// None but faults.
    async fn take_up(&self, which: TakeUp) -> Result<Vec<SessionInfo>, Error>;

    /// Accepts a prompt: when this returns it is durable. It runs at once or waits its turn.
    ///
    /// # Errors
    /// `session_not_found`, `queue_full` (a 17th), `too_large`, `invalid` (blank; a file that is
    /// missing, outside, or of a kind that no model reads; `max_turns`, `output.name`,
    /// `output.schema`, `request_id`), `invalid_model`, `model_not_allowed`; of a session in a
    /// neuron `neuron_not_found`, `neuron_not_running`, `owned_elsewhere`.
    async fn prompt(&self, session: &SessionId, prompt: Prompt) -> Result<PromptAccepted, Error>;

    /// Stops the running turn, the waiting prompts with it, or one prompt; true when a turn was
    /// told to stop, or the prompt that was named waited. The tree of processes of a turn is gone
    /// when `done` comes; a prompt that waited gets `prompt_finished` with reason `interrupted`.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn interrupt(&self, session: &SessionId, which: Interrupt) -> Result<bool, Error>;

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

    /// Tells whether a session could take this mode and model, as policy is now; changes nothing.
    ///
    /// # Errors
    /// `locked_by_policy`, `invalid_model`, `model_not_allowed`.
    fn check_settings(&self, mode: Option<Mode>, model: Option<&str>) -> Result<(), Error>;

    /// Changes the mode.
    ///
    /// # Errors
    /// `session_not_found`, `locked_by_policy`.
    async fn set_mode(&self, session: &SessionId, mode: Mode) -> Result<(), Error>;

    /// Changes the model from the next step on.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_model`, `model_not_allowed`.
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

    /// Returns one session's facts, open or stored. Of an open one it tells what is durable, and
    /// waits for no task.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn info(&self, session: &SessionId) -> Result<SessionInfo, Error>;

    /// Lists stored sessions, newest first.
    ///
    /// # Errors
    /// None but faults.
    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, Error>;

    /// Watches all sessions that are open here or will be: recorded events that doors may show,
    /// in order per session, from now on. Whoever reads too slowly loses the oldest and is told.
    /// It ends when all was shut down.
    fn watch(&self) -> Subscription;

    /// Returns the transcript for people after a position, at most `limit` messages and 1,000. A
    /// page of large messages ends earlier; there is at least one on it if one follows.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` (no such message).
    async fn messages(
        &self,
        session: &SessionId,
        after: MessagesAfter,
        limit: usize,
    ) -> Result<MessagesPage, Error>;

    /// Returns the recorded events after a position that doors show, in order: at most `limit` and
    /// 1,000, fewer where they are large, none where none follow. Of an open session it tells what
    /// is durable, and waits for no task.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn recorded(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Shown>>, Error>;

    /// Reads a whole stored session.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn export(&self, session: &SessionId) -> Result<ExportedSession, Error>;

    /// Stores a session that another store exported, under a new id and in the folder that
    /// `info.cwd` names. Its words are taken, its rights are not: the mode is at most the default,
    /// rules that allow and instructions for the model are left out; rules that deny stay. The
    /// frames are numbered anew.
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

    /// Returns what the model calls of a session used; a copy counts those that it was copied
    /// with.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn usage(&self, session: &SessionId) -> Result<SessionUsage, Error>;

    /// Lists models that sessions may name: the default one, and those that the settings and the
    /// providers' tables know and policy allows. Others may work as well.
    fn models(&self) -> Vec<ModelListing>;

    /// Tells whether the store takes writes.
    ///
    /// # Errors
    /// A fault when it does not.
    async fn check(&self) -> Result<(), Error>;

    /// Copies a stored session up to a point under a new id. The copy is not opened.
    ///
    /// # Errors
    /// `session_not_found`, `session_busy`, `invalid` (position, no such message).
    async fn fork(&self, session: &SessionId, until: ForkPoint) -> Result<SessionInfo, Error>;

    /// Erases a session; a turn that runs here is stopped first. An erasing that has begun goes on
    /// when its caller does not wait for it.
    ///
    /// # Errors
    /// `session_not_found`, `owned_elsewhere`.
    async fn remove(&self, session: &SessionId) -> Result<(), Error>;

    /// Brings what waits in the sandbox of a closed session over to its folder, or tells what
    /// would be. The sandbox goes when all of it was; what was kept back waits on in it.
    ///
    /// # Errors
    /// `session_not_found`, `session_busy` (it is open here), `owned_elsewhere`, `invalid` (no
    /// sandbox, or one that writes to the folder itself), `not_supported` (too many paths).
    async fn bring_over(&self, session: &SessionId, how: BringOver) -> Result<BroughtOver, Error>;

    /// Throws away what waits in the sandbox of a closed session; returns how many paths.
    ///
    /// # Errors
    /// As [`Runtime::bring_over`].
    async fn discard(&self, session: &SessionId) -> Result<u64, Error>;

    /// Stops all turns, closes all sessions and the store.
    async fn shutdown(&self);
}
