//! The folders beneath the home.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where each kind of file is kept.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// Large contents by their hash.
    pub(crate) blobs: PathBuf,
    /// Locks and sockets of living processes.
    pub(crate) run: PathBuf,
    /// Outputs that are too long for a model, a folder per session.
    pub(crate) spill: PathBuf,
    /// Captured files.
    pub(crate) checkpoints: PathBuf,
}

impl Folders {
    /// Creates the home, private to its owner. The folders beneath are made by whoever first
    /// writes into them.
    pub(crate) fn create(home: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        // The spill folder's name is judged by its real path.
        let home = home.canonicalize()?;
        let beneath = |name: &str| home.join(name);
        let (blobs, run, spill) = (beneath("blobs"), beneath("run"), beneath("spill"));
        Ok(Self { blobs, run, spill, checkpoints: beneath("checkpoints") })
    }
}
