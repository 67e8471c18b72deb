//! The file in which the cortex door writes down how far sessions have been counted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use door_cortex::PlaceBook;

/// Bytes of the file: the places of all sessions that the door remembers, with room. What is longer
/// is none of ours.
const BYTES_MAX: u64 = 32 << 20;

/// The file. It is a cache: whoever removes it loses nothing but the time to count again.
#[derive(Clone, Debug)]
pub(super) struct PlacesFile(PathBuf);

impl PlacesFile {
    pub(super) fn beneath(home: &Path) -> Self {
        Self(home.join("cortex-places.json"))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        // For this user alone, as temporary files are.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(&self.0)?;
        Ok(())
    }
}

impl PlaceBook for PlacesFile {
    fn read(&self) -> Option<Vec<u8>> {
        let file = File::open(&self.0).ok()?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= BYTES_MAX).then_some(bytes)
    }

    fn write(&self, bytes: &[u8]) {
        if let Err(error) = self.replace(bytes) {
            tracing::warn!(%error, file = %self.0.display(), "write down the places of sessions");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_read() {
        let home = tempfile::tempdir().unwrap();
        let file = PlacesFile::beneath(home.path());
        assert_eq!(file.read(), None);
        for text in [&b"one"[..], b"two"] {
            file.write(text);
            assert_eq!(file.read().unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing else is left");
        File::create(&file.0).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert_eq!(file.read(), None, "what is too long is none of ours");
    }
}
