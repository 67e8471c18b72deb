//! Opening what is beneath a root, along no links. The root itself is opened as it was named:
//! it was made real before.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::node::Key;

/// How often an open is tried again that the kernel could not finish because something was
/// renamed at the same moment.
const AGAIN_MAX: usize = 16;

/// A folder that is only passed through.
pub(crate) const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// A folder that is listed.
pub(crate) const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// An open root.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) key: Key,
    pub(crate) device: u64,
    folder: OwnedFd,
}

impl Root {
    /// # Errors
    /// As the system says; `NOTDIR` where a link or a file is.
    pub(crate) fn open(key: &Key) -> Result<Self, Errno> {
        let flags = PASSED | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, key.path(), flags, Mode::empty())?;
        let device = fstat(&folder)?.st_dev;
        Ok(Self { key: key.clone(), device, folder })
    }

    /// Whether a path is this root or beneath it.
    pub(crate) fn holds(&self, key: &Key) -> bool {
        below(&self.key, key).is_some()
    }

    /// Opens a path beneath.
    pub(crate) fn at(&self, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = below(&self.key, key).ok_or(Errno::XDEV)?;
        let path = if path.is_empty() { b".".as_slice() } else { path };
        open_beneath(&self.folder, Path::new(OsStr::from_bytes(path)), flags)
    }
}

/// Returns the way from a root to a path; empty for the root itself.
pub(crate) fn below<'a>(root: &Key, key: &'a Key) -> Option<&'a [u8]> {
    let rest = key.as_bytes().strip_prefix(root.as_bytes())?;
    if rest.is_empty() || root.as_bytes() == b"/" {
        return Some(rest);
    }
    rest.strip_prefix(b"/")
}

fn open_beneath(folder: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let along = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..AGAIN_MAX {
        match openat2(&folder, path, flags, Mode::empty(), along) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Before Linux 5.6, or filtered by a container's rules.
            Err(Errno::NOSYS | Errno::PERM) => return walk(&folder, path, flags),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Does the same part by part.
fn walk(folder: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    let mut at = rustix::io::fcntl_dupfd_cloexec(&folder, 3)?;
    while let Some(part) = parts.next() {
        if matches!(part, Component::ParentDir | Component::RootDir) {
            return Err(Errno::XDEV);
        }
        let wanted = if parts.peek().is_some() { PASSED | OFlags::CLOEXEC } else { flags };
        let name = Path::new(part.as_os_str());
        at = openat(&at, name, wanted | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The kernel's way and ours agree on what is opened, on machines where ours is never taken.
    #[test]
    fn no_way_of_opening_follows_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::write(base.join("a/b/file"), "text").unwrap();
        symlink("b", base.join("a/link")).unwrap();
        symlink("file", base.join("a/b/file-link")).unwrap();
        symlink("/", base.join("top")).unwrap();
        let root = openat(CWD, base, PASSED, Mode::empty()).unwrap();
        let cases = [
            ("a/b/file", OFlags::RDONLY, true),
            ("a/b", LISTED, true),
            (".", LISTED, true),
            ("a/none", OFlags::RDONLY, false),
            ("a/b/file/below", OFlags::RDONLY, false),
            ("a/link/file", OFlags::RDONLY, false),
            ("a/link", LISTED, false),
            ("a/b/file-link", OFlags::RDONLY, false),
            ("top/etc", LISTED, false),
            ("../x", OFlags::RDONLY, false),
        ];
        for (path, flags, is_opened) in cases {
            let path = Path::new(path);
            let kernel = open_beneath(&root, path, flags).is_ok();
            let own = walk(&root, path, flags | OFlags::CLOEXEC).is_ok();
            assert_eq!((kernel, own), (is_opened, is_opened), "{}", path.display());
        }
    }

    #[test]
    fn what_is_beneath_is_told_from_what_only_begins_alike() {
        let of = |text: &str| Key::from_bytes(text.as_bytes());
        let cases = [
            ("/a", "/a", Some("")),
            ("/a", "/a/b/c", Some("b/c")),
            ("/a", "/ab", None),
            ("/", "/b", Some("b")),
            ("/a/b", "/a", None),
        ];
        for (root, key, expected) in cases {
            let key = of(key);
            assert_eq!(below(&of(root), &key), expected.map(str::as_bytes), "{root} {key:?}");
        }
    }
}
