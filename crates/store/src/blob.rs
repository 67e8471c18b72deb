//! Large bodies: files named by the hash of their contents.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// What stands before the hash in a row.
const PREFIX: &str = "sha256:";
/// Half-written files older than this are what a dead process left.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// The SHA-256 of a body, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlobHash(String);

impl BlobHash {
    /// Hashes contents.
    pub(crate) fn of(contents: &[u8]) -> Self {
        Self(hex(&Sha256::digest(contents)))
    }

    /// Reads the name that stands in a row.
    pub(crate) fn from_reference(text: &str) -> Option<Self> {
        text.strip_prefix(PREFIX).and_then(Self::from_hex)
    }

    /// Reads a hash in hex.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let is_hash = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_hash.then(|| Self(text.to_owned()))
    }

    /// Returns the name that stands in a row.
    pub(crate) fn reference(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// Returns the hash in hex.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _done = write!(text, "{byte:02x}");
        text
    })
}

/// Creates a folder and its parents, readable by their owner alone.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The folder of large bodies.
#[derive(Debug)]
pub(crate) struct Blobs {
    root: PathBuf,
    written: AtomicU64,
}

impl Blobs {
    /// Names the folder; it is created with the first file.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, written: AtomicU64::new(0) }
    }

    /// Writes contents durably. What is there already is written again: that costs little, and
    /// mends a damaged file.
    pub(crate) fn write(&self, hash: &BlobHash, contents: &[u8]) -> io::Result<()> {
        let unfinished = self.root.join("unfinished");
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let target = self.path(hash);
        let folder = target.parent().unwrap_or(&self.root);
        if number == 0 {
            create_folder(&unfinished)?;
            remove_leftovers(&unfinished);
        }
        let is_new_folder = !folder.exists();
        create_folder(folder)?;
        let name = format!("{}-{}-{number}", hash.as_str(), std::process::id());
        let temporary = unfinished.join(name);
        let write = || {
            let mut options = File::options();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(contents)?;
            file.sync_all()?;
            fs::rename(&temporary, &target)
        };
        if let Err(error) = write() {
            // The first error is the one to tell; a leftover is removed later.
            let _removed = fs::remove_file(&temporary);
            return Err(error);
        }
        sync_folder(folder)?;
        if is_new_folder {
            sync_folder(&self.root)?;
        }
        Ok(())
    }

    /// Tells whether a file is there, without reading it.
    pub(crate) fn contains(&self, hash: &BlobHash) -> bool {
        self.path(hash).exists()
    }

    /// Reads a file and checks that it is what its name says. A missing or changed file is none.
    ///
    /// # Errors
    /// When the system does not let us read what may well be whole.
    pub(crate) fn read(&self, hash: &BlobHash) -> io::Result<Option<String>> {
        match fs::read(self.path(hash)) {
            Ok(bytes) if BlobHash::of(&bytes) == *hash => Ok(String::from_utf8(bytes).ok()),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file; one that is not there is fine.
    pub(crate) fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        match fs::remove_file(self.path(hash)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, hash: &BlobHash) -> PathBuf {
        let (folder, name) = hash.as_str().split_at_checked(2).unwrap_or(("", hash.as_str()));
        self.root.join(folder).join(name)
    }
}

/// Removes what processes left that died while they wrote.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let is_old = modified
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|elapsed| elapsed > LEFTOVER_AGE));
        if is_old {
            // Another process may have been faster.
            let _removed = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        let hash = BlobHash::of(b"contents");
        blobs.write(&hash, b"contents").unwrap();
        assert_eq!(blobs.read(&hash).unwrap().unwrap(), "contents");
        assert_eq!(BlobHash::from_reference(&hash.reference()), Some(hash.clone()));
        fs::write(blobs.path(&hash), b"c0ntents").unwrap();
        assert_eq!(blobs.read(&hash).unwrap(), None);
        blobs.write(&hash, b"contents").unwrap();
        assert_eq!(blobs.read(&hash).unwrap().unwrap(), "contents");
        blobs.remove(&hash).unwrap();
        blobs.remove(&hash).unwrap();
        assert!(!blobs.contains(&hash));
        assert_eq!(blobs.read(&hash).unwrap(), None);
    }

    #[test]
    fn names_from_a_damaged_row_reach_no_other_file() {
        assert_eq!(BlobHash::from_reference("sha256:../../etc/passwd"), None);
        assert_eq!(BlobHash::from_reference("../../etc/passwd"), None);
    }
}
