//! What one may ask, as values.

use std::sync::Arc;

use driver_api::{Lender, LogRow, SessionState, ToolSource};
use protocol::event::PromptOptions;
use protocol::{
    CheckpointId, Effect, EventBody, FrameId, Image, Message, MessageId, Mode, NeuronDriver,
    NeuronId, PromptId, Seq, SessionId, SessionSandbox, Timestamp, Usage,
};

/// Limits of a session's turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Steps per turn.
    pub max_turns: u32,
    /// How long a model call is retried, in milliseconds.
    pub retry_budget_ms: u64,
    /// How long a turn may take, in milliseconds, waiting for people not counted; 0 means no
    /// limit.
    pub turn_ms: u64,
    /// Money and tokens.
    pub budget: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_turns: 200, retry_budget_ms: 120_000, turn_ms: 0, budget: Budget::default() }
    }
}

/// What may be spent. Nothing is limited where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Of one turn.
    pub turn: Allowance,
    /// Of the whole session.
    pub session: Allowance,
    /// Of all sessions of this store together, from midnight UTC on.
    pub day: Allowance,
}

/// A limit of money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allowance {
    /// US dollars. Binds only models whose price is known; another is refused where it is set.
    pub usd: Option<f64>,
    /// Tokens: what models read, caches included, and write.
    pub tokens: Option<u64>,
}

/// When conversations are summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Whether by itself.
    pub is_automatic: bool,
    /// At which share of the model's window, in percent: 20 to 95.
    pub at_percent: u8,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { is_automatic: true, at_percent: 80 }
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
    /// Whether an embedding application answers interactions: its denials are told as its own.
    pub is_hosted: bool,
    /// After how long an unanswered interaction is decided against, in milliseconds; 0 means
    /// never.
    pub interaction_timeout_ms: u64,
    /// Whether a turn that a crash cut is carried on when the session is opened; else it ends
    /// with reason `interrupted`.
    pub carries_on: bool,
    /// When the conversation is summarised.
    pub compaction: CompactionSettings,
    /// Effects that are asked for, whatever the mode and all rules allow; beside those that the
    /// session was created with, and not recorded.
    pub asks_for: Vec<Effect>,
    /// The client that lends its files and terminals to sessions in folders of this machine;
    /// sessions in neurons keep to themselves.
    pub lender: Option<SharedLender>,
    /// Tools that the client brings along, beside those of all sessions; on a clash of names its
    /// own count. They are its own affair: nothing of them is recorded but the names that a
    /// session was offered when it began.
    pub tools: Option<SharedTools>,
    /// What binds these sessions beyond the policy of all; none where nothing does.
    pub policy: Option<PolicyTag>,
}

/// Names layers of policy that bind some sessions alone. They are kept where it was made, as long
/// as a clone of it lives. Two are equal when one is a clone of the other.
#[derive(Clone, Debug, Default)]
pub struct PolicyTag(Arc<()>);

impl PolicyTag {
    /// Makes a name that no other equals. For runtimes.
    pub fn fresh() -> Self {
        Self::default()
    }

    /// Returns the same name without keeping it alive. For runtimes.
    pub fn downgrade(&self) -> std::sync::Weak<()> {
        Arc::downgrade(&self.0)
    }
}

impl PartialEq for PolicyTag {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Tools that a client brings to the sessions that it opens. Two are equal when they are one and
/// the same; the last clone to go ends what brings them.
#[derive(Clone, Debug)]
pub struct SharedTools(Arc<dyn ToolSource>);

impl SharedTools {
    /// Wraps what brings the tools.
    pub fn new(source: Arc<dyn ToolSource>) -> Self {
        Self(source)
    }

    /// Returns what brings the tools.
    pub fn get(&self) -> &Arc<dyn ToolSource> {
        &self.0
    }
}

impl PartialEq for SharedTools {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A client that lends something to sessions. Two are equal when they are one and the same.
#[derive(Clone, Debug)]
pub struct SharedLender(Arc<dyn Lender>);

impl SharedLender {
    /// Wraps a client.
    pub fn new(lender: Arc<dyn Lender>) -> Self {
        Self(lender)
    }

    /// Returns the client.
    pub fn get(&self) -> &Arc<dyn Lender> {
        &self.0
    }
}

impl PartialEq for SharedLender {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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
    /// Rules of this session that allow calls. Unlike those of `agent` they are part of the
    /// session: they are recorded, and hold wherever it is opened.
    pub allow: Vec<String>,
    /// Rules of this session that deny calls; recorded as well.
    pub deny: Vec<String>,
    /// This session's text after the system prompt, before that of `agent`; recorded as well.
    pub append_system_prompt: Option<String>,
    /// The neuron that it acts in; `cwd` is then a folder inside it, its working folder where
    /// empty.
    pub neuron: Option<NeuronId>,
    /// What keeps it apart, where it acts in no neuron of others: a sandbox of its own over `cwd`,
    /// or `host` for none; the runtime's usual one where absent. Recorded: whenever the session is
    /// opened again, it gets one that is as strong.
    pub sandbox: Option<NeuronDriver>,
    /// The names of the tools that are offered to models, in this order; all native ones where
    /// absent. A name may be an alias: the tool is then offered under it. Tools of other sources
    /// come on top.
    pub tools: Option<Vec<String>>,
    /// Effects that are asked for, whatever the mode and the session's own rules allow.
    pub asks_for: Vec<Effect>,
    /// The most steps of a prompt that says nothing of it, in place of the agent's; recorded as
    /// well.
    pub max_turns: Option<u32>,
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
    /// A file of the session's workspace, absolute or relative to its working folder; read when
    /// the prompt is accepted. Text goes in with its name before it, images as images.
    File(String),
}

/// A prompt: 1 byte to 25 MiB of text, at most 20 attachments.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// The pieces, in order.
    pub parts: Vec<PromptPart>,
    /// How many steps its turn may take, 1 to 200; as the agent says where absent.
    pub max_turns: Option<u32>,
    /// What else it asks for.
    pub options: PromptOptions,
}

impl Prompt {
    /// Makes a prompt of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![PromptPart::Text(text.into())], ..Self::default() }
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
    /// Only those that a list shows after this session, which was last touched then (for paging).
    pub before: Option<(Timestamp, SessionId)>,
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
    /// Tokens of the transcript as far as they are known; zero where only the list was read.
    pub context_tokens: u64,
    /// Tokens that the model reads at most, where that is known.
    pub context_window: Option<u64>,
    /// Whether it is open here, awake or asleep.
    pub is_open: bool,
    /// How many prompts wait for their turn.
    pub queued: u32,
    /// How many interactions wait for an answer.
    pub pending: u32,
    /// The last frame of its stream; zero where only the list was read.
    pub last_frame: FrameId,
    /// The neuron that it acts in; its working folder is one in there.
    pub neuron: Option<NeuronId>,
    /// What keeps it apart, where that neuron is its own.
    pub sandbox: Option<SessionSandbox>,
    /// How many paths wait in its sandbox to be brought over to its folder; zero while a turn
    /// runs.
    pub changes_waiting: u64,
    /// How many steps it has had, which is model calls without those for summaries; zero where only
    /// the list was read.
    pub steps: u64,
}

impl SessionInfo {
    /// Returns how full the model's window is, in percent: 0 to 100, none where it is not known.
    pub fn context_percent(&self) -> Option<u8> {
        let window = self.context_window.filter(|window| *window > 0)?;
        let percent = u128::from(self.context_tokens) * 100 / u128::from(window);
        Some(u8::try_from(percent.min(100)).unwrap_or(100))
    }
}

/// An interaction that waits, wherever its session is.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The session.
    pub session: SessionId,
    /// Its working folder.
    pub cwd: String,
    /// Its title.
    pub title: Option<String>,
    /// Since when it waits.
    pub since: Timestamp,
    /// The living process that owns the session, if one does.
    pub owner_pid: Option<u32>,
    /// The request: a permission, question or plan request.
    pub request: EventBody,
}

/// A point that a session can go back to, as one sees it from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointInfo {
    /// Its id.
    pub id: CheckpointId,
    /// Where the prompt after it begins in the log: what lies before is what a copy at this point
    /// holds.
    pub seq: Seq,
    /// When the prompt after it began.
    pub created_at: Timestamp,
    /// The message of that prompt.
    pub message_id: MessageId,
    /// The first line of that prompt.
    pub label: String,
    /// How many paths its turn changed.
    pub files: u64,
    /// Whether its files were captured, so that they can be brought back.
    pub has_files: bool,
    /// Whether what its turn did to the files was taken back.
    pub is_undone: bool,
    /// Whether the model reads of it no more.
    pub is_cut: bool,
}

/// What went back, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WentBack {
    /// The point gone back to; none when there was nothing to undo.
    pub point: Option<CheckpointId>,
    /// The paths that hold their older state again, with a mark before each: `+` it is there
    /// again, `-` it is gone again, `~` its older contents are back.
    pub changed: Vec<(char, String)>,
    /// The paths that were left as they are, with the reason.
    pub kept: Vec<(String, String)>,
    /// What cannot be brought back at all, one sentence each.
    pub beyond: Vec<String>,
    /// How many messages the model reads no more.
    pub messages_removed: u64,
}

/// How to go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoBack {
    /// Whether paths that hold something else than the turn left are brought back as well.
    pub is_forced: bool,
    /// Whether to look only.
    pub is_dry: bool,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in one line.
    pub description: String,
    /// What may follow it.
    pub argument_hint: Option<String>,
    /// Where it comes from: `builtin`.
    pub source: &'static str,
}

/// What one model call used, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The session.
    pub session: SessionId,
    /// When.
    pub at: Timestamp,
    /// The model; none in logs of older versions.
    pub model: Option<String>,
    /// The tokens.
    pub usage: Usage,
    /// The price in US dollars, where it is known.
    pub cost_usd: Option<f64>,
}

/// What the model calls of one session used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionUsage {
    /// The tokens of all of them.
    pub usage: Usage,
    /// The price of all of them in US dollars; none when the price of any is not known.
    pub cost_usd: Option<f64>,
    /// How many steps there were.
    pub steps: u64,
    /// How many prompts there were.
    pub prompts: u64,
    /// The same by model, in the order of first use: name, tokens, price.
    pub by_model: Vec<(String, Usage, Option<f64>)>,
}

/// A model that can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelListing {
    /// Its full name, `provider/model`.
    pub id: String,
    /// Its provider's name in the settings.
    pub provider: String,
    /// How many tokens prompt and answer may have together, where it is known.
    pub context_window: Option<u64>,
    /// Whether sessions that name no model get it.
    pub is_default: bool,
}

/// Where a copy of a session ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkPoint {
    /// At its end.
    #[default]
    End,
    /// With this event.
    Seq(Seq),
    /// With this message.
    Message(MessageId),
}

/// A part of the transcript for people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessagesPage {
    /// The messages, oldest first: fewer than were asked for where there are no more, or where
    /// they are large.
    pub messages: Vec<Message>,
    /// Whether more follow.
    pub has_more: bool,
}

/// Where a part of the transcript begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MessagesAfter {
    /// At its begin.
    #[default]
    Start,
    /// After this event.
    Seq(Seq),
    /// After this message.
    Message(MessageId),
}

/// What to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interrupt {
    /// The turn that runs; prompts that wait go on after it.
    #[default]
    Running,
    /// The turn that runs, and the prompts that wait are dropped.
    All,
    /// One prompt, whether it runs or waits.
    Prompt(PromptId),
}

/// Which cut or waiting turns to take up.
#[derive(Clone, Debug, Default)]
pub struct TakeUp {
    /// Only sessions whose folder is one of these or beneath one.
    pub roots: Vec<String>,
    /// The agent that goes on with them.
    pub agent: AgentSettings,
    /// At most this many, the newest first.
    pub limit: usize,
}

/// A session as a file holds it.
#[derive(Clone, Debug)]
pub struct ExportedSession {
    /// The session.
    pub info: SessionInfo,
    /// Its whole log.
    pub rows: Vec<LogRow>,
}
