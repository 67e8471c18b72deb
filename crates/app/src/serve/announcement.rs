//! `server.json`: where the running server is and what lets one in, for programs of the same user.
//!
//! Whoever holds the lock beside it is the server that the file is about. The system drops the
//! lock when a process dies, however that comes, so that a file without it is a dead server's.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use door_cli::Failure;
use protocol::Timestamp;
use serde::{Deserialize, Serialize};

use crate::settings::write_private;

/// The largest file that is read: thousands of roots fit.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often the lock is tried: whoever only looks whether a server lives holds it for an instant.
const LOCK_TRIES_MAX: u32 = 10;
/// Between two of those, in milliseconds.
const LOCK_GAP_MS: u64 = 10;

/// What the file holds.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerRecord {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) started_at: Timestamp,
    pub(crate) roots: Vec<String>,
}

impl std::fmt::Debug for ServerRecord {
    // The token is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRecord")
            .field("url", &self.url)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl ServerRecord {
    /// Returns the port of the url.
    pub(crate) fn port(&self) -> Option<u16> {
        self.url.rsplit_once(':')?.1.parse().ok()
    }
}

/// Who a home folder's file is about.
#[derive(Debug)]
pub(crate) enum Claim {
    /// This process.
    Own(Announcement),
    /// Another server that lives, with what its file says where that can be read.
    Others(Option<ServerRecord>),
}

/// The right to write the file. The file goes with it.
#[derive(Debug)]
pub(crate) struct Announcement {
    path: PathBuf,
    /// Held until the end of the process at the latest.
    lock: File,
    is_written: bool,
}

/// Takes the right to write a home folder's file, unless a living server has it. What a dead
/// server left goes at once: from here on the lock would lend it life.
///
/// # Errors
/// When the lock cannot be made, or an old file cannot be taken away.
pub(crate) fn claim(home: &Path) -> Result<Claim, Failure> {
    let path = lock_path(home);
    let problem =
        |error: &dyn std::fmt::Display| Failure::usage(format!("lock {}: {error}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(|error| problem(&error))?;
    let lock = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| problem(&error))?;
    for _ in 0..LOCK_TRIES_MAX {
        match lock.try_lock() {
            Ok(()) => {
                let path = path_of(home);
                take_away_old(&path)?;
                return Ok(Claim::Own(Announcement { path, lock, is_written: false }));
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(LOCK_GAP_MS));
            }
            Err(TryLockError::Error(error)) => return Err(problem(&error)),
        }
    }
    Ok(Claim::Others(read(&path_of(home)).ok().flatten()))
}

fn take_away_old(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::usage(format!(
            "remove {}, which a server left that is gone: {error}",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the record of the home folder's server that lives.
pub(crate) fn running(home: &Path) -> Option<ServerRecord> {
    let record = read(&path_of(home)).ok().flatten()?;
    is_live(home).then_some(record)
}

/// Returns the record that the home folder holds, whoever wrote it.
///
/// # Errors
/// When it cannot be read; the text names the file.
pub(crate) fn kept(home: &Path) -> Result<Option<ServerRecord>, String> {
    read(&path_of(home))
}

/// Returns where a home folder's file is.
pub(crate) fn path_of(home: &Path) -> PathBuf {
    home.join("server.json")
}

fn lock_path(home: &Path) -> PathBuf {
    home.join("server.lock")
}

fn is_live(home: &Path) -> bool {
    let Ok(lock) = File::open(lock_path(home)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn read(path: &Path) -> Result<Option<ServerRecord>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("read {}: {error}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(problem(&error)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| problem(&error))?;
    // What is wrong is told without its text, which holds a token.
    let wrong = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        problem(&format!("it is not what narthex wrote (line {line}, column {column})"))
    };
    serde_json::from_str(&text).map(Some).map_err(wrong)
}

impl Announcement {
    /// Writes the file, in one step, readable for its owner alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&mut self, record: &ServerRecord) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record)
            .map_err(|error| Failure::failed(format!("write {}: {error}", self.path.display())))?;
        write_private(&self.path, &text)?;
        self.is_written = true;
        Ok(())
    }

    /// Returns where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file away, unless somebody else has put another in its place.
    fn withdraw(&mut self) {
        if !std::mem::take(&mut self.is_written) {
            return;
        }
        let is_ours = match read(&self.path) {
            Ok(Some(record)) => record.pid == std::process::id(),
            _ => false,
        };
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "remove the server's file");
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.withdraw();
        // The lock ends after the file has gone, so that nobody's new file is taken for ours.
        drop(self.lock.unlock());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn record(pid: u32) -> ServerRecord {
        ServerRecord {
            url: "http://127.0.0.1:7421".to_owned(),
            token: "a-very-secret-token".to_owned(),
            pid,
            version: "1.0.0".to_owned(),
            started_at: Timestamp(0),
            roots: vec!["/src".to_owned()],
        }
    }

    fn own(home: &Path) -> Announcement {
        match claim(home).unwrap() {
            Claim::Own(announcement) => announcement,
            Claim::Others(record) => panic!("nobody else is here: {record:?}"),
        }
    }

    #[test]
    fn the_file_is_private_and_goes_with_the_server() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().join("made");
        let mut announcement = own(&home);
        assert_eq!(running(&home), None, "nothing is written yet");
        announcement.write(&record(std::process::id())).unwrap();
        let mode = fs::metadata(announcement.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(running(&home).and_then(|record| record.port()), Some(7421));
        drop(announcement);
        assert_eq!((running(&home), kept(&home)), (None, Ok(None)));
    }

    #[test]
    fn a_dead_servers_file_is_replaced_and_a_living_ones_is_left() {
        let home = tempfile::tempdir().unwrap();
        let stale = serde_json::to_string(&record(1)).unwrap();
        fs::write(path_of(home.path()), &stale).unwrap();
        assert_eq!(running(home.path()), None);
        assert_eq!(kept(home.path()), Ok(Some(record(1))));
        let mut first = own(home.path());
        assert_eq!((running(home.path()), kept(home.path())), (None, Ok(None)), "nor as ours");
        first.write(&record(std::process::id())).unwrap();
        match claim(home.path()).unwrap() {
            Claim::Others(Some(other)) => assert_eq!(other.pid, std::process::id()),
            other => panic!("the first one lives: {other:?}"),
        }
        // Whoever puts another file there keeps it.
        fs::write(path_of(home.path()), stale).unwrap();
        drop(first);
        assert_eq!(kept(home.path()), Ok(Some(record(1))));
    }

    #[test]
    fn no_mistake_shows_the_token() {
        let home = tempfile::tempdir().unwrap();
        fs::write(path_of(home.path()), "{\"token\": \"a-very-secret-token\", \"pid\": \"x\"}")
            .unwrap();
        let problem = kept(home.path()).unwrap_err();
        assert!(problem.contains("server.json") && !problem.contains("secret"), "{problem}");
        assert!(!format!("{:?}", record(1)).contains("secret"));
    }
}
