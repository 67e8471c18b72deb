//! Events of compactions: what the model reads in place of older messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Seq;

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
    /// The last position that the summary stands for.
    #[serde(default)]
    pub through: Seq,
    /// The prompt that is kept word for word after the summary, where it lies before `through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Seq>,
    /// What the model reads in place of everything up to `through`.
    #[serde(default)]
    pub summary: String,
    /// Whether the summary was put together without a model, because none could write it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mechanical: bool,
}

/// The newest compaction was taken back: the model reads the original messages again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionUndone {
    /// Where the compaction was recorded.
    pub compaction: Seq,
    /// Tokens after it.
    pub after: u64,
}
