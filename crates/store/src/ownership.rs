//! Who is alive: a lock file per process, whose lock the kernel drops when the process dies.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use driver_api::Owner;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::blob::create_folder;

/// The ending of lock files.
const ENDING: &str = "lock";

/// This process among those that use the store.
#[derive(Debug)]
pub(crate) struct Ownership {
    run: PathBuf,
    me: Owner,
    lock: Mutex<Option<File>>,
}

impl Ownership {
    /// Names this process. Nothing is created before [`Ownership::hold`].
    pub(crate) fn new(run: PathBuf) -> Self {
        let instance = uuid::Uuid::new_v4().simple().to_string();
        Self { run, me: Owner { pid: std::process::id(), instance }, lock: Mutex::new(None) }
    }

    /// Returns this process.
    pub(crate) fn me(&self) -> &Owner {
        &self.me
    }

    /// Takes this process's lock, once. The lock is there before the first row names the instance.
    pub(crate) fn hold(&self) -> io::Result<()> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_some() {
            return Ok(());
        }
        create_folder(&self.run)?;
        let mut options = File::options();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(self.path(&self.me.instance))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // For a person who looks; nothing reads it.
        writeln!(file, "{}", self.me.pid)?;
        *lock = Some(file);
        Ok(())
    }

    /// Tells whether the process behind an instance lives. The lock file of a dead one is removed.
    ///
    /// The test takes a shared lock, so that two tests at once do not take each other for the
    /// owner. Where it cannot be told, the owner counts as alive.
    pub(crate) fn is_alive(&self, instance: &str) -> bool {
        if instance == self.me.instance {
            return true;
        }
        if instance.is_empty() || !instance.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        let path = self.path(instance);
        match is_locked(&path) {
            Ok(true) => true,
            Ok(false) => {
                // Another process may have been faster.
                let _removed = fs::remove_file(&path);
                false
            }
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Tells whether any other process lives that has ever owned a session here.
    pub(crate) fn others_live(&self) -> io::Result<bool> {
        let entries = match fs::read_dir(&self.run) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            entries => entries?,
        };
        let mine = self.path(&self.me.instance);
        for entry in entries {
            let path = entry?.path();
            let is_lock = path.extension().is_some_and(|ending| ending == ENDING);
            if is_lock && path != mine && is_locked(&path).unwrap_or(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the lock up: from now on this process counts as dead.
    pub(crate) fn end(&self) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        if lock.is_some() {
            // Somebody who met it unlocked may remove it as well.
            let _removed = fs::remove_file(self.path(&self.me.instance));
        }
    }

    fn path(&self, instance: &str) -> PathBuf {
        self.run.join(instance).with_extension(ENDING)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells whether somebody holds the exclusive lock of a file.
fn is_locked(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_as_long_as_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let (one, two) = (Ownership::new(run.clone()), Ownership::new(run.clone()));
        let instance = one.me().instance.clone();
        assert!(!two.is_alive(&instance), "nothing held yet");
        one.hold().unwrap();
        one.hold().unwrap();
        assert!(two.is_alive(&instance));
        assert!(two.others_live().unwrap());
        assert!(!one.others_live().unwrap(), "it is no other to itself");
        one.end();
        assert!(!two.is_alive(&instance));
        assert_eq!(fs::read_dir(run).unwrap().count(), 0);
    }

    #[test]
    fn a_dead_owner_leaves_a_file_that_the_next_one_removes() {
        let folder = tempfile::tempdir().unwrap();
        let instance = "0123456789abcdef0123456789abcdef";
        let path = folder.path().join(instance).with_extension(ENDING);
        fs::write(&path, "1\n").unwrap();
        let ownership = Ownership::new(folder.path().to_owned());
        assert!(!ownership.is_alive(instance));
        assert!(!path.exists());
        assert!(!ownership.is_alive("../../etc/passwd"));
    }
}
