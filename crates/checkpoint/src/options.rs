//! What one may set, and the limits.

use std::path::PathBuf;

/// The largest file whose contents are kept. Source files are far smaller; what is larger is
/// mostly data that a turn neither edits nor should cost a copy of.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The largest ignored file that is kept, where its folder is not ignored: settings such as
/// `.env`, which nothing else could bring back, are smaller; logs and objects are mostly larger.
const IGNORED_FILE_BYTES_MAX: u64 = 64 << 10;
/// How many entries a tree may have: above, a look at each costs a second per turn.
const ENTRIES_MAX: u64 = 200_000;
/// How many bytes a tree may have: above, the first copy takes the patience of a person.
const TREE_BYTES_MAX: u64 = 2 << 30;
/// How much all checkpoints together may take on disk before the oldest are dropped.
const KEPT_BYTES_MAX: u64 = 5 << 30;

/// How a [`Keeper`](crate::Keeper) is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder of all checkpoints; made, for its owner alone, where it is missing. It must not
    /// be shared with anything else.
    pub folder: PathBuf,
    /// Folders and files that are never captured, and never touched by a restore, forced or not:
    /// what the program itself keeps while turns run. A file stands for those beside it as well
    /// whose names go on with a dash, as databases have them. A folder that holds a root of the
    /// workspace does not count for it. The folder of the checkpoints need not be named.
    pub left_out: Vec<PathBuf>,
    /// The limits.
    pub limits: Limits,
}

impl Options {
    /// The usual limits, and nothing left out beside the folder itself.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), left_out: Vec::new(), limits: Limits::default() }
    }
}

/// What is kept, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest file whose contents are kept, in bytes; what is larger is noticed when it
    /// changes, and cannot be brought back.
    pub file_bytes_max: u64,
    /// The same for a file that git ignores, in a folder that it does not ignore.
    pub ignored_file_bytes_max: u64,
    /// How many entries a tree may have; above, capturing fails.
    pub entries_max: u64,
    /// How many bytes the kept files of a tree may have together; above, capturing fails.
    pub tree_bytes_max: u64,
    /// How many bytes all checkpoints together may take on disk; above, the oldest are dropped.
    pub kept_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes_max: FILE_BYTES_MAX,
            ignored_file_bytes_max: IGNORED_FILE_BYTES_MAX,
            entries_max: ENTRIES_MAX,
            tree_bytes_max: TREE_BYTES_MAX,
            kept_bytes_max: KEPT_BYTES_MAX,
        }
    }
}
