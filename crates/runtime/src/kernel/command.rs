//! What may happen to a session, as values. Outcomes of effects are commands too.

use protocol::event::{
    Answer, ChangesRecorded, CheckpointMade, Compacted, ContextAdded, DecidedBy, DeniedBy, Notice,
    PromptOptions, QuestionRequest, Rewound, SessionEnd, ToolCall, ToolDenied, ToolResult,
};
use protocol::{
    Block, EventBody, MessageId, Mode, PromptId, RequestId, StopReason, ToolCallId, TurnEnd, Usage,
};
use serde_json::Value;

/// A whole answer of the model, its call ids already unique.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelAnswer {
    pub(crate) message_id: MessageId,
    pub(crate) content: Vec<Block>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) model: String,
}

/// A decision about an interaction, already checked against what was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) request: RequestId,
    pub(crate) answer: Answer,
    pub(crate) by: DecidedBy,
    /// The rule of an "always".
    pub(crate) rule: Option<String>,
    /// What the model reads in answer to a question or plan.
    pub(crate) told: String,
    /// Whether an embedding application decided.
    pub(crate) is_host: bool,
}

/// Why and how a turn ends other than by the model's wish.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) reason: TurnEnd,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    /// What the model had said when it was cut, with the id of the message it becomes.
    pub(crate) partial: Option<(MessageId, String)>,
    /// The text of the turn, in place of the model's last answer: what a slash command says.
    pub(crate) text: Option<String>,
    /// What the last answer says in the format that was asked for.
    pub(crate) structured: Option<Value>,
}

/// A prompt that begins or waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewPrompt {
    pub(crate) prompt_id: PromptId,
    /// What it becomes when it starts.
    pub(crate) message_id: MessageId,
    pub(crate) content: Vec<Block>,
    pub(crate) steps_max: u32,
    /// The slash command that it is.
    pub(crate) command: Option<String>,
    /// The steps that it asks for, where it waits; `steps_max` is what it gets where it begins.
    pub(crate) max_turns: Option<u32>,
    /// What else it asks for, checked.
    pub(crate) options: PromptOptions,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Record what the model is told before the transcript.
    SetContext { system: String },
    /// A prompt came; `message_id` is what it becomes when it starts at once.
    Prompt(NewPrompt),
    /// The oldest waiting prompt begins; its content was read from the log.
    TakeNext(NewPrompt),
    /// Go on: the next step, or the end of the turn.
    Advance,
    /// The model answered.
    Answered(ModelAnswer),
    /// The model call failed and is tried again.
    Retry { attempt: u32, delay_ms: u64, reason: String, partial_text: String },
    /// A call passed the schema.
    Describe(ToolCall),
    /// A call waits for a person: a described one with a permission, question or plan request, or
    /// one that runs with a question.
    Ask(EventBody),
    /// The whole turn waits for a person.
    Pause(QuestionRequest),
    /// A person, the clock or a stop decided.
    Resolve(Decided),
    /// A described call is refused.
    Deny(ToolDenied),
    /// A described or allowed call is about to run.
    Start { call: ToolCallId },
    /// A call brought something, or was found wrong before it ran.
    Finish(ToolResult),
    /// Offer the session further tools; those that it has are passed over.
    Activate { names: Vec<String> },
    /// End the running turn; calls that are not over get a truthful result.
    End(Ending),
    /// Throw the waiting prompts away.
    ClearQueue,
    /// Throw one waiting prompt away; nothing when it does not wait.
    Unqueue(PromptId),
    /// Change the mode.
    SetMode(Mode),
    /// Change the model.
    SetModel(String),
    /// Tell the model something that no person said.
    AddContext(ContextAdded),
    /// A model call that was no step used something.
    Spent { usage: Usage, cost_usd: Option<f64>, model: String, purpose: String },
    /// Older messages were summarised.
    Compact(Compacted),
    /// Take the newest compaction back; `after` is the size in tokens then.
    Uncompact { after: u64 },
    /// The files were captured before the turn's first change.
    Checkpoint(CheckpointMade),
    /// What a turn left was captured, or given up.
    RecordChanges(ChangesRecorded),
    /// Somebody went back.
    Rewind(Rewound),
    /// Tell people something.
    Notify(Notice),
    /// Let go of the session.
    Close(SessionEnd),
}

/// Returns the denial of a call that a person, an embedding application, the clock or a stop said
/// no to.
pub(crate) fn denial_by(by: DecidedBy, is_host: bool) -> DeniedBy {
    match by {
        DecidedBy::Client if is_host => DeniedBy::Host,
        DecidedBy::Client | DecidedBy::Interrupt => DeniedBy::User,
        DecidedBy::Timeout => DeniedBy::Timeout,
        DecidedBy::Policy => DeniedBy::Policy,
    }
}
