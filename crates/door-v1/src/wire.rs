//! What answers hold.

use std::collections::BTreeMap;

use protocol::{
    CheckpointId, EventBody, Message, MessageId, Mode, PromptId, SessionId, Timestamp, Usage,
};
use runtime_api::{
    ModelListing, Pending, PointInfo, SessionInfo, SessionState, SessionUsage, SlashCommand,
    WentBack,
};
use schemars::JsonSchema;
use serde::Serialize;

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
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
pub(crate) struct Session {
    /// Its id.
    pub(crate) id: SessionId,
    /// Its working folder, with links resolved.
    pub(crate) cwd: String,
    /// Its permission mode.
    pub(crate) mode: Mode,
    /// Its model, `provider/model`.
    pub(crate) model: String,
    /// Its title: given, or the first line of its first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What it is doing.
    pub(crate) state: State,
    /// How many prompts wait for their turn.
    pub(crate) queued: u32,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// When its log last grew.
    pub(crate) updated_at: Timestamp,
    /// The id of the newest event of its stream.
    pub(crate) last_event_id: u64,
    /// How many requests wait for an answer.
    pub(crate) pending_requests: u32,
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        Self {
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
#[derive(Serialize, JsonSchema)]
pub(crate) struct Sessions {
    /// The sessions.
    pub(crate) sessions: Vec<Session>,
}

/// Whether the server is there. Without a valid token only `status`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok`, or `stopping` with status 503.
    pub(crate) status: HealthStatus,
    /// The version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
    /// Milliseconds since the server began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uptime_ms: Option<u64>,
    /// How many sessions are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<usize>,
}

/// How the server is.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthStatus {
    /// It answers.
    Ok,
    /// It stops.
    Stopping,
}

/// Whether the server can work.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// `ready` with status 200, else `unready` or `stopping` with 503.
    pub(crate) status: ReadyStatus,
    /// What was looked at.
    pub(crate) checks: Checks,
}

/// Whether requests should come here.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadyStatus {
    /// They should.
    Ready,
    /// Something that is needed fails.
    Unready,
    /// The server stops.
    Stopping,
}

/// What readiness depends on.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checks {
    /// Whether the store takes writes.
    pub(crate) store: Check,
}

/// How one of them is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// It works.
    Ok,
    /// It does not; the log says why.
    Failed,
}

/// A prompt that is recorded and will run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Accepted {
    /// Its id; `prompt_finished` names it.
    pub(crate) prompt_id: PromptId,
    /// Whether it waits behind others.
    pub(crate) queued: bool,
    /// Its place among those that wait, from 1; 0 when it runs at once.
    pub(crate) position: u32,
}

/// The answer was taken.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Taken {
    /// Always true.
    pub(crate) ok: bool,
}

/// Requests that wait for an answer, oldest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Requests {
    /// The requests, as the event stream shows them.
    pub(crate) requests: Vec<Request>,
}

/// A request that waits: a permission, a question or a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// The request's event.
    #[serde(flatten)]
    pub(crate) body: EventBody,
    /// The session.
    pub(crate) session_id: SessionId,
    /// Since when it waits.
    pub(crate) ts: Timestamp,
}

impl From<Pending> for Request {
    fn from(pending: Pending) -> Self {
        Self { body: pending.request, session_id: pending.session, ts: pending.since }
    }
}

/// Whether a prompt was stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Interrupted {
    /// True when one ran.
    pub(crate) interrupted: bool,
}

/// A part of the transcript, oldest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Messages {
    /// The messages.
    pub(crate) messages: Vec<Message>,
    /// Whether there are more: `after` with the last one's id gives them.
    pub(crate) has_more: bool,
}

/// A point that a session can go back to: before one of its prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CheckpointState")]
pub(crate) struct Checkpoint {
    /// Its id.
    pub(crate) id: CheckpointId,
    /// When the prompt after it began.
    pub(crate) created_at: Timestamp,
    /// The message of that prompt.
    pub(crate) message_id: MessageId,
    /// The first line of that prompt.
    pub(crate) label: String,
    /// How many paths that prompt changed.
    pub(crate) files: u64,
    /// Whether the files were captured, so that they can be brought back.
    pub(crate) has_files: bool,
    /// Whether what the prompt did to the files was taken back.
    pub(crate) undone: bool,
    /// Whether the model reads of it no more, because somebody went back beyond it.
    pub(crate) removed: bool,
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
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checkpoints {
    /// The checkpoints.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// A path that was left as it is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KeptPath {
    /// The path.
    pub(crate) path: String,
    /// Why.
    pub(crate) reason: String,
}

/// What happened to files when somebody went back.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilesBack {
    /// The paths that hold their older state again.
    pub(crate) files_changed: Vec<String>,
    /// The paths that were left as they are; `force` brings them back as well.
    pub(crate) files_kept: Vec<KeptPath>,
    /// What cannot be brought back at all, one sentence each.
    pub(crate) notes: Vec<String>,
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
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RewindResult")]
pub(crate) struct Rewound {
    /// The checkpoint.
    pub(crate) checkpoint: Checkpoint,
    /// The files.
    #[serde(flatten)]
    pub(crate) files: FilesBack,
    /// How many messages the model reads no more.
    pub(crate) messages_removed: u64,
}

/// What came of an undo.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UndoResult")]
pub(crate) struct Undone {
    /// Whether there was something to undo.
    pub(crate) undone: bool,
    /// The checkpoint before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<CheckpointId>,
    /// The files.
    #[serde(flatten)]
    pub(crate) files: FilesBack,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "nothing makes tasks yet; the document shows their form")]
pub(crate) enum TaskKind {
    /// A delegated agent.
    Agent,
    /// A command in the background.
    Shell,
}

/// How a task is.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "nothing makes tasks yet; the document shows their form")]
pub(crate) enum TaskStatus {
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
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task {
    /// Its id.
    pub(crate) id: String,
    /// Its kind.
    pub(crate) kind: TaskKind,
    /// What it does.
    pub(crate) title: String,
    /// How it is.
    pub(crate) status: TaskStatus,
    /// When it began.
    pub(crate) started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
}

/// Tasks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tasks {
    /// The tasks.
    pub(crate) tasks: Vec<Task>,
}

/// Whether a task was stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// True when it ran.
    pub(crate) stopped: bool,
}

/// Tokens and their price.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spending {
    /// The tokens.
    #[serde(flatten)]
    pub(crate) usage: Usage,
    /// The price in US dollars; absent where any of it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
}

/// What a session has used.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionSpending {
    /// All of it.
    #[serde(flatten)]
    pub(crate) total: Spending,
    /// How many model calls there were.
    pub(crate) turns: u64,
    /// How many prompts there were.
    pub(crate) prompts: u64,
    /// The same by model.
    pub(crate) by_model: BTreeMap<String, Spending>,
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
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    /// Its name, without the slash.
    pub(crate) name: String,
    /// What it does, in one line.
    pub(crate) description: String,
    /// What may follow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) argument_hint: Option<String>,
    /// Where it comes from: `builtin`.
    pub(crate) source: String,
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
#[derive(Serialize, JsonSchema)]
pub(crate) struct Commands {
    /// The commands.
    pub(crate) commands: Vec<Command>,
}

/// A model that can be named.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Model {
    /// Its full name, `provider/model`.
    pub(crate) id: String,
    /// Its provider's name in the settings.
    pub(crate) provider: String,
    /// How many tokens prompt and answer may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_window: Option<u64>,
    /// Whether sessions that name no model get it.
    pub(crate) default: bool,
}

impl From<ModelListing> for Model {
    fn from(model: ModelListing) -> Self {
        Self {
            id: model.id,
            provider: model.provider,
            context_window: model.context_window,
            default: model.is_default,
        }
    }
}

/// Models.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Models {
    /// The models.
    pub(crate) models: Vec<Model>,
}
