//! Tools: what a model can do.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use protocol::event::{Answer, Display, FileStamp, OutputStream, QuestionOption};
use protocol::{Block, Effect, ToolCallId};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{Fault, Located, ToolSpec, Workspace, WorkspaceError};

/// How a call uses a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks.
    Read,
    /// Changes, creates or removes.
    Write,
}

/// A path that a call will touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFact {
    /// Where it really leads.
    pub located: Located,
    /// How it is used.
    pub access: Access,
}

/// What a call is about, looked up before the gate decides. The gate judges these facts and
/// nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFacts {
    /// The highest effect.
    pub effect: Effect,
    /// One line for people.
    pub summary: String,
    /// The paths.
    pub paths: Vec<PathFact>,
    /// The shell command, where the call is one.
    pub command: Option<String>,
}

/// A live piece of a tool's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The piece.
    pub text: String,
    /// Where it came from.
    pub stream: Option<OutputStream>,
}

/// To what a process belongs that outlives its call.
#[derive(Clone, Debug)]
pub struct ProcessScope {
    /// Names those who see it: the calls of one neuron, or of one session.
    pub name: String,
    /// Cancelled when it has to end: its session was closed.
    pub over: CancellationToken,
}

/// The narrow services of the runtime that a call may use.
#[async_trait]
pub trait ToolHost: Send + Sync + Debug {
    /// Returns the contents' hash of a file as this session last saw or left it, if it did.
    fn seen(&self, path: &str) -> Option<String>;

    /// Tells whether a tool that was let into a folder may show what it finds at a path in it.
    ///
    /// The gate judges the folder that a search starts from; a rule may protect single places
    /// beneath it. A search asks this for each file and folder that it comes to, by its real
    /// path, leaves out what is refused together with everything beneath it, and says how many
    /// it left out. The path that the gate itself judged is not asked for again. Called very
    /// often and from threads that may block: an answer does no I/O.
    fn may_read(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// Tells whether a call may change a file that was not read before, or has changed since:
    /// where a person makes the call, who knows what is there.
    fn overwrites_unseen(&self) -> bool {
        false
    }

    /// Returns how long a process may go on that outlives the call which started it, and who sees
    /// it. None where nothing outlives its call.
    fn processes(&self) -> Option<ProcessScope> {
        None
    }

    /// Asks whoever decides for this session, and waits while the call runs. One question of a
    /// call is asked at a time, at most 20 of one call, with at most 200 options and 20,000 bytes
    /// of text. None where nobody can be asked, where no answer came in time, where the
    /// question was dismissed or is no [`Asks::Question`], and when the turn is stopped. Dropping
    /// the future takes the question back.
    async fn ask(&self, asks: Asks) -> Option<Answer> {
        drop(asks);
        None
    }
}

/// What a call gets to work with.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The call.
    pub call: ToolCallId,
    /// Where it acts.
    pub workspace: Arc<dyn Workspace>,
    /// The services of the runtime.
    pub host: Arc<dyn ToolHost>,
    /// Live output; bounded. Use `try_send` for what may be lost, `send` for what may not.
    pub progress: mpsc::Sender<Progress>,
    /// Cancelled when the turn is stopped. The tool returns soon after, with what it has.
    pub cancel: CancellationToken,
    /// A folder of this session's for outputs that are too long for the model.
    pub spill_dir: PathBuf,
    /// Whether the model reads images.
    pub images: bool,
}

/// What a call asks of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A question with options.
    Question {
        /// The question.
        question: String,
        /// The options.
        options: Vec<QuestionOption>,
        /// Whether several may be chosen.
        multi_select: bool,
        /// Whether words of one's own are an answer too.
        allow_other: bool,
    },
    /// A plan to approve, in Markdown. Approval ends plan mode.
    Plan {
        /// The plan.
        plan: String,
    },
}

/// What a call brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the model reads.
    pub content: Vec<Block>,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether `content` leaves something out.
    pub truncated: bool,
    /// The file with the whole output.
    pub spill: Option<String>,
    /// What people are shown.
    pub display: Option<Display>,
    /// The files that it saw or left.
    pub files: Vec<FileStamp>,
    /// The names of tools of sources that the session is offered from the next step on.
    pub activates: Vec<String>,
}

impl ToolOutcome {
    /// Makes a successful outcome of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// Makes a failed outcome whose text tells the model what would be right.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Why a call could not be described or run.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments are wrong; the text tells the model what would be right.
    #[error("{0}")]
    Invalid(String),
    /// The workspace refused.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The tool failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A native tool.
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// Returns the tool as the model sees it. The schema refuses unknown keys, and arguments
    /// were checked against it before any other method is called.
    fn spec(&self) -> &ToolSpec;

    /// Returns the highest effect that a call may have; the highest there is where it cannot be
    /// told. The effect of a call itself is among its facts.
    fn effect(&self) -> Effect {
        Effect::Destructive
    }

    /// Tells whether sessions have it that do not choose their tools.
    fn is_common(&self) -> bool {
        true
    }

    /// Looks up what a call is about. Changes nothing.
    ///
    /// # Errors
    /// [`ToolError::Invalid`] for arguments that the schema cannot rule out.
    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError>;

    /// Says why a call cannot work, where that is known before anybody is asked about it, for
    /// example because the session has not read the file that it overwrites. Does no I/O.
    fn refuses(&self, facts: &CallFacts, host: &dyn ToolHost) -> Option<String> {
        let _ = (facts, host);
        None
    }

    /// Says what a call will change, as a unified diff of at most 64 KiB, before it runs: for
    /// people who are asked and for checks. Changes nothing. None where it cannot be told.
    async fn preview(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        workspace: &dyn Workspace,
    ) -> Option<String> {
        let _ = (input, facts, workspace);
        None
    }

    /// Returns what a person is asked in place of running the call: the call is then an
    /// interaction, its answer is its result, and [`Tool::run`] is never called.
    ///
    /// # Errors
    /// [`ToolError::Invalid`] for arguments that the schema cannot rule out.
    fn asks(&self, input: &Map<String, Value>) -> Result<Option<Asks>, ToolError> {
        let _ = input;
        Ok(None)
    }

    /// Runs a call that the gate let through. `facts` are those that the gate judged: the tool
    /// uses their paths, not the arguments'. Returns soon after `cancel`.
    ///
    /// # Errors
    /// A failure of the call; the model is told its text.
    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError>;
}
