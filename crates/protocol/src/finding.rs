//! What a check found in a pending change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule of the check that it breaks.
    pub rule_id: String,
    /// How bad it is, in the check's own words, for example `error`.
    pub severity: String,
    /// What was found.
    pub message: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it refuses the call, whatever any answer says.
    #[serde(default)]
    pub blocking: bool,
}
