//! The socket: for its owner alone from its first moment, and gone with the program.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use door_cli::Failure;
use tokio::net::UnixListener;

/// Permission bits of a folder that let others put something in the socket's place.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The file of a socket; it goes when this does.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The file as it was made: another that took its place is not taken away.
    inode: u64,
}

impl Socket {
    /// Opens a socket with mode 0600. One that was left behind is replaced.
    ///
    /// # Errors
    /// For a folder that is not the user's or that others may write to, and a socket that another
    /// process listens at.
    pub(super) fn open(path: &Path) -> Result<(Self, UnixListener), Failure> {
        let shown = path.display().to_string();
        let wrong = |what: String| Failure::usage(format!("--socket {shown}: {what}"));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (Some(folder), Some(name)) = (folder, path.file_name()) else {
            return Err(wrong("it names no file in a folder".to_owned()));
        };
        check(folder).map_err(wrong)?;
        check_left(path).map_err(wrong)?;
        // Under another name until nobody but its owner may connect.
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", std::process::id()));
        let hidden = folder.join(hidden);
        let problem = |error: io::Error| wrong(format!("open it: {error}"));
        match fs::remove_file(&hidden) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(problem(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&hidden).map_err(problem)?;
        let placed = fs::set_permissions(&hidden, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| fs::symlink_metadata(path));
        match placed {
            Ok(facts) => Ok((Self { path: path.to_owned(), inode: facts.ino() }, listener)),
            Err(error) => {
                drop(fs::remove_file(&hidden));
                Err(problem(error))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|facts| facts.ino() == self.inode);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "take the socket away");
        }
    }
}

/// Says what is wrong with the folder of a socket.
fn check(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    let facts = fs::metadata(folder).map_err(|error| format!("its folder {shown}: {error}"))?;
    if !facts.is_dir() {
        return Err(format!("{shown} is no folder"));
    }
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("its folder {shown} is not yours: use one of your own"));
    }
    let mode = facts.mode() & 0o777;
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(format!(
            "others may write to its folder {shown} (mode {mode:04o}): chmod go-w it"
        ));
    }
    Ok(())
}

/// Says what is wrong with what stands at the path of a socket.
fn check_left(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(facts) if !facts.file_type().is_socket() => {
            Err("something else than a socket is there: take it away".to_owned())
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err("another process listens there: choose another path, or end it".to_owned())
        }
        // Nobody listens: whoever did was ended without taking it away.
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_its_owners_and_goes_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let (socket, listener) = Socket::open(&path).unwrap();
        let facts = fs::symlink_metadata(&path).unwrap();
        assert_eq!((facts.file_type().is_socket(), facts.mode() & 0o777), (true, 0o600));
        assert!(UnixStream::connect(&path).is_ok());
        let problem = Socket::open(&path).unwrap_err().message;
        assert!(problem.contains("another process listens"), "{problem}");
        drop(listener);
        // What is left of a process that was killed.
        let (second, _listener) = Socket::open(&path).unwrap();
        drop(socket);
        assert!(path.exists(), "the second one's file was taken away by the first");
        drop(second);
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[tokio::test]
    async fn a_folder_that_others_write_to_is_refused_and_no_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        for mode in [0o770, 0o707, 0o777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            assert!(Socket::open(&path).is_err(), "{mode:o}");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, "text").unwrap();
        assert!(Socket::open(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }
}
