//! Checkpoints: a workspace's files as they were, and the way back.

use std::fmt::Debug;
use std::path::PathBuf;

use async_trait::async_trait;
use protocol::{SessionId, TreeId};

use crate::Fault;

/// A captured tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The tree. Equal trees have equal ids.
    pub tree: TreeId,
    /// How many entries it has.
    pub files: u64,
    /// What is there and not in the tree, one sentence each, for people; at most 16.
    pub left_out: Vec<String>,
}

/// What became of a path between two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Its contents, kind, link target or permissions are others.
    Modified,
    /// It is not there any more.
    Removed,
}

/// A path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path, absolute.
    pub path: String,
    /// What became of it.
    pub kind: ChangeKind,
    /// Whether the older state can be brought back; a file that was too large to keep cannot.
    pub is_restorable: bool,
}

/// What one turn did to the files: the trees before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// Before the turn's first change.
    pub before: TreeId,
    /// When the turn was over; none where it was cut and nobody looked. Its paths are then
    /// restored only when [`Restore::is_forced`].
    pub after: Option<TreeId>,
}

/// What to bring back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The session whose trees these are.
    pub session: SessionId,
    /// The roots of its workspace.
    pub roots: Vec<PathBuf>,
    /// The change sets to take back, newest first: a path is followed from the first set that
    /// changed it to the last, as long as each set finds what the one before it left.
    pub sets: Vec<ChangeSet>,
    /// Whether paths that hold something else than the turn left are brought back as well.
    pub is_forced: bool,
    /// Whether to look only.
    pub is_dry: bool,
}

/// A path that was not brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The path, absolute.
    pub path: String,
    /// Why, as half a sentence: `changed since the turn left it`.
    pub why: String,
}

/// What was brought back, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The paths that hold their older state again (or would).
    pub changed: Vec<PathChange>,
    /// The paths that were left as they are.
    pub kept: Vec<Kept>,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The tree is not kept any more.
    #[error("the checkpoint {0} is not kept any more")]
    Gone(TreeId),
    /// The driver failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Keeps captured trees: manifests over content-addressed blobs.
#[async_trait]
pub trait Checkpoints: Send + Sync + Debug {
    /// Captures everything beneath the roots, as its rules say what is left out. Never blocks the
    /// caller's thread. An unchanged tree costs a look at each entry and no reading.
    ///
    /// # Errors
    /// [`CheckpointError::Fault`] when the tree cannot be read or kept, with what was in the way.
    async fn capture(
        &self,
        session: &SessionId,
        roots: &[PathBuf],
    ) -> Result<Captured, CheckpointError>;

    /// Lists what differs between two trees, in the order of the paths.
    ///
    /// # Errors
    /// [`CheckpointError::Gone`].
    async fn changes(
        &self,
        session: &SessionId,
        from: &TreeId,
        to: &TreeId,
    ) -> Result<Vec<PathChange>, CheckpointError>;

    /// Takes change sets back. Each path is written in one step; a failure in the middle leaves
    /// every path either as it was or restored, and both are named.
    ///
    /// # Errors
    /// [`CheckpointError::Gone`]: nothing is changed then.
    async fn restore(&self, restore: Restore) -> Result<Restored, CheckpointError>;

    /// Lets the session `to`, a copy of `from`, use every tree that `from` has; they outlive it.
    ///
    /// # Errors
    /// [`CheckpointError::Fault`].
    async fn adopt(&self, from: &SessionId, to: &SessionId) -> Result<(), CheckpointError>;

    /// Forgets every tree of a session and the blobs that only they needed.
    ///
    /// # Errors
    /// [`CheckpointError::Fault`].
    async fn forget(&self, session: &SessionId) -> Result<(), CheckpointError>;
}
