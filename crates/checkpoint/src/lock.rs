//! One lock for the folder: whoever captures or restores shares it, whoever sweeps has it alone.
//! The kernel drops it when its process dies.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// How long a capture waits for a sweep: sweeping reads every manifest and removes files, which
/// takes seconds at worst.
const SHARE_WAIT: Duration = Duration::from_secs(60);
/// How long a sweep waits for captures. What it does not do now, the next one does.
const ALONE_WAIT: Duration = Duration::from_secs(5);
/// How often the lock is tried.
const TRIED_EVERY: Duration = Duration::from_millis(10);

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lives as long as its file")] File);

/// Takes the lock together with others.
///
/// # Errors
/// [`Error::Busy`].
pub(crate) fn share(path: &Path) -> Result<Lock> {
    let lock = take(path, FlockOperation::NonBlockingLockShared, SHARE_WAIT)?;
    lock.ok_or_else(|| Error::Busy(path.display().to_string(), SHARE_WAIT.as_secs()))
}

/// Takes the lock alone; none when others had it all the time.
pub(crate) fn alone(path: &Path) -> Result<Option<Lock>> {
    take(path, FlockOperation::NonBlockingLockExclusive, ALONE_WAIT)
}

/// Takes the lock alone if nobody has it now.
pub(crate) fn alone_now(path: &Path) -> Result<Option<Lock>> {
    take(path, FlockOperation::NonBlockingLockExclusive, Duration::ZERO)
}

fn take(path: &Path, how: FlockOperation, wait: Duration) -> Result<Option<Lock>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| Error::io("open", path, error))?;
    let start = Instant::now();
    loop {
        match flock(&file, how) {
            Ok(()) => return Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(Error::io("lock", path, error)),
        }
        if start.elapsed() >= wait {
            return Ok(None);
        }
        std::thread::sleep(TRIED_EVERY);
    }
}
