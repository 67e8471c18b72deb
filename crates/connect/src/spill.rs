//! The file that holds the whole of a long result.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The most bytes of one result that are kept.
const SPILL_BYTES_MAX: usize = 64 << 20;

/// The most bytes that a session's folder holds once a result was added: the native tools keep
/// the same measure in the same folder.
const FOLDER_BYTES_MAX: u64 = 256 << 20;

/// Characters of a call's id that its file's name keeps.
const NAME_CHARS_MAX: usize = 48;

/// Keeps a text in a folder and returns its file.
///
/// # Errors
/// What the disk said.
pub(crate) async fn keep(folder: &Path, call: &str, text: &str) -> io::Result<PathBuf> {
    let path = folder.join(file_name(call));
    let folder = folder.to_owned();
    let kept = text.get(..text.floor_char_boundary(SPILL_BYTES_MAX)).unwrap_or_default().to_owned();
    let file = path.clone();
    let written = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&folder)?;
        make_room(&folder, FOLDER_BYTES_MAX.saturating_sub(kept.len() as u64))?;
        // A result may hold secrets of the person whose server it came from.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file)?;
        file.write_all(kept.as_bytes())
    });
    written.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
    Ok(path)
}

/// Removes the oldest files until the rest has no more than `bytes_max`.
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
    files.sort();
    let mut total: u64 = files.iter().map(|(_, _, length)| length).sum();
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

    #[tokio::test]
    async fn a_result_is_kept_for_its_owner_alone_and_cannot_leave_the_folder() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = keep(&folder.path().join("new"), "../../x", "text").await.unwrap();
        assert_eq!(path.parent().unwrap(), folder.path().join("new"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let start = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        for (age, name) in ["new", "old"].iter().enumerate() {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(start - std::time::Duration::from_secs(age as u64)).unwrap();
        }
        make_room(folder.path(), 150).unwrap();
        assert!(folder.path().join("new").exists() && !folder.path().join("old").exists());
    }
}
