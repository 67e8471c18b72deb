//! The form in which settings and `.narthex/hooks.json` name hooks.

mod read;
#[cfg(test)]
mod tests;

use driver_api::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How many bytes a file of hooks may have. A hook takes a hundred or two.
pub const FILE_BYTES_MAX: usize = 256 << 10;

/// How many groups a moment may have, far more than anybody keeps in view.
const GROUPS_MAX: usize = 64;

/// How many hooks a group may have: each is a process per call.
const HOOKS_MAX: usize = 32;

/// How many bytes a matcher may have: the names of all tools fit several times.
const MATCHER_BYTES_MAX: usize = 1_024;

/// How many bytes a command may have. What is longer belongs into a script.
const COMMAND_BYTES_MAX: usize = 8 << 10;

/// How many seconds a hook may take where nothing else is said.
pub(crate) const TIMEOUT_DEFAULT: u64 = 60;

/// How many seconds a hook may be given: a turn waits for it, and so does a person.
pub(crate) const TIMEOUT_MAX: u64 = 600;

/// The hooks of one settings layer, by moment. Unknown keys are errors that name the nearest
/// known one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookSet {
    /// A session was opened. Matchers are held against `startup`, `resume` or `compact`.
    #[serde(rename = "SessionStart", skip_serializing_if = "Vec::is_empty")]
    pub session_start: Vec<HookGroup>,
    /// A prompt came, and no model has heard it yet. Matchers count for nothing.
    #[serde(rename = "UserPromptSubmit", skip_serializing_if = "Vec::is_empty")]
    pub user_prompt_submit: Vec<HookGroup>,
    /// A call is about to run. Matchers are held against the tool.
    #[serde(rename = "PreToolUse", skip_serializing_if = "Vec::is_empty")]
    pub pre_tool_use: Vec<HookGroup>,
    /// A call would be asked for. Matchers are held against the tool.
    #[serde(rename = "PermissionRequest", skip_serializing_if = "Vec::is_empty")]
    pub permission_request: Vec<HookGroup>,
    /// A call has run. Matchers are held against the tool.
    #[serde(rename = "PostToolUse", skip_serializing_if = "Vec::is_empty")]
    pub post_tool_use: Vec<HookGroup>,
    /// A person is wanted. Matchers are held against `permission_prompt`, `idle_prompt` or
    /// `question`.
    #[serde(rename = "Notification", skip_serializing_if = "Vec::is_empty")]
    pub notification: Vec<HookGroup>,
    /// A turn is about to end by the model's wish. Matchers count for nothing.
    #[serde(rename = "Stop", skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<HookGroup>,
    /// A child session's turn is about to end. Matchers count for nothing.
    #[serde(rename = "SubagentStop", skip_serializing_if = "Vec::is_empty")]
    pub subagent_stop: Vec<HookGroup>,
    /// A conversation is about to be summarised. Matchers are held against `auto` or `manual`.
    #[serde(rename = "PreCompact", skip_serializing_if = "Vec::is_empty")]
    pub pre_compact: Vec<HookGroup>,
}

/// Hooks that want to hear of the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookGroup {
    /// A regular expression over the whole name of the tool, native (`run_shell`) or as other
    /// hooks know it (`Bash`); empty or `*` for all.
    pub matcher: String,
    /// What is run, side by side.
    pub hooks: Vec<HookCommand>,
}

/// A command that is told of a moment on standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommand {
    /// What kind of hook it is.
    #[serde(rename = "type", default)]
    pub kind: HookKind,
    /// The command line, run by a shell in the working folder.
    #[schemars(length(min = 1, max = 8192))]
    pub command: String,
    /// How many seconds it may take.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout: u64,
}

/// The kinds of hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A command line.
    #[default]
    Command,
}

fn timeout_default() -> u64 {
    TIMEOUT_DEFAULT
}

/// What is wrong with a set of hooks, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct HookSetError {
    /// The place, for example `hooks.PreToolUse[0]`.
    pub at: String,
    /// What is wrong there.
    pub what: String,
}

impl HookSetError {
    pub(crate) fn new(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into() }
    }
}

impl HookSet {
    /// Reads a file of hooks: the map of moments, or an object whose one key `hooks` has it.
    ///
    /// # Errors
    /// More than [`FILE_BYTES_MAX`] bytes, no JSON, an unknown key or moment (with the nearest
    /// known one), a value of the wrong kind or over its limit, a matcher that does not compile.
    pub fn from_json(text: &str) -> Result<Self, HookSetError> {
        if text.len() > FILE_BYTES_MAX {
            let what = format!("{} bytes are more than {FILE_BYTES_MAX}", text.len());
            return Err(HookSetError::new("hooks", what));
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| HookSetError::new("hooks", format!("not JSON: {error}")))?;
        read::file(&value)
    }

    /// Reads the map of moments.
    ///
    /// # Errors
    /// As [`HookSet::from_json`].
    pub fn from_value(value: &Value) -> Result<Self, HookSetError> {
        read::set(value)
    }

    /// Returns the groups of a moment.
    pub fn groups(&self, moment: Moment) -> &[HookGroup] {
        match moment {
            Moment::SessionStart => &self.session_start,
            Moment::UserPromptSubmit => &self.user_prompt_submit,
            Moment::PreToolUse => &self.pre_tool_use,
            Moment::PermissionRequest => &self.permission_request,
            Moment::PostToolUse => &self.post_tool_use,
            Moment::Notification => &self.notification,
            Moment::Stop => &self.stop,
            Moment::SubagentStop => &self.subagent_stop,
            Moment::PreCompact => &self.pre_compact,
        }
    }

    fn groups_mut(&mut self, moment: Moment) -> &mut Vec<HookGroup> {
        match moment {
            Moment::SessionStart => &mut self.session_start,
            Moment::UserPromptSubmit => &mut self.user_prompt_submit,
            Moment::PreToolUse => &mut self.pre_tool_use,
            Moment::PermissionRequest => &mut self.permission_request,
            Moment::PostToolUse => &mut self.post_tool_use,
            Moment::Notification => &mut self.notification,
            Moment::Stop => &mut self.stop,
            Moment::SubagentStop => &mut self.subagent_stop,
            Moment::PreCompact => &mut self.pre_compact,
        }
    }

    /// Tells whether it has no hook at all.
    pub fn is_empty(&self) -> bool {
        let groups = Moment::ALL.into_iter().flat_map(|moment| self.groups(moment));
        groups.map(|group| group.hooks.len()).sum::<usize>() == 0
    }
}

impl<'de> Deserialize<'de> for HookSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By way of a value, because messages that name the place need to know it.
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}
