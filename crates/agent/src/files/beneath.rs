//! Opening exactly what was located: beneath its root, along no links.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, statat, unlinkat,
};
use rustix::io::Errno;

use super::{FileError, Target};

/// A name as the system takes it.
pub(super) type Name<'a> = &'a OsStr;

/// How often an open is tried again that the kernel could not finish because something was
/// renamed at the same moment.
const AGAIN_MAX: usize = 16;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A located path as a root and the way below it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    root: &'a Path,
    below: &'a Path,
    shown: String,
}

/// Folders that were made on the way to a file. They go again if the file could not be written.
#[derive(Debug, Default)]
pub(super) struct MadeFolders(Vec<(OwnedFd, PathBuf)>);

impl MadeFolders {
    pub(super) fn remove(self) {
        for (parent, name) in self.0.into_iter().rev() {
            // Somebody may have put something in it meanwhile: then it stays.
            let _removed = unlinkat(&parent, &name, AtFlags::REMOVEDIR);
        }
    }
}

impl<'a> Place<'a> {
    /// # Errors
    /// [`FileError::Unfit`] for a path that was not located: one with `..` in it, or that
    /// does not lie beneath its root.
    pub(super) fn of(file: &'a Target) -> Result<Self, FileError> {
        let shown = file.shown();
        let root = file.root.as_deref().unwrap_or(Path::new("/"));
        let is_plain = |path: &Path| {
            let mut parts = path.components();
            parts.next() == Some(Component::RootDir)
                && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        match file.real.strip_prefix(root) {
            Ok(below) if is_plain(root) && is_plain(&file.real) => Ok(Self { root, below, shown }),
            Ok(_) | Err(_) => Err(FileError::Unfit(format!("{shown} is no real path"))),
        }
    }

    /// Opens it.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_beneath(self.root()?, below(self.below), flags)
    }

    /// Opens the folder that it lies in.
    pub(super) fn folder(&self) -> Result<(OwnedFd, Name<'a>), Errno> {
        let (parent, name) = self.split()?;
        Ok((open_beneath(self.root()?, below(parent), FOLDER)?, name))
    }

    /// Opens the folder that it lies in and makes it where it is missing.
    pub(super) fn folder_made(&self) -> Result<(OwnedFd, Name<'a>, MadeFolders), Errno> {
        let (parent, name) = self.split()?;
        let root = self.root()?;
        match open_beneath(&root, below(parent), FOLDER) {
            Ok(folder) => return Ok((folder, name, MadeFolders::default())),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let mut made = MadeFolders::default();
        match make(root, parent, &mut made) {
            Ok(folder) => Ok((folder, name, made)),
            Err(error) => {
                made.remove();
                Err(error)
            }
        }
    }

    fn split(&self) -> Result<(&'a Path, Name<'a>), Errno> {
        self.below.parent().zip(self.below.file_name()).ok_or(Errno::ISDIR)
    }

    /// The root was real when the workspace was opened: if there is a link in it now, somebody
    /// moved it.
    fn root(&self) -> Result<OwnedFd, Errno> {
        let top = openat(CWD, "/", FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        let below_top = self.root.strip_prefix("/").unwrap_or(self.root);
        if below_top.as_os_str().is_empty() {
            return Ok(top);
        }
        open_beneath(top, below_top, FOLDER)
    }

    /// Says why it could not be used.
    pub(super) fn refusal(&self, error: Errno, what: &str) -> FileError {
        match error {
            // There was no link on this path when it was located, and nothing above the root.
            Errno::LOOP | Errno::XDEV => FileError::Raced(self.shown.clone()),
            other => FileError::of_io(&std::io::Error::from(other), what, &self.shown),
        }
    }
}

/// The root itself is opened as `.`.
fn below(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn make(root: OwnedFd, parent: &Path, made: &mut MadeFolders) -> Result<OwnedFd, Errno> {
    let mut folder = root;
    for part in parent.components() {
        let name = Path::new(part.as_os_str());
        let next = match open_beneath(&folder, name, FOLDER) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) => made.0.push((rustix::io::dup(&folder)?, name.to_owned())),
                    // Somebody else was quicker.
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
                open_beneath(&folder, name, FOLDER)?
            }
            opened => opened?,
        };
        folder = next;
    }
    Ok(folder)
}

/// Opens a path along no links and without leaving `folder`.
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
        let name = Path::new(part.as_os_str());
        let wanted = if parts.peek().is_some() { FOLDER | OFlags::CLOEXEC } else { flags };
        at = match openat(&at, name, wanted | OFlags::NOFOLLOW, Mode::empty()) {
            // A link where a folder should be is told as "not a folder".
            Err(Errno::NOTDIR) if is_link(&at, name) => return Err(Errno::LOOP),
            opened => opened?,
        };
    }
    Ok(at)
}

fn is_link(folder: &OwnedFd, name: &Path) -> bool {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The kernel's way and ours must agree, on machines where ours is never taken too.
    #[test]
    fn both_ways_of_opening_agree() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::write(base.join("a/b/file"), "text").unwrap();
        symlink("b", base.join("a/link")).unwrap();
        symlink("file", base.join("a/b/file-link")).unwrap();
        symlink("/", base.join("top")).unwrap();
        let root = openat(CWD, base, FOLDER, Mode::empty()).unwrap();
        let cases = [
            ("a/b/file", OFlags::RDONLY, Ok(())),
            ("a/b", FOLDER, Ok(())),
            (".", FOLDER, Ok(())),
            ("a/none", OFlags::RDONLY, Err(Errno::NOENT)),
            ("a/b/file/below", OFlags::RDONLY, Err(Errno::NOTDIR)),
            ("a/link/file", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/link", FOLDER, Err(Errno::LOOP)),
            ("a/b/file-link", OFlags::RDONLY, Err(Errno::LOOP)),
            ("top/etc", FOLDER, Err(Errno::LOOP)),
        ];
        for (path, flags, expected) in cases {
            let path = Path::new(path);
            let kernel = open_beneath(&root, path, flags).map(drop);
            let own = walk(&root, path, flags | OFlags::CLOEXEC).map(drop);
            assert_eq!((kernel, own), (expected, expected), "{}", path.display());
        }
    }

    #[test]
    fn a_path_that_was_not_located_is_refused() {
        let located = |real: &str, root: Option<&str>| Target {
            real: real.into(),
            root: root.map(PathBuf::from),
        };
        let bad = [
            located("/a/../b", Some("/a")),
            located("/b", Some("/a")),
            located("relative", None),
            located("/a/b", Some("/a/../a")),
        ];
        for file in bad {
            assert!(matches!(Place::of(&file), Err(FileError::Unfit(_))), "{file:?}");
        }
    }
}
