//! An agent in this process: one session, and what drives it.

mod backlog;
mod builder;
mod line;
mod requests;
mod stream;
mod turn;
mod workspace_agent;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::event::SessionEnd;
use protocol::{Event, Message, Mode, RefusalCode, SessionId};
use runtime_api::{Handle, Interrupt, MessagesAfter, Prompt, SessionInfo};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::builder::AgentBuilder;
use self::line::Line;
pub use self::stream::EventStream;
pub use self::workspace_agent::agent_main;
use crate::{Error, RunResult};

/// How many messages are read at a time.
const MESSAGES_PAGE: usize = 1_000;

/// An agent: one session of this process.
///
/// Prompts run one after the other in the order in which they were given; at most 16 wait, a 17th
/// is refused with `queue_full`. All methods may be called from several tasks at once.
///
/// Close it with [`Agent::close`] when it is no longer needed. An agent that is dropped closes
/// itself in the background, as long as its tokio runtime lives. Either way nothing is lost that
/// was shown: the session can be resumed, in this program or with `narthex run --resume`.
#[derive(Debug)]
pub struct Agent {
    core: Arc<Core>,
    tokio: tokio::runtime::Handle,
    notices: Vec<String>,
    owns_runtime: bool,
    /// Stops what runs beside the session.
    stopping: CancellationToken,
    is_closed: AtomicBool,
    /// Cancelled once closing is over.
    closed: CancellationToken,
}

/// What the tasks of an agent share.
#[derive(Debug)]
struct Core {
    handle: Handle,
    session: SessionId,
    line: Line,
    tasks: TaskTracker,
}

impl Agent {
    /// Starts an agent's description.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Runs a prompt to its end. Dropping the future interrupts the prompt.
    ///
    /// # Errors
    /// [`Error::Refused`] (`queue_full`, `too_large`, `invalid`), [`Error::Failed`],
    /// [`Error::Closed`]. A turn that went wrong is no error: see [`RunResult::reason`].
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<RunResult, Error> {
        self.stream(prompt).finish().await
    }

    /// Runs a prompt to its end and shows each event on the way. Dropping the future interrupts
    /// the prompt.
    ///
    /// # Errors
    /// As [`Agent::prompt`].
    pub async fn prompt_with(
        &self,
        prompt: impl Into<Prompt>,
        mut on_event: impl FnMut(&Event),
    ) -> Result<RunResult, Error> {
        let mut stream = self.stream(prompt);
        while let Some(event) = stream.next().await {
            on_event(&event?);
        }
        stream.finish().await
    }

    /// Runs a prompt and returns its events as they come. Dropping the stream before its end
    /// interrupts the prompt. The prompt begins whether or not the stream is read; a reader that
    /// falls far behind makes the session wait.
    pub fn stream(&self, prompt: impl Into<Prompt>) -> EventStream {
        let place = self.core.line.place();
        let (sender, stream) = EventStream::new();
        let core = Arc::clone(&self.core);
        let driver = turn::drive(core, prompt.into(), place, sender);
        // Nothing waits for it: it ends with its turn, and a turn ends when its session closes.
        drop(self.core.tasks.spawn_on(driver, &self.tokio));
        stream
    }

    /// Stops the prompt that runs; true when one did. Prompts that wait for their turn go on.
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Closed`].
    pub async fn interrupt(&self) -> Result<bool, Error> {
        let _lift = self.core.line.lift();
        let core = &self.core;
        core.handle
            .interrupt(&core.session, Interrupt::Running)
            .await
            .map_err(|error| self.explained(error))
    }

    /// Changes the mode.
    ///
    /// # Errors
    /// [`Error::Refused`] (`locked_by_policy`), [`Error::Failed`], [`Error::Closed`].
    pub async fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let _lift = self.core.line.lift();
        let core = &self.core;
        core.handle.set_mode(&core.session, mode).await.map_err(|error| self.explained(error))
    }

    /// Changes the model from the next model call on.
    ///
    /// # Errors
    /// [`Error::Refused`] (`invalid_model`, `model_not_allowed`, `locked_by_policy`),
    /// [`Error::Failed`], [`Error::Closed`].
    pub async fn set_model(&self, model: &str) -> Result<(), Error> {
        let _lift = self.core.line.lift();
        let core = &self.core;
        core.handle.set_model(&core.session, model).await.map_err(|error| self.explained(error))
    }

    /// Returns the whole transcript, oldest message first.
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Closed`].
    pub async fn messages(&self) -> Result<Vec<Message>, Error> {
        let _lift = self.core.line.lift();
        let core = &self.core;
        let mut messages: Vec<Message> = Vec::new();
        loop {
            let after = messages
                .last()
                .map_or(MessagesAfter::Start, |last| MessagesAfter::Message(last.id.clone()));
            let page = core.handle.messages(&core.session, after, MESSAGES_PAGE).await;
            let page = page.map_err(|error| self.explained(error))?;
            messages.extend(page.messages);
            if !page.has_more {
                return Ok(messages);
            }
        }
    }

    /// Returns the session's facts: model, mode, state, usage.
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Closed`].
    pub async fn info(&self) -> Result<SessionInfo, Error> {
        let _lift = self.core.line.lift();
        self.core.handle.info(&self.core.session).await.map_err(|error| self.explained(error))
    }

    /// Returns the session's id, with which it can be resumed.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.core.session
    }

    /// Returns the runtime below: everything else that one may ask, of this session and others.
    /// What waits for an answer in other sessions gets none from this agent's callbacks.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.core.handle
    }

    /// Returns what people should know about the start, for example that a damaged store was
    /// mended. One sentence each.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Stops what runs, lets go of the session, and of the runtime where the agent has its own.
    /// Afterwards every method answers [`Error::Closed`]; closing again waits for the first close.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn close(&self) -> Result<(), Error> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            self.closed.cancelled().await;
            return Ok(());
        }
        self.stopping.cancel();
        // A task of its own: a caller that gives up waiting does not leave it half done.
        let closing = close(Arc::clone(&self.core), self.owns_runtime);
        let over = self.closed.clone().drop_guard();
        let closing = async move {
            let _over = over;
            closing.await
        };
        let closing = self.core.tasks.spawn_on(closing, &self.tokio);
        closing.await.unwrap_or(Err(Error::Closed))
    }

    /// A session that is gone is an agent that is closed.
    fn explained(&self, error: runtime_api::Error) -> Error {
        let error = Error::from(error);
        let is_gone =
            matches!(error.code(), Some(RefusalCode::SessionNotFound | RefusalCode::ShuttingDown));
        let is_closed = self.is_closed.load(Ordering::Acquire);
        if is_closed || is_gone { Error::Closed } else { error }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.stopping.cancel();
        let closing = close(Arc::clone(&self.core), self.owns_runtime);
        let report = async {
            if let Err(error) = closing.await {
                tracing::error!(%error, "close a dropped agent");
            }
        };
        // Where the tokio runtime is gone already, so are the session's tasks: what was recorded
        // is on disk, and processes end with the socket of their agent.
        drop(self.core.tasks.spawn_on(report, &self.tokio));
    }
}

async fn close(core: Arc<Core>, owns_runtime: bool) -> Result<(), Error> {
    core.line.close();
    let _lift = core.line.lift();
    let closed = core.handle.close(&core.session, SessionEnd::Closed).await.map_err(Error::from);
    if owns_runtime {
        core.handle.shutdown().await;
    }
    match closed {
        Err(error) if error.code().is_none() => Err(error),
        // It was closed or removed through the runtime.
        _ => Ok(()),
    }
}
