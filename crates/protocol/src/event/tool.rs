//! Events about tool calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Block, Effect, Target, ToolCallId};

/// A call that passed the schema, with what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's native name.
    pub tool_name: String,
    /// The arguments.
    pub input: Map<String, Value>,
    /// What it is about.
    pub target: Target,
}

/// A call with an effect is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStarted {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// What it may do.
    pub effect: Effect,
}

/// Tools that the model asked for by name or that a search found: the session is offered them
/// from the next step on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsActivated {
    /// Their names, in the order in which they were found.
    pub names: Vec<String>,
}

/// A stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Live output of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolProgress {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The piece.
    pub text: String,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<OutputStream>,
}

/// The contents of a file as a tool saw or left them: a fact that later edits are held against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStamp {
    /// The real path.
    pub path: String,
    /// The first 32 hexadecimal digits of the SHA-256 of the contents; absent when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What people are shown beside a result; the model does not read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Display {
    /// Changes to files as a unified diff.
    Diff {
        /// The diff, at most 64 KiB.
        diff: String,
        /// Lines added.
        added: u32,
        /// Lines removed.
        removed: u32,
    },
    /// The end of a command.
    Exit {
        /// Its exit code, where it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// A short fact, for example `120 lines`.
    Note {
        /// The fact.
        text: String,
    },
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's native name.
    pub tool_name: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// What the model reads: text, at most 30,000 characters, and images.
    pub output: Vec<Block>,
    /// Whether `output` leaves something out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The file with the whole output, where `output` leaves something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What people are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
    /// The files that the call saw or left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileStamp>,
}

/// Who refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// A deny rule.
    Rule,
    /// A person.
    User,
    /// A managed or pushed policy.
    Policy,
    /// Nobody answered in time.
    Timeout,
    /// The mode.
    Mode,
    /// A checks finding.
    Checks,
    /// The embedding host.
    Host,
    /// A hook.
    Hook,
    /// A budget.
    Budget,
    /// It had to be asked for and nobody could be asked.
    Nobody,
}

/// A call that was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolDenied {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name.
    pub tool_name: String,
    /// Why, as the model is told.
    pub reason: String,
    /// Who refused it.
    pub by: DeniedBy,
}
