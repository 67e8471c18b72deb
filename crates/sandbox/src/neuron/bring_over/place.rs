//! Changing the folder: everything in one step, and through no link.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use protocol::Timestamp;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, copy_file_range, fchmod,
    fchown, fstat, fsync, mkdirat, openat, readlinkat, renameat, renameat_with, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::super::changes::{is_folder, names, open};
use super::super::remove::remove_tree;
use super::content::{BITS, open_plainly};

/// How many entries of a folder that is to be removed are looked at for later changes. Beyond that
/// it counts as changed.
const LOOKED_AT_MAX: usize = 100_000;

/// How deep is looked for later changes.
const DEPTH_MAX: usize = 128;

/// How many bytes are copied at once.
const CHUNK: usize = 1 << 20;

/// How many names are tried for what is written beside its place.
const NAMES_TRIED: u32 = 100;

/// The folder, as it is changed.
#[derive(Debug)]
pub(super) struct Place {
    /// What was changed from then on was changed by somebody else.
    since_ns: i128,
    /// Files that are made belong to whoever owns the folder: root does this for others too.
    is_root: bool,
}

impl Place {
    pub(super) fn new(since: Timestamp) -> Self {
        let since_ns = i128::from(since.0) * 1_000_000;
        Self { since_ns, is_root: geteuid().is_root() }
    }

    /// Tells whether an entry, or anything in it, was changed after the neuron was made. Nobody
    /// can set this time, and every change of contents, bits or owner sets it.
    pub(super) fn changed_since(&self, folder: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
        let mut left = LOOKED_AT_MAX;
        self.looks_changed(folder, name, (&mut left, 0))
    }

    fn looks_changed(
        &self,
        folder: &OwnedFd,
        name: &CStr,
        (left, depth): (&mut usize, usize),
    ) -> Result<bool, Errno> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if *left == 0 || depth > DEPTH_MAX {
            return Ok(true);
        }
        *left -= 1;
        let changed_ns = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        if changed_ns >= self.since_ns {
            return Ok(true);
        }
        if is_folder(&stat) {
            let inner = open(folder, name)?;
            for name in names(&inner)? {
                if self.looks_changed(&inner, &name, (left, depth + 1))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Puts a file, link or empty folder of the layer in its place. What is there stays until the
    /// new one is whole.
    pub(super) fn put(
        &self,
        (upper, above): (&OwnedFd, &Stat),
        (lower, beneath): (&OwnedFd, Option<&Stat>),
        name: &CStr,
    ) -> Result<(), Errno> {
        let fresh = self.make_beside((upper, above), (lower, beneath), name)?;
        let placed = match beneath {
            // A folder gives way to nothing but a folder that is empty.
            Some(beneath) if is_folder(beneath) || is_folder(above) => replace(lower, &fresh, name),
            Some(_) => renameat(lower, &fresh, lower, name),
            // Nobody's new file is written over.
            None => rename_onto_nothing(lower, &fresh, name),
        };
        if placed.is_err() {
            let _left = discard(lower, &fresh);
        }
        placed
    }

    /// Removes an entry with all that is in it.
    pub(super) fn remove(&self, lower: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        discard(lower, name)
    }

    /// Makes a copy of an entry under a name that nobody has.
    fn make_beside(
        &self,
        (upper, above): (&OwnedFd, &Stat),
        (lower, beneath): (&OwnedFd, Option<&Stat>),
        name: &CStr,
    ) -> Result<CString, Errno> {
        let mode = Mode::from_raw_mode(above.st_mode & BITS);
        let kind = FileType::from_raw_mode(above.st_mode);
        let (fresh, file) = try_names(|fresh| match kind {
            FileType::Directory => mkdirat(lower, fresh, Mode::RWXU).map(|()| None),
            FileType::Symlink => {
                let target = readlinkat(upper, name, Vec::new())?;
                symlinkat(target, lower, fresh).map(|()| None)
            }
            _ => {
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                openat(lower, fresh, flags, Mode::RUSR | Mode::WUSR).map(Some)
            }
        })?;
        let finished = (|| {
            if let Some(file) = &file {
                copy(&open_plainly(upper, name)?, file)?;
            }
            if self.is_root {
                let like = match beneath {
                    Some(beneath) => *beneath,
                    None => fstat(lower)?,
                };
                let (uid, gid) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
                match &file {
                    Some(file) => fchown(file, Some(uid), Some(gid))?,
                    None => {
                        let flags = AtFlags::SYMLINK_NOFOLLOW;
                        chownat(lower, &fresh, Some(uid), Some(gid), flags)?;
                    }
                }
            }
            match (&file, kind) {
                (Some(file), _) => {
                    fchmod(file, mode)?;
                    fsync(file)
                }
                (None, FileType::Directory) => fchmod(&open(lower, &fresh)?, mode | Mode::RWXU),
                (None, _) => Ok(()),
            }
        })();
        match finished {
            Ok(()) => Ok(fresh),
            Err(error) => {
                let _left = discard(lower, &fresh);
                Err(error)
            }
        }
    }
}

/// Tries names until one is free.
fn try_names<T>(mut make: impl FnMut(&CStr) -> Result<T, Errno>) -> Result<(CString, T), Errno> {
    let own = std::process::id();
    for number in 0..NAMES_TRIED {
        let name = CString::new(format!(".narthex-apply-{own}-{number}"));
        let name = name.map_err(|_| Errno::INVAL)?;
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (name, made)),
        }
    }
    Err(Errno::EXIST)
}

fn copy(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    loop {
        match copy_file_range(from, None, to, None, CHUNK) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => break,
            Err(error) => return Err(error),
        }
    }
    // Not every pair of file systems copies by itself; nothing was copied then.
    let mut room = vec![0; CHUNK];
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut *room))?;
        let mut rest = room.get(..count).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(to, rest))?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
}

fn rename_onto_nothing(folder: &OwnedFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // The file system cannot tell; a look is the best that can be had.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(folder, from, folder, to),
            Ok(_) => Err(Errno::EXIST),
            Err(error) => Err(error),
        },
        other => other,
    }
}

/// Puts something in the place of what a rename alone cannot replace. What was there is moved
/// aside first, and back where that fails.
fn replace(folder: &OwnedFd, fresh: &CStr, name: &CStr) -> Result<(), Errno> {
    let (aside, ()) = try_names(|aside| rename_onto_nothing(folder, name, aside))?;
    match rename_onto_nothing(folder, fresh, name) {
        Ok(()) => discard(folder, &aside),
        Err(error) => {
            rename_onto_nothing(folder, &aside, name)?;
            Err(error)
        }
    }
}

fn discard(folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {
            let shown = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
            let shown: &std::ffi::OsStr = shown;
            remove_tree(&PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(shown))
        }
        other => other,
    }
}
