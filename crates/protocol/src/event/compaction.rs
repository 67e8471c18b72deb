//! The event of a compaction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Older messages were summarised. The log keeps them; this only changes what the model reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    /// Tokens before.
    pub before: u64,
    /// Tokens after.
    pub after: u64,
    /// Whether Narthex decided it, not a person.
    pub automatic: bool,
}
