//! Bodies of the v1 door. Fields that a newer server adds are passed over; those that it may leave
//! out have a default.

use std::collections::BTreeMap;

use protocol::{
    CheckpointId, EventBody, Image, MessageId, Mode, NeuronDriver, PromptId, SessionId,
    SessionSandbox, Timestamp, Usage,
};
use runtime_api::GoBack;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session to create, or to open where [`CreateSession::resume`] names a stored one.
///
/// ```ignore
/// let session = CreateSession::at("/home/me/src/app").mode(Mode::Ask);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateSession {
    /// The working folder at the server, inside one of its roots; the first root where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The mode; the server's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The model; the server's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A stored session to open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<SessionId>,
    /// A title, at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Text after the system prompt, at most 100,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// Rules that allow calls, at most 200.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules that deny calls, at most 200.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// What keeps it apart: a sandbox of its own, or `Host` for none; the server's default where
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<NeuronDriver>,
}

impl CreateSession {
    /// Describes a session in a folder of the server.
    pub fn at(cwd: impl Into<String>) -> Self {
        Self { cwd: Some(cwd.into()), ..Self::default() }
    }

    /// Describes the opening of a stored session.
    pub fn resume(session: impl Into<String>) -> Self {
        Self { resume: Some(SessionId::new(session)), ..Self::default() }
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Sets the model.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Sets what keeps it apart.
    #[must_use]
    pub fn sandbox(self, driver: NeuronDriver) -> Self {
        Self { sandbox: Some(driver), ..self }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }
}

/// A session as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Its working folder.
    pub cwd: String,
    /// Its mode, for example `ask`.
    pub mode: String,
    /// Its model.
    pub model: String,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is doing: `idle`, `running` or `waiting`; a newer server may say more.
    pub state: String,
    /// How many prompts wait.
    #[serde(default)]
    pub queued: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log last grew.
    pub updated_at: Timestamp,
    /// The last position of its event stream.
    #[serde(default)]
    pub last_event_id: u64,
    /// How many requests wait for an answer.
    #[serde(default)]
    pub pending_requests: u32,
    /// What keeps it apart; absent where it acts in a neuron of others.
    #[serde(default)]
    pub sandbox: Option<SessionSandbox>,
}

/// What sessions to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// Open at the server, and nothing runs.
    Idle,
    /// Open, and a prompt runs.
    Running,
    /// Open, and a prompt waits for an answer.
    Waiting,
    /// Stored, not open anywhere, and inside the server's roots: the newest 100.
    Stored,
}

impl SessionState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            SessionState::Idle => "idle",
            SessionState::Running => "running",
            SessionState::Waiting => "waiting",
            SessionState::Stored => "stored",
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Sessions {
    pub(super) sessions: Vec<SessionSummary>,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerHealth {
    /// `ok`.
    pub status: String,
    /// Its version; none where the token was not taken.
    #[serde(default)]
    pub version: Option<String>,
    /// How long it runs, in milliseconds.
    #[serde(default)]
    pub uptime_ms: Option<u64>,
    /// How many sessions are open.
    #[serde(default)]
    pub sessions: Option<u64>,
}

/// A model that sessions may name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelInfo {
    /// Its full name, `provider/model`.
    pub id: String,
    /// Its provider.
    #[serde(default)]
    pub provider: String,
    /// Tokens of prompt and answer together, where that is known.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// Whether sessions that name no model get it.
    #[serde(default)]
    pub default: bool,
}

#[derive(Deserialize)]
pub(super) struct Models {
    pub(super) models: Vec<ModelInfo>,
}

/// What is said to an agent, with what comes with it. Text alone is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Prompt {
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attachment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Attachment {
    Image(Image),
    File { path: String },
}

impl Prompt {
    /// Makes a prompt of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), attachments: Vec::new() }
    }

    /// Adds an image; the server takes at most 20 attachments, and 25 MiB with the text.
    #[must_use]
    pub fn image(mut self, image: Image) -> Self {
        self.attachments.push(Attachment::Image(image));
        self
    }

    /// Adds a file of the server, absolute or relative to the session's folder.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>) -> Self {
        self.attachments.push(Attachment::File { path: path.into() });
        self
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        Self::text(text)
    }
}

/// A prompt that the server took.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Queued {
    /// Its id.
    pub prompt_id: PromptId,
    /// Whether it waits.
    #[serde(default)]
    pub queued: bool,
    /// How many prompts are before it.
    #[serde(default)]
    pub position: u32,
}

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PendingRequest {
    /// A permission, question or plan request.
    Known(Box<EventBody>),
    /// One that this version cannot read.
    Other(Value),
}

#[derive(Deserialize)]
pub(super) struct Requests {
    pub(super) requests: Vec<Value>,
}

/// What came of going back.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RewindOutcome {
    /// The paths that hold their older state again.
    #[serde(default)]
    pub files_changed: Vec<String>,
    /// The paths that were left as they are.
    #[serde(default)]
    pub files_kept: Vec<KeptPath>,
    /// What cannot be brought back at all, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How many messages the model reads no more.
    #[serde(default)]
    pub messages_removed: u64,
}

/// A path that was left as it is, because it holds something else than its turn left.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct KeptPath {
    /// The path.
    pub path: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What came of taking back the last changes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UndoOutcome {
    /// Whether there was something to take back.
    pub undone: bool,
    /// The paths that hold their older state again.
    #[serde(default)]
    pub files_changed: Vec<String>,
    /// The paths that were left as they are.
    #[serde(default)]
    pub files_kept: Vec<KeptPath>,
    /// What cannot be brought back at all, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A point that a session can go back to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Its id.
    pub id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
    /// The message of the prompt after it.
    #[serde(default)]
    pub message_id: Option<MessageId>,
    /// What the prompt after it was about.
    #[serde(default)]
    pub label: String,
    /// How many paths that prompt changed.
    #[serde(default)]
    pub files: u64,
    /// Whether the files were captured, so that they can be brought back.
    #[serde(default)]
    pub has_files: bool,
    /// Whether what the prompt did to the files was taken back.
    #[serde(default)]
    pub undone: bool,
    /// Whether the model reads of it no more.
    #[serde(default)]
    pub removed: bool,
}

#[derive(Deserialize)]
pub(super) struct Checkpoints {
    pub(super) checkpoints: Vec<CheckpointInfo>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RewindBody<'a> {
    pub(super) checkpoint_id: &'a str,
    pub(super) scope: protocol::event::RewindScope,
    #[serde(flatten)]
    pub(super) how: GoBackBody,
}

/// What is not wanted is left out: servers that do not know it take the request all the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GoBackBody {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl From<GoBack> for GoBackBody {
    fn from(how: GoBack) -> Self {
        Self { force: how.is_forced, dry_run: how.is_dry }
    }
}

/// What a session used.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionUsage {
    /// The tokens.
    #[serde(flatten)]
    pub usage: Usage,
    /// The price in US dollars; none where it is not known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// How many model calls.
    #[serde(default)]
    pub turns: u64,
    /// How many prompts.
    #[serde(default)]
    pub prompts: u64,
    /// The same by model, as the server shows it.
    #[serde(default)]
    pub by_model: BTreeMap<String, Value>,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// What may follow it.
    #[serde(default)]
    pub argument_hint: Option<String>,
    /// Where it comes from.
    #[serde(default)]
    pub source: String,
}

#[derive(Deserialize)]
pub(super) struct Commands {
    pub(super) commands: Vec<CommandInfo>,
}

#[derive(Deserialize)]
pub(super) struct Messages {
    pub(super) messages: Vec<protocol::Message>,
}

#[derive(Deserialize)]
pub(super) struct Interrupted {
    pub(super) interrupted: bool,
}
