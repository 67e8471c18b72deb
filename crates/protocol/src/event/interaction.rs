//! Events about interactions: durable pauses that only an answer ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Persist;
use crate::{Effect, Finding, Mode, RequestId, Risk, Target, Timestamp, ToolCallId};

/// A call waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// The interaction.
    pub request_id: RequestId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: String,
    /// What it may do; also in `target`.
    pub effect: Effect,
    /// What it is about.
    pub target: Target,
    /// The arguments.
    pub input: Map<String, Value>,
    /// Rules that would allow this and similar calls, narrowest first.
    pub suggested_rules: Vec<String>,
    /// How much a person should think.
    pub risk: Risk,
    /// Why it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it would run, and is asked for only because such calls are reviewed in this
    /// session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
    /// The change as a unified diff, where it can be told beforehand; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What checks found; none of it blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Finding>,
    /// When it becomes a denial; null when it waits for ever.
    pub expires_at: Option<Timestamp>,
}

/// An option of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// What an answer names.
    pub id: String,
    /// What people read.
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a question is about when it is not the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseKind {
    /// A budget is used up: go on, or end the turn.
    Budget,
    /// The model goes round in circles: go on, or end the turn.
    Repetition,
}

/// A question waits for a person: the model's own, or one of the runtime's about the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRequest {
    /// The interaction.
    pub request_id: RequestId,
    /// The call that asks; absent where the runtime does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// What the runtime asks about; absent where the model asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<PauseKind>,
    /// The question.
    pub question: String,
    /// The options; an answer names their ids.
    pub options: Vec<QuestionOption>,
    /// Whether several may be chosen.
    pub multi_select: bool,
    /// Whether words of one's own are an answer too.
    pub allow_other: bool,
    /// When it is dismissed; null when it waits for ever.
    pub expires_at: Option<Timestamp>,
}

/// A plan waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanRequest {
    /// The interaction.
    pub request_id: RequestId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The plan, in Markdown.
    pub plan: String,
    /// When it is rejected; null when it waits for ever.
    pub expires_at: Option<Timestamp>,
}

/// The kinds of interactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InteractionKind {
    /// May this call run?
    Permission,
    /// A question of the model.
    Question,
    /// A plan to approve.
    Plan,
}

impl InteractionKind {
    /// Returns the kind as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            InteractionKind::Permission => "permission",
            InteractionKind::Question => "question",
            InteractionKind::Plan => "plan",
        }
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Allowed this once.
    AllowOnce,
    /// Allowed with a rule.
    AllowAlways,
    /// Denied.
    Deny,
    /// The question was answered.
    Answered,
    /// The question was dismissed.
    Dismissed,
    /// The plan was approved.
    Approved,
    /// The plan was rejected.
    Rejected,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A person or program at a door.
    Client,
    /// The clock.
    Timeout,
    /// A stop.
    Interrupt,
    /// A policy.
    Policy,
}

/// An interaction was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestResolved {
    /// The interaction.
    pub request_id: RequestId,
    /// Its kind.
    pub kind: InteractionKind,
    /// What was decided.
    pub outcome: Outcome,
    /// Who decided.
    pub by: DecidedBy,
    /// The rule that was allowed for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persist: Option<Persist>,
    /// The ids of the chosen options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// Words that came with the answer: feedback, or an answer of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The mode that a plan was approved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}
