//! Writing a file in one step: whoever looks sees the old contents or the new ones.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Stat, Uid, accessat, fchmod, fchown,
    fstat, fsync, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::beneath::{Name, Place};
use super::refusal::{check_kind, check_size};
use super::{Facts, FileError, Target, WRITE_MAX};

/// How often a free name for a temporary file is looked for.
const NAME_TRIES: usize = 16;

/// Replaces or creates a file of at most [`WRITE_MAX`] bytes, and makes the folders that are
/// missing above it. On any failure nothing is changed and nothing is left over. A file that was
/// not there gets the bits `new_mode`, where they are given.
///
/// # Errors
/// As [`super::read`]; [`FileError::Raced`] also where a file of that name has come up meanwhile.
pub fn write(file: &Target, bytes: &[u8], new_mode: Option<u32>) -> Result<Facts, FileError> {
    check_size(&file.shown(), bytes.len() as u64, WRITE_MAX)?;
    let place = Place::of(file)?;
    let told = |error: Errno| place.refusal(error, "write");
    let (folder, name, made) = place.folder_made().map_err(told)?;
    let target = Replaced { folder: &folder, name, shown: file.shown(), new_mode };
    let written = target.replace(bytes).map_err(|error| match error {
        Failure::Refused(refused) => refused,
        Failure::System(error) => told(error),
    });
    if written.is_err() {
        made.remove();
    }
    written
}

enum Failure {
    Refused(FileError),
    System(Errno),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Failure::System(error)
    }
}

struct Replaced<'a> {
    folder: &'a OwnedFd,
    name: Name<'a>,
    shown: String,
    new_mode: Option<u32>,
}

impl Replaced<'_> {
    fn replace(&self, bytes: &[u8]) -> Result<Facts, Failure> {
        let old = match statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(old) = &old {
            check_kind(Facts::of(old).kind, &self.shown).map_err(Failure::Refused)?;
            // A rename asks only the folder; that a file is read-only is meant to count.
            accessat(self.folder, self.name, Access::WRITE_OK, AtFlags::EACCESS)?;
        }
        // A file without a name leaves nothing behind whatever happens to us. Not every file
        // system has them, and without /proc they cannot get a name.
        match self.write_as(Temporary::unnamed(self.folder, old.as_ref()), old.as_ref(), bytes) {
            Err(Failure::System(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL)) => {
                self.write_as(Temporary::named(self.folder, old.as_ref()), old.as_ref(), bytes)
            }
            written => written,
        }
    }

    fn write_as(
        &self,
        temporary: Result<Temporary<'_>, Errno>,
        old: Option<&Stat>,
        bytes: &[u8],
    ) -> Result<Facts, Failure> {
        let temporary = temporary?;
        temporary.fill(bytes)?;
        match (old, self.new_mode) {
            (Some(old), _) => temporary.take_after(old)?,
            (None, Some(mode)) => fchmod(&temporary.file, Mode::from_raw_mode(mode & 0o777))?,
            (None, None) => {}
        }
        // The name must never point to contents that a power failure could take back. That the
        // rename itself may be taken back is all right: the old contents are whole.
        fsync(&temporary.file)?;
        let stat = Facts::of(&fstat(&temporary.file)?);
        match temporary.publish(self.name, old.is_none()) {
            // Somebody made a file of that name since we looked.
            Err(Errno::EXIST) => Err(Failure::Refused(FileError::Raced(self.shown.clone()))),
            published => Ok(published.map(|()| stat)?),
        }
    }
}

/// A file that is not in its place yet. It vanishes when dropped.
struct Temporary<'a> {
    folder: &'a OwnedFd,
    file: OwnedFd,
    name: Option<PathBuf>,
}

impl<'a> Temporary<'a> {
    fn unnamed(folder: &'a OwnedFd, old: Option<&Stat>) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(folder, ".", flags, first_mode(old))?;
        Ok(Self { folder, file, name: None })
    }

    fn named(folder: &'a OwnedFd, old: Option<&Stat>) -> Result<Self, Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let (name, file) = with_fresh_name(|name| {
            openat(folder, name, flags | OFlags::NOFOLLOW, first_mode(old))
        })?;
        Ok(Self { folder, file, name: Some(name) })
    }

    fn fill(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut unwritten = bytes;
        while !unwritten.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::write(&self.file, unwritten))?;
            unwritten = unwritten.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Takes over the owner, as far as that is allowed, and the permission bits.
    fn take_after(&self, old: &Stat) -> Result<(), Errno> {
        let own = fstat(&self.file)?;
        if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid) {
            let owner = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            // Only root may give files away. For others the file becomes their own, as with any
            // editor that saves this way.
            let _given = fchown(&self.file, Some(owner.0), Some(owner.1));
        }
        // As with any write, the bits that lend the owner's rights to whoever runs it go.
        fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o1777))
    }

    /// Puts the file in its place. A new file must not replace one that came up meanwhile.
    fn publish(mut self, target: Name<'_>, is_new: bool) -> Result<(), Errno> {
        if self.name.is_none() {
            if is_new {
                return link(&self.file, self.folder, Path::new(target));
            }
            let (name, ()) = with_fresh_name(|name| link(&self.file, self.folder, name))?;
            self.name = Some(name);
        }
        let Some(name) = &self.name else { return Err(Errno::NOENT) };
        let moved = if is_new {
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(self.folder, name, self.folder, target, flags) {
                // The file system cannot tell: then the moment in between stays open.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    renameat(self.folder, name, self.folder, target)
                }
                moved => moved,
            }
        } else {
            renameat(self.folder, name, self.folder, target)
        };
        moved.inspect(|()| self.name = None)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _removed = unlinkat(self.folder, name, AtFlags::empty());
        }
    }
}

/// A new file gets what the user's mask leaves of 0666. One that takes after another is nobody
/// else's business until it has that one's bits.
fn first_mode(old: Option<&Stat>) -> Mode {
    Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 })
}

/// Gives a file without a name one.
fn link(file: &OwnedFd, folder: impl AsFd, name: &Path) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
}

fn with_fresh_name<T>(
    mut make: impl FnMut(&Path) -> Result<T, Errno>,
) -> Result<(PathBuf, T), Errno> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..NAME_TRIES {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = PathBuf::from(format!(".narthex-{}-{count}.tmp", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY)
}
