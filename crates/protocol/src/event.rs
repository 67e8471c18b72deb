//! The one event schema: what the log records, what streams show, what SDKs type.
//!
//! Recorded events carry a dense `seq`; deltas (`text_delta`, `thinking_delta`, `tool_progress`)
//! carry none, and the recorded event that ends them holds the whole.

mod answer;
mod checkpoint;
mod compaction;
mod interaction;
mod session;
mod text;
mod tool;
mod turn;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use answer::{Answer, Persist, WORDS_CHARS_MAX};
pub use checkpoint::{ChangesRecorded, Checkpoint, CheckpointMade, RewindScope, Rewound};
pub use compaction::{Compacted, CompactionUndone};
pub use interaction::{
    DecidedBy, InteractionKind, Outcome, PauseKind, PermissionRequest, PlanRequest, QuestionOption,
    QuestionRequest, RequestResolved,
};
pub use session::{
    ContextAdded, ContextSet, ModeChanged, ModelChanged, Notice, NoticeLevel, SessionClosed,
    SessionEnd, SessionStart, SessionUpdated,
};
pub use text::{AssistantMessage, Retry, TextDelta, ThinkingDelta};
pub use tool::{
    DeniedBy, Display, FileStamp, OutputStream, ToolCall, ToolDenied, ToolProgress, ToolResult,
    ToolStarted, ToolsActivated,
};
pub use turn::{
    Done, OutputFormat, PromptFinished, PromptOptions, PromptQueued, PromptStarted, TurnResult,
    TurnStart,
};

use crate::{FrameId, Seq, SessionId, Timestamp, Usage};

/// One event with its envelope, as every stream shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
    /// The session.
    pub session_id: SessionId,
    /// The position in the log; absent on deltas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// The position in the session's stream of frames.
    #[serde(skip)]
    pub frame: FrameId,
    /// When it happened.
    pub ts: Timestamp,
}

/// Declares the closed list of events once: the enum, the kinds, their names, the decoder.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($body:ty) = $wire:literal $class:ident;)*) => {
        /// What happened. Closed on purpose: a new kind does not compile until every door has
        /// found its word for it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $wire)] $name($body),)*
        }

        /// The kinds of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// Every kind, in the order of the schema.
            pub const ALL: &[EventKind] = &[$(EventKind::$name,)*];

            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(EventKind::$name => $wire,)* }
            }

            /// Finds a kind by its name on the wire.
            pub fn from_wire(name: &str) -> Option<Self> {
                match name { $($wire => Some(EventKind::$name),)* _ => None }
            }

            /// Tells who may see events of this kind.
            pub fn class(self) -> EventClass {
                match self { $(EventKind::$name => EventClass::$class,)* }
            }
        }

        impl EventBody {
            /// Returns the kind.
            pub fn kind(&self) -> EventKind {
                match self { $(EventBody::$name(_) => EventKind::$name,)* }
            }

            /// Encodes the fields alone, without `type`: the form of the log, where the kind is a
            /// column of its own.
            ///
            /// # Errors
            /// When a value has no JSON form; no event holds such a value.
            pub fn encode(&self) -> serde_json::Result<String> {
                match self { $(EventBody::$name(body) => serde_json::to_string(body),)* }
            }

            /// Decodes what [`EventBody::encode`] wrote.
            ///
            /// # Errors
            /// When the text is not a body of that kind, for example in a damaged log.
            pub fn decode(kind: EventKind, json: &str) -> serde_json::Result<Self> {
                match kind {
                    $(EventKind::$name => serde_json::from_str(json).map(EventBody::$name),)*
                }
            }
        }

        $(impl From<$body> for EventBody {
            fn from(body: $body) -> Self {
                EventBody::$name(body)
            }
        })*
    };
}

/// Who may see an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Recorded and shown by every door.
    Public,
    /// Recorded and shown by servers; `stream-json` leaves it out.
    Server,
    /// Recorded for the core alone.
    Internal,
    /// Live only.
    Delta,
}

events! {
    /// The session opens: its folder, model, mode and tools.
    SessionStart(SessionStart) = "session_start" Public;
    /// What the model is told before the transcript.
    ContextSet(ContextSet) = "context_set" Internal;
    /// The model is told something that no person said.
    ContextAdded(ContextAdded) = "context_added" Internal;
    /// A step begins: one model call.
    TurnStart(TurnStart) = "turn_start" Public;
    /// Live text.
    TextDelta(TextDelta) = "text_delta" Delta;
    /// Live thinking.
    ThinkingDelta(ThinkingDelta) = "thinking_delta" Delta;
    /// What the model answered, whole.
    AssistantMessage(AssistantMessage) = "assistant_message" Public;
    /// A call that passed the schema, with what it is about.
    ToolCall(ToolCall) = "tool_call" Public;
    /// A call with an effect is about to run. Whatever happens after this, it is not run again.
    ToolStarted(ToolStarted) = "tool_started" Internal;
    /// Tools that were found: the session is offered them from the next step on.
    ToolsActivated(ToolsActivated) = "tools_activated" Internal;
    /// Live output of a tool.
    ToolProgress(ToolProgress) = "tool_progress" Delta;
    /// What a call brought.
    ToolResult(ToolResult) = "tool_result" Public;
    /// A call that was not run.
    ToolDenied(ToolDenied) = "tool_denied" Public;
    /// The provider is in trouble and is asked again.
    Retry(Retry) = "retry" Public;
    /// Older messages were summarised.
    Compacted(Compacted) = "compacted" Public;
    /// The newest compaction was taken back.
    CompactionUndone(CompactionUndone) = "compaction_undone" Internal;
    /// The files were captured before a turn's first change.
    CheckpointMade(CheckpointMade) = "checkpoint" Public;
    /// What a turn left of the files.
    ChangesRecorded(ChangesRecorded) = "changes_recorded" Internal;
    /// Somebody went back.
    Rewound(Rewound) = "rewound" Internal;
    /// What one model call used.
    Usage(UsageEvent) = "usage" Public;
    /// Something a person should know.
    Notice(Notice) = "notice" Public;
    /// The mode changed.
    ModeChanged(ModeChanged) = "mode_changed" Public;
    /// The model changed.
    ModelChanged(ModelChanged) = "model_changed" Public;
    /// A call waits for a person.
    PermissionRequest(PermissionRequest) = "permission_request" Public;
    /// A question waits for a person.
    QuestionRequest(QuestionRequest) = "question_request" Public;
    /// A plan waits for approval.
    PlanRequest(PlanRequest) = "plan_request" Public;
    /// An interaction was decided.
    RequestResolved(RequestResolved) = "request_resolved" Public;
    /// A prompt waits for its turn.
    PromptQueued(PromptQueued) = "prompt_queued" Server;
    /// A prompt's turn begins.
    PromptStarted(PromptStarted) = "prompt_started" Server;
    /// A prompt's turn is over; the last event that it causes.
    PromptFinished(PromptFinished) = "prompt_finished" Server;
    /// Title or state changed.
    SessionUpdated(SessionUpdated) = "session_updated" Server;
    /// The session was closed.
    SessionClosed(SessionClosed) = "session_closed" Server;
    /// The turn is over. Exactly one per turn.
    Done(Done) = "done" Public;
}

/// What one model call used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageEvent {
    /// The tokens.
    #[serde(flatten)]
    pub usage: Usage,
    /// The price in US dollars; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the call was for, where it was no step of the turn: `compaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}
