//! What may be asked of a live session.

use protocol::event::{Answer, RewindScope, SessionEnd};
use protocol::{CheckpointId, Mode, RequestId};
use runtime_api::{
    AgentSettings, Error, GoBack, Overflow, Position, Prompt, PromptAccepted, SessionInfo,
    Subscription, WentBack,
};
use tokio::sync::oneshot;

/// How many messages may wait for a session.
pub(crate) const MAILBOX: usize = 64;

/// Where the answer to a message goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A message to a live session.
#[derive(Debug)]
pub(crate) enum Message {
    Prompt(Prompt, Reply<PromptAccepted>),
    Interrupt {
        clear_queue: bool,
        reply: Reply<bool>,
    },
    Answer(RequestId, Answer, Reply<()>),
    Undo(GoBack, Reply<WentBack>),
    Rewind(CheckpointId, RewindScope, GoBack, Reply<WentBack>),
    SetMode(Mode, Reply<()>),
    SetModel(String, Reply<()>),
    /// The session is opened again with other flags.
    Configure(Box<AgentSettings>, Reply<SessionInfo>),
    Subscribe(Position, Overflow, Reply<Subscription>),
    Info(Reply<SessionInfo>),
    Close(SessionEnd, Reply<()>),
}
