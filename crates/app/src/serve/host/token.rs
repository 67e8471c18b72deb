//! The token of a socket: from a file that nobody else reads, or an inherited descriptor.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use door_cli::Failure;
use stdx::Secret;
use tokio::time::timeout;

/// The fewest characters of a token: fewer are guessed.
const CHARS_MIN: usize = 16;

/// The most bytes of a token, with white space around it.
const BYTES_MAX: u64 = 4096;

/// How long the other end of a descriptor may take to write the token and close.
const DESCRIPTOR_WAIT: Duration = Duration::from_secs(10);

/// Permission bits of others.
const OTHERS: u32 = 0o077;

/// Reads the token from a file.
///
/// # Errors
/// For a file that is not the user's, or that others may read.
pub(super) fn of_file(path: &Path) -> Result<Secret<String>, Failure> {
    let shown = path.display();
    let wrong = |what: String| Failure::usage(format!("--token-file {shown}: {what}"));
    // A link could be put to another file between the look and the reading.
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(|error| wrong(error.to_string()))?;
    let facts = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !facts.is_file() {
        return Err(wrong("it is no regular file".to_owned()));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("it is not yours: the token could be another's".to_owned()));
    }
    let mode = facts.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(wrong(format!("its mode is {mode:04o}, others could use it: chmod 600 it")));
    }
    read(&mut file).map_err(wrong)
}

/// Reads the token from a descriptor that was inherited, to its end.
///
/// # Errors
/// When there is none, or nothing comes.
pub(super) async fn of_descriptor(number: u32) -> Result<Secret<String>, Failure> {
    let wrong = move |what: String| Failure::usage(format!("--token-fd {number}: {what}"));
    let reading = tokio::task::spawn_blocking(move || {
        let path = format!("/dev/fd/{number}");
        let mut file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        read(&mut file)
    });
    match timeout(DESCRIPTOR_WAIT, reading).await {
        Ok(read) => read.map_err(|error| Failure::failed(error.to_string()))?.map_err(wrong),
        Err(_) => Err(wrong("it was not written to its end in ten seconds".to_owned())),
    }
}

fn read(from: &mut impl Read) -> Result<Secret<String>, String> {
    let mut bytes = Vec::new();
    from.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let right = format!("expected {CHARS_MIN} to {BYTES_MAX} visible ASCII characters");
    if bytes.len() as u64 > BYTES_MAX {
        return Err(right);
    }
    let text = String::from_utf8(bytes).map_err(|_| right.clone())?;
    let token = text.trim();
    if token.len() < CHARS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(right);
    }
    Ok(Secret::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_read_that_nobody_else_can_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        for (mode, is_right) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(of_file(&path).is_ok(), is_right, "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(of_file(&path).unwrap().expose(), "0123456789abcdef");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(of_file(&link).is_err() && of_file(folder.path()).is_err());
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        for wrong in ["", "short", "sixteen chars ok", "sixteen-chärs-ok-ok", &"x".repeat(5_000)] {
            let problem = read(&mut wrong.as_bytes()).unwrap_err();
            assert!(wrong.is_empty() || !problem.contains(wrong), "{problem}");
        }
    }
}
