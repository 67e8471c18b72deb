//! The file that holds the whole of a long output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The most bytes of one output that are kept.
pub(super) const SPILL_BYTES_MAX: u64 = 64 << 20;

/// The most bytes that a session's folder holds when another output is added: four of the longest.
/// A model looks at its latest outputs; a session that runs for weeks must not fill the disk.
const FOLDER_BYTES_MAX: u64 = 256 << 20;

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 128 * 1024;

/// Characters of a call's id that its file's name keeps.
const NAME_CHARS_MAX: usize = 48;

/// The last line of a file that does not hold everything.
const CUT_MARK: &str = "\n[the output went on; only the first 64 MiB were kept]\n";

/// What became of the file.
#[derive(Debug)]
pub(super) struct Spilled {
    /// Where it is, if it is.
    pub(super) path: Option<PathBuf>,
    /// What the model should know about it.
    pub(super) note: Option<String>,
}

/// A file that is made when the first text comes. A disk that fails ends the keeping, not the
/// command.
#[derive(Debug)]
pub(super) struct Spill {
    path: PathBuf,
    file: Option<File>,
    buffer: String,
    written: u64,
    is_cut: bool,
    error: Option<io::Error>,
}

impl Spill {
    /// Prepares a file in `folder` for a call. Nothing is made yet.
    pub(super) fn new(folder: &Path, call: &str) -> Self {
        Self {
            path: folder.join(file_name(call)),
            file: None,
            buffer: String::new(),
            written: 0,
            is_cut: false,
            error: None,
        }
    }

    /// Adds text.
    pub(super) async fn push(&mut self, text: &str) {
        if self.is_cut || self.error.is_some() {
            return;
        }
        let used = self.written + self.buffer.len() as u64 + CUT_MARK.len() as u64;
        let room = usize::try_from(SPILL_BYTES_MAX.saturating_sub(used)).unwrap_or(usize::MAX);
        let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.buffer.push_str(kept);
        if kept.len() < text.len() {
            self.is_cut = true;
            self.buffer.push_str(CUT_MARK);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.write().await;
        }
    }

    /// Writes what is left.
    pub(super) async fn finish(mut self) -> Spilled {
        self.write().await;
        match self.error {
            Some(error) => Spilled {
                path: None,
                note: Some(format!("… the whole output could not be kept: {error} …")),
            },
            None => Spilled {
                path: Some(self.path),
                note: self.is_cut.then(|| {
                    let limit = stdx::bytes(SPILL_BYTES_MAX);
                    format!("… the output is larger: the file has only its first {limit} …")
                }),
            },
        }
    }

    /// Writes the buffer on a thread that may block, and takes it back for the next texts.
    async fn write(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if self.error.is_some() || buffer.is_empty() {
            return;
        }
        let (file, path) = (self.file.take(), self.path.clone());
        let written = tokio::task::spawn_blocking(move || {
            let mut file = match file {
                Some(file) => file,
                None => create(&path)?,
            };
            file.write_all(buffer.as_bytes())?;
            let length = buffer.len() as u64;
            buffer.clear();
            Ok((file, buffer, length))
        });
        match written.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((file, buffer, length)) => {
                self.file = Some(file);
                self.buffer = buffer;
                self.written += length;
            }
            Err(error) => self.error = Some(error),
        }
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
        // The new file may become as large as any.
        make_room(folder, FOLDER_BYTES_MAX - SPILL_BYTES_MAX)?;
    }
    // Output may hold secrets of the person who runs the command: nobody else reads it.
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Removes the oldest files of a folder until the rest has no more than `bytes_max`. Looked at
/// once for each long output, so that short ones cost nothing. Outputs that other calls write
/// meanwhile have the newest files and may exceed it, each by its own limit.
fn make_room(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Another call may have removed it since.
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_file() {
            files.push((facts.modified().ok(), entry.path(), facts.len()));
        }
    }
    let mut total: u64 = files.iter().map(|(_, _, length)| length).sum();
    files.sort();
    for (_, path, length) in files {
        if total <= bytes_max {
            break;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => total = total.saturating_sub(length),
        }
    }
    Ok(())
}

/// Makes a file's name of a call's id, whatever characters a provider put into it.
fn file_name(call: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
    let plain: String = call.chars().filter(is_plain).take(NAME_CHARS_MAX).collect();
    let digest = Sha256::digest(call.as_bytes());
    let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{plain}-{digest}.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let start = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        for (age, name) in ["d", "b", "c", "a"].iter().enumerate() {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            let age = std::time::Duration::from_secs(age as u64 * 60);
            file.set_modified(start - age).unwrap();
        }
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names.join(" ")
        };
        make_room(folder.path(), 400).unwrap();
        assert_eq!(names(), "a b c d folder", "what fits stays");
        make_room(folder.path(), 399).unwrap();
        assert_eq!(names(), "b c d folder");
        make_room(folder.path(), 100).unwrap();
        assert_eq!(names(), "d folder");
    }

    #[tokio::test]
    async fn a_new_file_finds_room_in_a_full_folder() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old.txt");
        // Sparse: it takes no room on the disk of a test.
        File::create(&old).unwrap().set_len(FOLDER_BYTES_MAX).unwrap();
        let mut spill = Spill::new(folder.path(), "call_1");
        spill.push("text").await;
        assert!(old.exists(), "nothing is removed before there is something to keep");
        let spilled = spill.finish().await;
        assert_eq!(std::fs::read_to_string(spilled.path.unwrap()).unwrap(), "text");
        assert!(!old.exists());
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        assert_eq!(file_name("call_1"), "call_1-74196fe7.txt");
        assert!(file_name("../x").starts_with("x-") && file_name("x") != file_name("../x"));
    }
}
