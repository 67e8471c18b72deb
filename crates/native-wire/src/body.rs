//! What answers hold.

use std::collections::BTreeMap;

use protocol::{
    CheckpointId, IsolationLevel, Message, MessageId, Mode, NeuronDriver, PromptId, SessionId,
    SessionSandbox, Timestamp, Usage, Writes,
};
use runtime_api::{PointInfo, SessionInfo, SessionState, SessionUsage, SlashCommand, WentBack};
use schemars::JsonSchema;
use serde::Serialize;

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a prompt.
    Idle,
    /// Works on a prompt.
    Running,
    /// Waits for an answer to a request.
    Waiting,
}

impl From<SessionState> for State {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Idle => State::Idle,
            SessionState::Running => State::Running,
            SessionState::Waiting => State::Waiting,
        }
    }
}

/// A session. In a list of stored ones `lastEventId`, `queued` and `pendingRequests` are 0.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its working folder, with links resolved.
    pub cwd: String,
    /// Its permission mode.
    pub mode: Mode,
    /// Its model, `provider/model`.
    pub model: String,
    /// Its title: given, or the first line of its first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is doing.
    pub state: State,
    /// How many prompts wait for their turn.
    pub queued: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log last grew.
    pub updated_at: Timestamp,
    /// The id of the newest event of its stream.
    pub last_event_id: u64,
    /// How many requests wait for an answer.
    pub pending_requests: u32,
    /// What keeps it apart. Absent where it acts in a neuron that others made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SessionSandbox>,
}

/// What a session has that acts on the machine itself.
const NO_SANDBOX: SessionSandbox = SessionSandbox {
    driver: NeuronDriver::Host,
    isolation: IsolationLevel::None,
    writes: Writes::Folder,
};

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        Self {
            sandbox: match info.neuron {
                None => Some(NO_SANDBOX),
                Some(_) => info.sandbox,
            },
            id: info.id,
            cwd: info.cwd,
            mode: info.mode,
            model: info.model,
            title: info.title,
            state: info.state.into(),
            queued: info.queued,
            created_at: info.created_at,
            updated_at: info.updated_at,
            last_event_id: info.last_frame.0,
            pending_requests: info.pending,
        }
    }
}

/// Sessions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sessions {
    /// The sessions.
    pub sessions: Vec<Session>,
}

/// A prompt that is recorded and will run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// Its id; `prompt_finished` names it.
    pub prompt_id: PromptId,
    /// Whether it waits behind others.
    pub queued: bool,
    /// Its place among those that wait, from 1; 0 when it runs at once.
    pub position: u32,
}

/// The answer was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Taken {
    /// Always true.
    pub ok: bool,
}

/// Whether a prompt was stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Interrupted {
    /// True when one ran.
    pub interrupted: bool,
}

/// A part of the transcript, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The messages.
    pub messages: Vec<Message>,
    /// Whether there are more: `after` with the last one's id gives them.
    pub has_more: bool,
}

/// A point that a session can go back to: before one of its prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CheckpointState")]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// When the prompt after it began.
    pub created_at: Timestamp,
    /// The message of that prompt.
    pub message_id: MessageId,
    /// The first line of that prompt.
    pub label: String,
    /// How many paths that prompt changed.
    pub files: u64,
    /// Whether the files were captured, so that they can be brought back.
    pub has_files: bool,
    /// Whether what the prompt did to the files was taken back.
    pub undone: bool,
    /// Whether the model reads of it no more, because somebody went back beyond it.
    pub removed: bool,
}

impl From<PointInfo> for Checkpoint {
    fn from(point: PointInfo) -> Self {
        Self {
            id: point.id,
            created_at: point.created_at,
            message_id: point.message_id,
            label: point.label,
            files: point.files,
            has_files: point.has_files,
            undone: point.is_undone,
            removed: point.is_cut,
        }
    }
}

/// Checkpoints, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Checkpoints {
    /// The checkpoints.
    pub checkpoints: Vec<Checkpoint>,
}

/// A path that was left as it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeptPath {
    /// The path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What happened to files when somebody went back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesBack {
    /// The paths that hold their older state again.
    pub files_changed: Vec<String>,
    /// The paths that were left as they are; `force` brings them back as well.
    pub files_kept: Vec<KeptPath>,
    /// What cannot be brought back at all, one sentence each.
    pub notes: Vec<String>,
}

impl From<WentBack> for FilesBack {
    fn from(back: WentBack) -> Self {
        let kept = back.kept.into_iter().map(|(path, reason)| KeptPath { path, reason });
        Self {
            files_changed: back.changed.into_iter().map(|(_, path)| path).collect(),
            files_kept: kept.collect(),
            notes: back.beyond,
        }
    }
}

/// What came of going back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RewindResult")]
pub struct Rewound {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The files.
    #[serde(flatten)]
    pub files: FilesBack,
    /// How many messages the model reads no more.
    pub messages_removed: u64,
}

/// What came of an undo.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UndoResult")]
pub struct Undone {
    /// Whether there was something to undo.
    pub undone: bool,
    /// The checkpoint before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// The files.
    #[serde(flatten)]
    pub files: FilesBack,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A delegated agent.
    Agent,
    /// A command in the background.
    Shell,
}

/// How a task is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It runs.
    Running,
    /// It ended well.
    Completed,
    /// It ended badly.
    Failed,
    /// It was stopped.
    Stopped,
}

/// Something that runs beside the conversation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: TaskKind,
    /// What it does.
    pub title: String,
    /// How it is.
    pub status: TaskStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tasks {
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// Tokens and their price.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// The tokens.
    #[serde(flatten)]
    pub usage: Usage,
    /// The price in US dollars; absent where any of it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// What a session has used.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSpending {
    /// All of it.
    #[serde(flatten)]
    pub total: Spending,
    /// How many model calls there were.
    pub turns: u64,
    /// How many prompts there were.
    pub prompts: u64,
    /// The same by model.
    pub by_model: BTreeMap<String, Spending>,
}

impl From<SessionUsage> for SessionSpending {
    fn from(used: SessionUsage) -> Self {
        let by_model = used.by_model.into_iter();
        Self {
            total: Spending { usage: used.usage, cost_usd: used.cost_usd },
            turns: used.steps,
            prompts: used.prompts,
            by_model: by_model
                .map(|(name, usage, cost_usd)| (name, Spending { usage, cost_usd }))
                .collect(),
        }
    }
}

/// A slash command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in one line.
    pub description: String,
    /// What may follow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Where it comes from: `builtin`.
    pub source: String,
}

impl From<SlashCommand> for Command {
    fn from(command: SlashCommand) -> Self {
        Self {
            name: command.name,
            description: command.description,
            argument_hint: command.argument_hint,
            source: command.source.to_owned(),
        }
    }
}

/// Slash commands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Commands {
    /// The commands.
    pub commands: Vec<Command>,
}
