//! Files that settings and policies lie in.

use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::GovernError;

/// The largest settings file: people write some kilobytes, and a longer one is no such file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the text of a settings file of at most 1 MiB.
///
/// # Errors
/// Those of the system, and one for a file that is too large or no text.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        let limit = stdx::bytes(FILE_BYTES_MAX);
        return Err(std::io::Error::other(format!("it is larger than the limit of {limit}")));
    }
    Ok(text)
}

/// Writes a file that only its owner can read, in one step: whoever reads it meanwhile has the old
/// text or the new one. Makes its folder where that is missing.
///
/// # Errors
/// [`GovernError::Failed`], with the file.
pub fn write_private(path: &Path, text: &str) -> Result<(), GovernError> {
    let problem =
        |error: std::io::Error| GovernError::Failed(format!("write {}: {error}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(problem)?;
    // Made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(problem)?;
    file.write_all(text.as_bytes()).map_err(problem)?;
    file.as_file().sync_all().map_err(problem)?;
    file.persist(path).map_err(|error| problem(error.error))?;
    Ok(())
}
