//! Events about the session itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Effect, Mode, NeuronId, SessionId, SessionSandbox};

/// The session opens. First event of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStart {
    /// The working folder, with symbolic links resolved.
    pub cwd: String,
    /// The model, `provider/model`.
    pub model: String,
    /// The permission mode.
    pub mode: Mode,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The session that this one was forked or imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Rules of the session that allow calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules of the session that deny calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The session's own text after the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// The neuron that it acts in; `cwd` is a folder inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neuron: Option<NeuronId>,
    /// What keeps the session apart, where that neuron is its own, made over `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SessionSandbox>,
    /// Effects that are asked for, whatever the mode and the session's own rules allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks_for: Vec<Effect>,
    /// The most steps of a prompt that says nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

/// What the model is told before the transcript. Recorded once, so that the prefix of every
/// request stays the same bytes over restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSet {
    /// The system prompt.
    pub system: String,
}

/// The model is told something that no person said: the words of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextAdded {
    /// Where it comes from, for example `hook Stop`.
    pub source: String,
    /// What the model reads.
    pub text: String,
    /// Whether the turn, which was about to end, goes on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// The mode changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeChanged {
    /// The new mode.
    pub mode: Mode,
}

/// The model changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelChanged {
    /// The new model.
    pub model: String,
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Worth attention.
    Warn,
    /// Something failed.
    Error,
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// How loud.
    pub level: NoticeLevel,
    /// A stable code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// One or two sentences.
    pub message: String,
}

/// Title or state changed; only what changed is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdated {
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Why a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// Its owner let go of it.
    Closed,
    /// It was deleted.
    Deleted,
    /// The program stopped.
    Shutdown,
}

/// The session was closed cleanly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionClosed {
    /// Why.
    pub reason: SessionEnd,
}
