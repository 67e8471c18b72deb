//! What stays read-only in a folder that is written through: files that a tool outside of the
//! neuron would execute by itself, so that writing them would be a way out.
//!
//! What exists is covered by itself, read-only. A `.git` is held in its place too, or it could be
//! moved away and replaced. Nothing can be laid over what does not exist without leaving something
//! in the folder: that is reported.
//!
//! A socket in the folder leads to a program of the machine, past every wall: it is covered too.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::failure::{At, Outcome};
use super::layer::Layer;
use super::notes::Notes;
use super::root::move_onto;
use super::source::step_into;
use crate::sys::namespace::{MountChange, change_mount};

/// How many entries of the folder are looked at: a few milliseconds of work. What lies beyond is
/// reported.
const ENTRIES_MAX: usize = 5_000;

/// How many mounts may come of it: each costs every later look at the mount table.
const COVERS_MAX: usize = 128;

/// How many links are followed one after the other.
const LINKS_MAX: usize = 4;

/// Git's pointer to another folder is one line of a path.
const POINTER_MAX: u64 = 8 << 10;

/// What tools outside execute, or read to know what to execute, in any folder.
const NAMES: [&str; 11] = [
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".exrc",
    ".idea",
    ".mcp.json",
    ".narthex",
    ".nvim.lua",
    ".nvimrc",
    ".vscode",
    ".zed",
];

/// The same within git's own folders. The file `commondir` names another folder to take all of it
/// from.
const GIT_NAMES: [&str; 4] = ["commondir", "config", "config.worktree", "hooks"];

/// What should be there, or else can be made by the neuron.
const EXPECTED: [&str; 4] = [".envrc", ".git", ".narthex", ".vscode"];

/// The same within a `.git`.
const GIT_EXPECTED: [&str; 2] = ["commondir", "hooks"];

/// A folder to look into.
struct Visit {
    folder: OwnedFd,
    path: PathBuf,
    is_git: bool,
}

/// What is laid over a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// Itself, read-only.
    Closed,
    /// Itself, so that it can neither be moved nor removed.
    Held,
    /// Nothing that anybody listens on.
    Blank,
}

struct Guard<'a> {
    /// The folder itself, and its path inside.
    top: OwnedFd,
    path: &'a Path,
    covers: usize,
    unprotected: Vec<String>,
}

/// Covers what is in a folder that was just attached at `path`.
pub(super) fn lay(tree: &OwnedFd, path: &Path, notes: &mut Notes) -> Outcome<()> {
    let top = tree.try_clone().at("copy a descriptor")?;
    let mut guard = Guard { top, path, covers: 0, unprotected: Vec::new() };
    guard.walk()?;
    notes.have(Layer::Protected);
    guard.unprotected.dedup();
    if !guard.unprotected.is_empty() {
        guard.unprotected.truncate(8);
        notes.lack(
            Layer::Protected,
            format!(
                "in {} these can be made or changed and would be executed outside: {}; create them \
                 before, or let writes go to a layer",
                path.display(),
                guard.unprotected.join(", ")
            ),
        );
    }
    Ok(())
}

impl Guard<'_> {
    fn walk(&mut self) -> Outcome<()> {
        let step = "look for files to protect";
        let folder = self.top.try_clone().at(step)?;
        let mut queue = VecDeque::from([Visit { folder, path: PathBuf::new(), is_git: false }]);
        let mut budget = ENTRIES_MAX;
        while let Some(visit) = queue.pop_front() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            // What cannot be read by the neuron cannot be changed by it.
            let Ok(open) = openat(&visit.folder, ".", flags, Mode::empty()) else { continue };
            let Ok(entries) = Dir::new(open) else { continue };
            let mut seen: Vec<OsString> = Vec::new();
            for entry in entries.flatten() {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                if budget == 0 {
                    self.unprotected.push(format!("what comes after {ENTRIES_MAX} entries"));
                    return Ok(());
                }
                budget -= 1;
                seen.push(name.to_owned());
                self.look_at(&visit, name, kind_of(&visit.folder, name, &entry), &mut queue)?;
            }
            self.note_absent(&visit, &seen);
        }
        Ok(())
    }

    fn note_absent(&mut self, visit: &Visit, seen: &[OsString]) {
        let expected: &[&str] = if visit.path.as_os_str().is_empty() {
            &EXPECTED
        } else if visit.path.file_name() == Some(OsStr::new(".git")) {
            &GIT_EXPECTED
        } else {
            return;
        };
        for name in expected.iter().filter(|name| !seen.iter().any(|seen| seen == *name)) {
            self.unprotected.push(visit.path.join(name).display().to_string());
        }
    }

    fn look_at(
        &mut self,
        visit: &Visit,
        name: &OsStr,
        kind: FileType,
        queue: &mut VecDeque<Visit>,
    ) -> Outcome<()> {
        let path = visit.path.join(name);
        let is_folder = kind == FileType::Directory;
        if NAMES.iter().any(|known| name == *known)
            || visit.is_git && GIT_NAMES.iter().any(|known| name == *known)
        {
            return self.cover(&visit.folder, name, &path, Cover::Closed);
        }
        if kind == FileType::Socket {
            return self.cover(&visit.folder, name, &path, Cover::Blank);
        }
        let is_git = name == ".git";
        if is_git && kind == FileType::RegularFile {
            self.cover(&visit.folder, name, &path, Cover::Closed)?;
            return self.follow_pointer(visit, name);
        }
        if is_git && kind == FileType::Symlink {
            self.unprotected.push(path.display().to_string());
            let Some(inner) = self.target(&visit.folder, name, &visit.path) else { return Ok(()) };
            return self.guard_git(&inner);
        }
        if !is_folder {
            return Ok(());
        }
        // Of git's own folders only these hold further ones with hooks of their own.
        let is_worth = !visit.is_git
            || visit.path.file_name() != Some(OsStr::new(".git"))
            || name == "modules"
            || name == "worktrees";
        if is_git {
            self.cover(&visit.folder, name, &path, Cover::Held)?;
        }
        if is_worth && let Ok(folder) = step_into(&visit.folder, name) {
            queue.push_back(Visit { folder, path, is_git: is_git || visit.is_git });
        }
        Ok(())
    }

    /// A `.git` that is a file names the folder that is meant.
    fn follow_pointer(&mut self, visit: &Visit, name: &OsStr) -> Outcome<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = openat(&visit.folder, name, flags, Mode::empty()) else { return Ok(()) };
        let mut text = String::new();
        let read = std::fs::File::from(file).take(POINTER_MAX).read_to_string(&mut text);
        let Some(target) = text.trim().strip_prefix("gitdir:").filter(|_| read.is_ok()) else {
            return Ok(());
        };
        match beneath(self.path, &visit.path, Path::new(target.trim())) {
            Some(inner) => self.guard_git(&inner),
            None => Ok(()),
        }
    }

    /// Returns where a link leads, where that is beneath the folder.
    fn target(&self, folder: &OwnedFd, name: &OsStr, from: &Path) -> Option<PathBuf> {
        let target = readlinkat(folder, name, Vec::new()).ok()?;
        beneath(self.path, from, Path::new(OsStr::from_bytes(target.to_bytes())))
    }

    /// Opens a folder beneath, through no link.
    fn reach(&self, inner: &Path) -> Option<OwnedFd> {
        let top = self.top.try_clone().ok()?;
        inner.iter().try_fold(top, |folder, part| step_into(&folder, part).ok())
    }

    /// Covers what git executes in a folder of its own that stands elsewhere.
    fn guard_git(&mut self, inner: &Path) -> Outcome<()> {
        let Some(folder) = self.reach(inner) else { return Ok(()) };
        for name in GIT_NAMES {
            if statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.cover(&folder, name.as_ref(), &inner.join(name), Cover::Closed)?;
            } else if GIT_EXPECTED.contains(&name) {
                self.unprotected.push(inner.join(name).display().to_string());
            }
        }
        Ok(())
    }

    /// Lays something over what is in the folder; over what it leads to where it is a link.
    fn cover(&mut self, folder: &OwnedFd, name: &OsStr, path: &Path, cover: Cover) -> Outcome<()> {
        self.cover_behind(folder, (name, path), cover, LINKS_MAX)
    }

    fn cover_behind(
        &mut self,
        folder: &OwnedFd,
        (name, path): (&OsStr, &Path),
        cover: Cover,
        links: usize,
    ) -> Outcome<()> {
        if self.covers >= COVERS_MAX {
            self.unprotected.push(path.display().to_string());
            return Ok(());
        }
        let step = format!("protect {}", path.display());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(folder, name, flags, Mode::empty()).at(&step)?;
        if let Ok(facts) = rustix::fs::fstat(&place)
            && FileType::from_raw_mode(facts.st_mode) == FileType::Symlink
        {
            // The link can be replaced, which is told; what it leads to is executed today.
            self.unprotected.push(path.display().to_string());
            let Some(links) = links.checked_sub(1) else { return Ok(()) };
            let from = path.parent().unwrap_or(Path::new(""));
            let Some(inner) = self.target(folder, name, from) else { return Ok(()) };
            let (Some(above), Some(last)) = (inner.parent(), inner.file_name()) else {
                return Ok(());
            };
            let Some(folder) = self.reach(above) else { return Ok(()) };
            return match statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => self.cover_behind(&folder, (last, &inner), cover, links),
                Err(_) => Ok(()),
            };
        }
        self.covers += 1;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = match cover {
            Cover::Closed | Cover::Held => open_tree(&place, "", clone),
            Cover::Blank => open_tree(CWD, "/dev/null", clone & !OpenTreeFlags::AT_EMPTY_PATH),
        };
        let tree = tree.at(&step)?;
        let mut change = MountChange { is_recursive: true, ..MountChange::default() };
        if cover != Cover::Held {
            change.set = libc::MOUNT_ATTR_RDONLY;
        }
        change_mount(&tree, change).at(&step)?;
        move_onto(&tree, &place).at(&step)
    }
}

/// Tells what an entry is. Not every file system says so in its lists.
fn kind_of(folder: &OwnedFd, name: &OsStr, entry: &DirEntry) -> FileType {
    match entry.file_type() {
        FileType::Unknown => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |facts| FileType::from_raw_mode(facts.st_mode)),
        known => known,
    }
}

/// Where a path that stands in folder `from` (relative to `top`) leads, relative to `top`; nothing
/// where it leads out of it.
fn beneath(top: &Path, from: &Path, path: &Path) -> Option<PathBuf> {
    let whole = top.join(from).join(path);
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain.strip_prefix(top).ok().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_folders_beneath_or_nowhere() {
        let at =
            |from: &str, path: &str| beneath(Path::new("/srv/x"), Path::new(from), Path::new(path));
        assert_eq!(at("sub", "../.git/modules/sub"), Some(".git/modules/sub".into()));
        assert_eq!(at("", "/srv/x/.git/worktrees/w"), Some(".git/worktrees/w".into()));
        assert_eq!(at("", "../y/.git"), None);
        assert_eq!(at("a/b", "../../../../etc"), None);
    }
}
