//! What may happen to a session, as values. Outcomes of effects are commands too.

use protocol::event::{
    Answer, DecidedBy, DeniedBy, Notice, PermissionRequest, SessionEnd, ToolCall, ToolDenied,
    ToolResult,
};
use protocol::{
    Block, MessageId, Mode, PromptId, RequestId, StopReason, ToolCallId, TurnEnd, Usage,
};

/// A whole answer of the model, its call ids already unique.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelAnswer {
    pub(crate) message_id: MessageId,
    pub(crate) content: Vec<Block>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) cost_usd: Option<f64>,
}

/// Why and how a turn ends other than by the model's wish.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) reason: TurnEnd,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    /// What the model had said when it was cut, with the id of the message it becomes.
    pub(crate) partial: Option<(MessageId, String)>,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Record what the model is told before the transcript.
    SetContext { system: String },
    /// A prompt came; `message_id` is what it becomes when it starts at once.
    Prompt { prompt_id: PromptId, message_id: MessageId, content: Vec<Block>, steps_max: u32 },
    /// The oldest waiting prompt begins; its content was read from the log.
    TakeNext { message_id: MessageId, content: Vec<Block>, steps_max: u32 },
    /// Go on: the next step, or the end of the turn.
    Advance,
    /// The model answered.
    Answered(ModelAnswer),
    /// The model call failed and is tried again.
    Retry { attempt: u32, delay_ms: u64, reason: String, partial_text: String },
    /// A call passed the schema.
    Describe(ToolCall),
    /// A described call waits for a person.
    Ask(PermissionRequest),
    /// A person, the clock or a stop decided.
    Resolve { request: RequestId, answer: Answer, by: DecidedBy, rule: Option<String> },
    /// A described call is refused.
    Deny(ToolDenied),
    /// A described or allowed call is about to run.
    Start { call: ToolCallId },
    /// A call brought something, or was found wrong before it ran.
    Finish(ToolResult),
    /// End the running turn; calls that are not over get a truthful result.
    End(Ending),
    /// Throw the waiting prompts away.
    ClearQueue,
    /// Change the mode.
    SetMode(Mode),
    /// Change the model.
    SetModel(String),
    /// Tell people something.
    Notify(Notice),
    /// Let go of the session.
    Close(SessionEnd),
}

/// Returns the denial of a call that a person, the clock or a stop said no to.
pub(crate) fn denial_by(by: DecidedBy) -> DeniedBy {
    match by {
        DecidedBy::Client | DecidedBy::Interrupt => DeniedBy::User,
        DecidedBy::Timeout => DeniedBy::Timeout,
        DecidedBy::Policy => DeniedBy::Policy,
    }
}
