//! What may be asked of a live session.

use std::sync::Arc;

use driver_api::Workspace;
use protocol::event::{Answer, RewindScope, SessionEnd};
use protocol::{CheckpointId, Mode, RequestId};
use runtime_api::{
    AgentSettings, Error, GoBack, Interrupt, Overflow, Position, Prompt, PromptAccepted,
    SessionInfo, SessionUsage, Subscription, WentBack,
};
use tokio::sync::oneshot;

use super::attachments::Files;
use super::stored::LogView;

/// How many messages may wait for a session.
pub(crate) const MAILBOX: usize = 64;

/// Where the answer to a message goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A prompt, with the folder of the session's neuron, which was entered anew for it.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) prompt: Prompt,
    pub(crate) workspace: Option<Arc<dyn Workspace>>,
}

/// A message to a live session.
#[derive(Debug)]
pub(crate) enum Message {
    Prompt(Box<Arrival>, Reply<PromptAccepted>),
    Interrupt(Interrupt, Reply<bool>),
    Answer(RequestId, Answer, Reply<()>),
    Undo(GoBack, Reply<WentBack>),
    Rewind(CheckpointId, RewindScope, GoBack, Reply<WentBack>),
    SetMode(Mode, Reply<()>),
    SetModel(String, Reply<()>),
    /// The session is opened again with other flags.
    Configure(Box<AgentSettings>, Reply<SessionInfo>),
    Subscribe(Position, Overflow, Reply<Subscription>),
    /// What of the log people see.
    View(Reply<LogView>),
    Usage(Reply<SessionUsage>),
    /// What prompts may attach.
    Files(Reply<Files>),
    Close(SessionEnd, Reply<()>),
}
