//! The workspace as it is now.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::beneath::{LISTED, PASSED, Root};
use crate::fence::Fence;
use crate::hash::Hash;
use crate::library::State;
use crate::node::{Key, Node, Stamp, Why};
use crate::options::Limits;
use crate::rules::GIT;
use crate::walk::{list, reading};

#[derive(Debug)]
pub(crate) struct Ground {
    keys: Vec<Key>,
    open: Vec<Root>,
    fence: Fence,
    limits: Limits,
}

/// What stands at a path now.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) state: State,
    /// What tells whether it is still the same a moment later.
    pub(crate) stamp: Option<Stamp>,
}

impl Ground {
    pub(crate) fn open(keys: Vec<Key>, fence: Fence, limits: Limits) -> Self {
        let mut ground = Self { keys, open: Vec::new(), fence, limits };
        ground.reopen();
        ground
    }

    /// Opens the roots again after one was made anew.
    pub(crate) fn reopen(&mut self) {
        self.open = self.keys.iter().filter_map(|key| Root::open(key).ok()).collect();
    }

    /// Whether a path is in the workspace.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.keys.iter().any(|root| crate::beneath::below(root, key).is_some())
    }

    /// Returns the place of the program's own that a path is or lies in.
    pub(crate) fn own(&self, key: &Key) -> Option<&Key> {
        self.fence.place_of(key)
    }

    pub(crate) fn is_root(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    fn root(&self, key: &Key) -> Option<&Root> {
        self.open.iter().find(|root| root.holds(key))
    }

    /// Opens a path beneath its root.
    pub(crate) fn at(&self, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.root(key).ok_or(Errno::NOENT)?.at(key, flags)
    }

    /// Opens the folder that a path is in.
    pub(crate) fn folder_of(&self, key: &Key) -> Result<OwnedFd, Errno> {
        let parent = key.parent().ok_or(Errno::INVAL)?;
        if self.is_root(key) {
            return openat(CWD, parent.path(), PASSED | OFlags::CLOEXEC, Mode::empty());
        }
        self.at(&parent, PASSED)
    }

    /// Whether a real folder is at a path. One that may not be entered is one.
    pub(crate) fn is_folder(&self, key: &Key) -> bool {
        matches!(self.at(key, PASSED), Ok(_) | Err(Errno::ACCESS))
    }

    pub(crate) fn names(&self, key: &Key) -> Result<Vec<std::ffi::CString>, Errno> {
        list(&self.at(key, LISTED)?)
    }

    pub(crate) fn stat(&self, key: &Key) -> Result<Stat, Errno> {
        statat(self.folder_of(key)?, name(key), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Looks at a path, and reads it where it is a file.
    pub(crate) fn look(&self, key: &Key) -> Now {
        let unknown = |stamp| Now { state: State::Unknown, stamp };
        let absent = Now { state: State::Absent, stamp: None };
        let stat = match self.stat(key) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return absent,
            Err(_) => return unknown(None),
        };
        let stamp = Stamp::of(&stat);
        let left = |why| Now { state: State::There(Node::left(why, &stat)), stamp: Some(stamp) };
        if key.name() == GIT.as_bytes() {
            return left(Why::Git);
        }
        if self.root(key).is_some_and(|root| root.device != stat.st_dev) {
            return left(Why::Mount);
        }
        let node = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match self.at(key, LISTED) {
                Ok(_) => Node::Folder { mode: stamp.mode },
                Err(_) => return left(Why::Unreadable),
            },
            FileType::Symlink => {
                let target = self.folder_of(key);
                let target = target.and_then(|at| readlinkat(at, name(key), Vec::new()));
                let Ok(target) = target else { return unknown(Some(stamp)) };
                Node::Link { target: target.to_bytes().into() }
            }
            FileType::RegularFile => return self.look_into(key, &stat),
            _ => return left(Why::Special),
        };
        Now { state: State::There(node), stamp: Some(stamp) }
    }

    fn look_into(&self, key: &Key, stat: &Stat) -> Now {
        let of = |node, stamp| Now { state: State::There(node), stamp: Some(stamp) };
        let Some(root) = self.root(key) else {
            return Now { state: State::Unknown, stamp: None };
        };
        match reading::read(root, key, self.limits.file_bytes_max) {
            reading::Outcome::Read { bytes, stamp, .. } => {
                let (size, hash) = (bytes.len() as u64, Hash::of(&bytes));
                of(Node::File { mode: stamp.mode, size, hash }, stamp)
            }
            reading::Outcome::Large(stat) => of(Node::left(Why::Large, &stat), Stamp::of(&stat)),
            reading::Outcome::Unreadable => of(Node::left(Why::Unreadable, stat), Stamp::of(stat)),
            reading::Outcome::Gone => Now { state: State::Absent, stamp: None },
        }
    }
}

/// The name of a path in its folder.
pub(crate) fn name(key: &Key) -> &Path {
    Path::new(OsStr::from_bytes(key.name()))
}
