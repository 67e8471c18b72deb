//! What an upper layer of overlayfs changes of the folder beneath it.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use driver_api::{OverlayChange, OverlayEntry};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fgetxattr, openat, statat};
use rustix::io::Errno;

/// How many changes are listed: what the contract says.
const ENTRIES_MAX: usize = 10_000;

/// How deep folders are looked into. Below that, the folder itself stands for what is in it: each
/// level takes two descriptors, and the neuron may nest as deep as it likes.
const DEPTH_MAX: usize = 128;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The mark of a folder that hides the one beneath it: in a mount of root and in one of a user
/// namespace.
const OPAQUE: [&CStr; 2] = [c"user.overlay.opaque", c"trusted.overlay.opaque"];

/// Lists the changes, by path.
pub(super) fn changes(upper: &Path, folder: &Path) -> Result<Vec<OverlayEntry>, Errno> {
    let upper = match open(CWD, upper) {
        Ok(upper) => upper,
        // Nothing was ever written.
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut walk = Walk { entries: Vec::new() };
    walk.folder(&upper, Some(&open(CWD, folder)?), Path::new(""), (false, 0))?;
    let mut entries = walk.entries;
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

struct Walk {
    entries: Vec<OverlayEntry>,
}

impl Walk {
    fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    fn add(&mut self, path: &Path, change: OverlayChange) {
        if !self.is_full() {
            self.entries.push(OverlayEntry { path: path.to_owned(), change });
        }
    }

    fn folder(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        path: &Path,
        (is_hidden, depth): (bool, usize),
    ) -> Result<(), Errno> {
        let is_hidden = is_hidden || is_opaque(upper);
        let names = names(upper)?;
        for name in &names {
            if self.is_full() {
                return Ok(());
            }
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            let above = statat(upper, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let beneath = lower.map_or(Ok(None), |lower| look(lower, name))?;
            match (FileType::from_raw_mode(above.st_mode), beneath) {
                (FileType::CharacterDevice, beneath) if above.st_rdev == 0 => {
                    if beneath.is_some() {
                        self.add(&path, OverlayChange::Removed);
                    }
                }
                (FileType::Directory, Some(beneath)) if is_folder(&beneath) => {
                    if depth < DEPTH_MAX {
                        let lower = lower.map(|lower| open(lower, name)).transpose()?;
                        let upper = open(upper, name)?;
                        self.folder(&upper, lower.as_ref(), &path, (is_hidden, depth + 1))?;
                    } else {
                        self.add(&path, OverlayChange::Changed);
                    }
                }
                (kind, beneath) => {
                    let is_new = beneath.is_none();
                    self.add(
                        &path,
                        if is_new { OverlayChange::Added } else { OverlayChange::Changed },
                    );
                    if kind == FileType::Directory && depth < DEPTH_MAX {
                        self.folder(&open(upper, name)?, None, &path, (true, depth + 1))?;
                    }
                }
            }
        }
        if let Some(lower) = lower.filter(|_| is_hidden) {
            for name in self::names(lower)? {
                if names.binary_search(&name).is_err() {
                    let path = path.join(OsStr::from_bytes(name.to_bytes()));
                    self.add(&path, OverlayChange::Removed);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub(super) fn look(folder: &OwnedFd, name: &CStr) -> Result<Option<Stat>, Errno> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0_u8; 1];
    OPAQUE.iter().any(|name| {
        fgetxattr(folder, *name, &mut value).is_ok_and(|len| len == 1 && value == *b"y")
    })
}

pub(super) fn open(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, path, FOLDER, Mode::empty())
}

/// Returns the names of a folder, sorted.
pub(super) fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, mknodat, setxattr};

    use super::*;

    fn whiteout(path: &Path) {
        mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    #[test]
    fn every_kind_of_change_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (upper, lower) = (folder.path().join("upper"), folder.path().join("lower"));
        for path in ["kept", "hidden/inner", "file-below"] {
            std::fs::create_dir_all(lower.join(path)).unwrap();
        }
        for path in ["kept/old", "kept/gone", "hidden/a", "hidden/b", "hidden/inner/x"] {
            std::fs::write(lower.join(path), "1").unwrap();
        }
        for path in ["kept", "hidden/inner", "new/deep"] {
            std::fs::create_dir_all(upper.join(path)).unwrap();
        }
        for path in ["kept/old", "kept/fresh", "hidden/a", "new/deep/f", "file-below"] {
            std::fs::write(upper.join(path), "2").unwrap();
        }
        whiteout(&upper.join("kept/gone"));
        // A file that was made and removed again leaves a mark that hides nothing.
        whiteout(&upper.join("kept/never"));
        setxattr(upper.join("hidden"), OPAQUE[0], b"y", XattrFlags::empty()).unwrap();
        let seen = changes(&upper, &lower).unwrap();
        let seen: Vec<_> =
            seen.iter().map(|entry| (entry.path.to_str().unwrap(), entry.change)).collect();
        let expected = [
            ("file-below", OverlayChange::Changed),
            ("hidden/a", OverlayChange::Changed),
            ("hidden/b", OverlayChange::Removed),
            ("hidden/inner/x", OverlayChange::Removed),
            ("kept/fresh", OverlayChange::Added),
            ("kept/gone", OverlayChange::Removed),
            ("kept/old", OverlayChange::Changed),
            ("new", OverlayChange::Added),
            ("new/deep", OverlayChange::Added),
            ("new/deep/f", OverlayChange::Added),
        ];
        assert_eq!(seen, expected);
        assert_eq!(changes(&folder.path().join("none"), &lower).unwrap(), []);
    }
}
