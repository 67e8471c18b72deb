//! What is written beside a path before it takes its place: names that nobody has, and clearing
//! what a restore that was killed left under such names.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::beneath::LISTED;
use crate::ground::Ground;
use crate::node::Key;
use crate::walk::list;

const PREFIX: &str = ".narthex-restore-";
const DIGITS: usize = 16;
/// How many names are tried: with so many digits a second one is hardly ever needed.
const TRIES: usize = 16;

/// Makes something under a name that nobody has, and returns the name.
pub(super) fn make<T>(
    mut make: impl FnMut(&Path) -> Result<T, Errno>,
) -> Result<(PathBuf, T), Errno> {
    for _ in 0..TRIES {
        let name = name();
        match make(&name) {
            Err(Errno::EXIST | Errno::WOULDBLOCK) => {}
            made => return made.map(|made| (name, made)),
        }
    }
    Err(Errno::EXIST)
}

/// Makes an empty file for its owner alone. It is locked as long as it is open, so that others see
/// that somebody is at it.
pub(super) fn make_file(folder: &OwnedFd) -> Result<(PathBuf, OwnedFd), Errno> {
    make(|name| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Whoever clears the folder was faster, and takes the file away.
            Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
            // Where there are no locks, nothing is cleared.
            Ok(()) | Err(_) => Ok(file),
        }
    })
}

fn name() -> PathBuf {
    // Each has keys of its own, drawn at random for every process.
    let random = RandomState::new().build_hasher().finish();
    format!("{PREFIX}{random:0DIGITS$x}").into()
}

fn is_ours(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX.as_bytes());
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
}

/// Removes what restores that were killed left in the folders of these paths.
pub(super) fn clear<'k>(ground: &Ground, keys: impl Iterator<Item = &'k Key>) {
    let folders: BTreeSet<Key> = keys.filter_map(Key::parent).collect();
    for key in folders.iter().filter(|key| ground.covers(key) && ground.own(key).is_none()) {
        let Ok(folder) = ground.at(key, LISTED) else { continue };
        for name in list(&folder).unwrap_or_default().iter().filter(|name| is_ours(name)) {
            if clear_one(&folder, name).is_ok() {
                let path = key.join(name.to_bytes()).shown();
                tracing::info!(path, "what an earlier restore left unfinished was removed");
            }
        }
    }
}

/// Removes a file of ours that nobody is at.
fn clear_one(folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let open = fstat(&file)?;
    let is_file = FileType::from_raw_mode(open.st_mode) == FileType::RegularFile;
    if !is_file || open.st_uid != geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let now = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (now.st_dev, now.st_ino) != (open.st_dev, open.st_ino) {
        return Err(Errno::NOENT);
    }
    unlinkat(folder, name, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_known_again() {
        let names: BTreeSet<PathBuf> = (0..1_000).map(|_| name()).collect();
        assert_eq!(names.len(), 1_000);
        for name in names {
            let name = std::ffi::CString::new(name.to_str().unwrap()).unwrap();
            assert!(is_ours(&name), "{name:?}");
        }
        let others = [
            c".narthex-restore-",
            c".narthex-restore-0123456789abcde",
            c".narthex-restore-0123456789abcdef0",
            c".narthex-restore-0123456789ABCDEF",
            c"narthex-restore-0123456789abcdef",
        ];
        assert!(others.iter().all(|name| !is_ours(name)));
    }

    #[test]
    fn a_name_that_is_taken_is_not_the_end() {
        let mut tried = Vec::new();
        let made = make(|name| {
            tried.push(name.to_owned());
            if tried.len() < 3 { Err(Errno::EXIST) } else { Ok(()) }
        });
        assert_eq!(made, Ok((tried[2].clone(), ())));
        assert_eq!(make::<()>(|_| Err(Errno::EXIST)), Err(Errno::EXIST));
        assert_eq!(make::<()>(|_| Err(Errno::ACCESS)), Err(Errno::ACCESS));
    }
}
