//! What one may ask, as values.

use driver_api::{LogRow, SessionState};
use protocol::{Image, Mode, PromptId, SessionId, Timestamp, Usage};

/// Limits of a session's turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Steps per turn.
    pub max_turns: u32,
    /// How long a model call is retried, in milliseconds.
    pub retry_budget_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_turns: 200, retry_budget_ms: 120_000 }
    }
}

/// How an agent is set up for a session: what the flags and settings say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSettings {
    /// Text after the system prompt.
    pub append_system_prompt: Option<String>,
    /// Allow rules of the session.
    pub allow: Vec<String>,
    /// Deny rules of the session.
    pub deny: Vec<String>,
    /// Further folders that tools may use.
    pub roots: Vec<String>,
    /// Limits.
    pub limits: Limits,
    /// Whether somebody answers interactions. Without, what must be asked for is denied at once.
    pub is_attended: bool,
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// The working folder.
    pub cwd: String,
    /// The model; the default where absent.
    pub model: Option<String>,
    /// The mode; the default where absent.
    pub mode: Option<Mode>,
    /// A title.
    pub title: Option<String>,
    /// The agent.
    pub agent: AgentSettings,
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPart {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
}

/// A prompt: 1 byte to 25 MiB of text, at most 20 attachments.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// The pieces, in order.
    pub parts: Vec<PromptPart>,
}

impl Prompt {
    /// Makes a prompt of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![PromptPart::Text(text.into())] }
    }
}

/// A prompt that is durable and will run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptAccepted {
    /// Its id.
    pub prompt_id: PromptId,
    /// How many prompts are before it; 0 when it runs at once.
    pub position: u32,
}

/// Which sessions to list; newest first.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only those of exactly this folder.
    pub cwd: Option<String>,
    /// Only those last touched before this instant.
    pub before: Option<Timestamp>,
    /// At most this many; 0 means 100.
    pub limit: usize,
}

/// A session as one sees it from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its working folder.
    pub cwd: String,
    /// Its title.
    pub title: Option<String>,
    /// Its model.
    pub model: String,
    /// Its mode.
    pub mode: Mode,
    /// What it is doing.
    pub state: SessionState,
    /// How many prompts it has had.
    pub prompts: u64,
    /// What it has used; zero where only the list was read.
    pub usage: Usage,
    /// What it has cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log last grew.
    pub updated_at: Timestamp,
    /// The last position of its log.
    pub last_seq: u64,
    /// The process that owns it, if another living one does.
    pub owner_pid: Option<u32>,
}

/// A session as a file holds it.
#[derive(Clone, Debug)]
pub struct ExportedSession {
    /// The session.
    pub info: SessionInfo,
    /// Its whole log.
    pub rows: Vec<LogRow>,
}
