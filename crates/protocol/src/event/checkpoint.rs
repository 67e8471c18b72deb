//! Events about files as they were, and about going back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckpointId, MessageId, Seq, Timestamp, TreeId};

/// A checkpoint for people: the files before a turn's first change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
    /// The message of the prompt whose turn came after it.
    pub message_id: MessageId,
    /// What the turn was about, for people.
    pub label: String,
    /// How many entries the captured tree has.
    pub files: u64,
}

/// The files were captured before a turn's first change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointMade {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The captured tree.
    pub tree: TreeId,
    /// What is not in it, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What a turn left: the tree after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesRecorded {
    /// The checkpoint before it.
    pub checkpoint_id: CheckpointId,
    /// The tree after it; absent where the turn was cut and nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// How many paths differ.
    pub paths: u64,
}

/// What a person went back in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewindScope {
    /// Conversation and files.
    Both,
    /// The conversation alone.
    Conversation,
    /// The files alone.
    Files,
}

/// Somebody went back. The log keeps everything; this only changes what the model reads and which
/// changes count as undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rewound {
    /// The checkpoint gone back to.
    pub checkpoint_id: CheckpointId,
    /// In what.
    pub scope: RewindScope,
    /// The first position that the model reads no more; absent where the conversation stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Seq>,
    /// Whether only the newest change set was taken back (`undo`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The paths that hold their older state again; at most 1,000 are named.
    pub files_changed: Vec<String>,
    /// The paths that were left as they are, with the reason; at most 1,000 are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_kept: Vec<String>,
    /// How many messages the model reads no more.
    pub messages_removed: u64,
}
