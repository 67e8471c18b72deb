//! Locks between processes: files that the system unlocks when their holder dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long the holder of a lock may take to write its process id. It does so at once; a process
/// that was stopped in between is told as number 0.
const NAME_TIME: Duration = Duration::from_millis(50);

/// How long a lock counts as free though it is held: whoever looks whether it is, holds it for a
/// moment.
const PROBE_TIME: Duration = Duration::from_millis(50);

/// How often to look again.
const PAUSE: Duration = Duration::from_millis(1);

/// A lock that this process holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody.
    Nobody,
    /// The process with this id; 0 where it has not said so.
    Process(u32),
}

impl Lock {
    /// Takes a lock, or tells who has it.
    pub(super) fn take(path: &Path) -> io::Result<Result<Self, u32>> {
        let since = Instant::now();
        loop {
            let mut file = open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if since.elapsed() < PROBE_TIME => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(Errno::WOULDBLOCK) => return Ok(Err(named(&mut file))),
                Err(error) => return Err(error.into()),
            }
            let lock = Self { file, path: path.to_owned() };
            // Whoever had it may have removed the file since it was opened: then this is a lock
            // on nothing.
            if lock.is_current() {
                lock.sign()?;
                return Ok(Ok(lock));
            }
        }
    }

    /// Takes a lock, and waits for it at most that long.
    pub(super) fn wait(path: &Path, time: Duration) -> io::Result<Result<Self, u32>> {
        let since = Instant::now();
        loop {
            match Self::take(path)? {
                Err(_) if since.elapsed() < time => std::thread::sleep(PAUSE),
                taken => return Ok(taken),
            }
        }
    }

    /// Tells who holds a lock, without taking it for longer than a moment.
    pub(super) fn holder(path: &Path) -> io::Result<Holder> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Nobody),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Holder::Nobody),
            Err(Errno::WOULDBLOCK) => Ok(Holder::Process(named(&mut file))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the file that is locked is still the one at its path.
    pub(super) fn is_current(&self) -> bool {
        let (own, there) = (self.file.metadata(), std::fs::symlink_metadata(&self.path));
        own.ok()
            .zip(there.ok())
            .is_some_and(|(own, there)| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    }

    /// Says that the file has another path now.
    pub(super) fn moved(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    /// Removes the file and lets go. For locks whose file stands for nothing else.
    pub(super) fn remove(self) {
        // A file that cannot be removed is a lock that nobody holds.
        let _removed = std::fs::remove_file(&self.path);
    }

    fn sign(&self) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Not cut off: it may be somebody else's and hold his number.
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Reads who holds a lock.
fn named(file: &mut File) -> u32 {
    let since = Instant::now();
    loop {
        let mut text = String::new();
        let is_read =
            file.seek(SeekFrom::Start(0)).is_ok() && file.read_to_string(&mut text).is_ok();
        let line = text.strip_suffix('\n').filter(|_| is_read);
        match line.and_then(|line| line.parse().ok()) {
            Some(pid) => return pid,
            None if since.elapsed() > NAME_TIME => return 0,
            None => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_the_others_know_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(Lock::holder(&path).unwrap(), Holder::Nobody);
        let lock = Lock::take(&path).unwrap().unwrap();
        let own = std::process::id();
        assert_eq!(Lock::holder(&path).unwrap(), Holder::Process(own));
        assert_eq!(Lock::take(&path).unwrap().unwrap_err(), own);
        drop(lock);
        assert_eq!(Lock::holder(&path).unwrap(), Holder::Nobody);
        drop(Lock::take(&path).unwrap().unwrap());
    }

    #[test]
    fn a_lock_on_a_file_that_is_gone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!first.is_current());
        let second = Lock::take(&path).unwrap().unwrap();
        assert!(second.is_current());
        second.remove();
        assert!(!path.exists());
    }

    #[test]
    fn of_many_at_once_one_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::wait(&path, Duration::from_secs(60)).unwrap().unwrap();
                        let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(others, 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        lock.remove();
                    }
                });
            }
        });
    }
}
