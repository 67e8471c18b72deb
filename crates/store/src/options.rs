//! Where a store lives.

use std::path::PathBuf;

/// Where a store lives. Missing folders are created, readable by their owner alone.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database file. Files with the same name and an ending (`-wal`, `-shm`, `-lock` …) stand
    /// beside it.
    pub path: PathBuf,
    /// The folder of bodies that are too large for a row.
    pub blobs: PathBuf,
    /// The folder of lock files that tell who is alive; the same for every process that uses
    /// `path`, on a local disk.
    pub run: PathBuf,
}
