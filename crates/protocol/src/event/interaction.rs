//! Events about interactions: durable pauses that only an answer ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Effect, RequestId, Risk, Target, Timestamp, ToolCallId};

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
    /// When it becomes a denial; null when it waits for ever.
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

/// An answer to a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Answer {
    /// This call may run.
    AllowOnce,
    /// This call may run, and all that the rule matches, for the rest of the session.
    AllowAlways {
        /// The rule; the narrowest suggestion where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It may not.
    Deny {
        /// Words for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
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
    /// The rule that was added to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
