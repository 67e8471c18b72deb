//! Bringing what an upper layer of overlayfs changes over to the folder beneath it.
//!
//! Both sides may be hostile: the layer was written by a neuron, and the folder may be changed by
//! anybody meanwhile. So everything goes from descriptor to descriptor and follows no link, and
//! what is put in place is written beside it first. The layer itself is never changed.

mod content;
mod place;

use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use ::agent::neuron::layout;
use driver_api::{
    BringOver, BroughtOver, BroughtPath, Held, Kept, NeuronError, OverlayChange, Writes,
};
use protocol::{NeuronId, Timestamp};
use rustix::fs::{AtFlags, CWD, FileType, Stat, fgetxattr, statat};
use rustix::io::Errno;

use self::content::Texts;
use self::place::Place;
use super::changes::{is_folder, is_opaque, look, names, open};
use super::disk::reach;
use super::driver::{Driver, failed};
use super::seen::{Seen, look as look_at, owner_elsewhere};
use super::state::State;

/// How many paths are brought over at once: a project with all that it depends on. What is beyond
/// that is no review for a person, and is held in memory.
const PATHS_MAX: usize = 100_000;

/// How deep folders are looked into: each level takes two descriptors.
const DEPTH_MAX: usize = 128;

/// What tools outside execute by themselves, or read to know what to execute, in any folder: what
/// is read-only in a folder that is written through.
const EXECUTED: [&str; 11] = [
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

/// The same within git's own folders.
const EXECUTED_BY_GIT: [&str; 4] = ["commondir", "config", "config.worktree", "hooks"];

/// Folders of git in which any name may be that of a branch or an object.
const NAMES_OF_GIT: [&str; 3] = ["logs", "objects", "refs"];

/// The mark of a file that was copied up from the folder beneath: in a mount of root and in one of
/// a user namespace.
const ORIGIN: [&CStr; 2] = [c"user.overlay.origin", c"trusted.overlay.origin"];

impl Driver {
    /// Brings over what a neuron changes of its folder; ends what runs in it first.
    pub(super) fn bring_over(
        &self,
        id: &NeuronId,
        how: BringOver,
    ) -> Result<BroughtOver, NeuronError> {
        let what = || format!("bring over the changes of neuron {id}");
        let lock = self.change_of(id)?;
        let brought = (|| {
            let there = match look_at(&self.home, id, true).map_err(failed(what()))? {
                Seen::There(there) => there,
                Seen::Absent | Seen::Abandoned | Seen::Starting(_) => {
                    return Err(NeuronError::NotFound(id.clone()));
                }
            };
            if there.process.is_some()
                && let Some(pid) = owner_elsewhere(&self.home, id).map_err(failed(what()))?
            {
                return Err(NeuronError::OwnedElsewhere(id.clone(), pid));
            }
            let (folder, state) = overlaid(id, there.state)?;
            if there.process.is_some() {
                self.halt(id).map_err(failed(what()))?;
            }
            let layer = reach(&self.home.folder(id)).map_err(failed(what()))?;
            bring_over(&layer.path().join(layout::FOLDER_UPPER), &folder, state.created_at, how)
        })();
        lock.remove();
        brought
    }
}

/// Returns the folder that a neuron has a layer of its own over.
fn overlaid(
    id: &NeuronId,
    state: Option<State>,
) -> Result<(std::path::PathBuf, State), NeuronError> {
    let unsupported =
        |text: &str| NeuronError::NotSupported(format!("neuron {id} {text}: nothing waits in it"));
    let state = state.ok_or_else(|| unsupported("has lost its state"))?;
    if state.writes() == Writes::Folder {
        return Err(unsupported("writes to its folder itself"));
    }
    if state.is_in_memory {
        return Err(unsupported("has a limited disk, which is in memory"));
    }
    let folder = state.folder.clone().ok_or_else(|| unsupported("has no folder beneath"))?;
    Ok((folder, state))
}

/// Brings a layer over to the folder beneath it. What changed in the folder after `since` is kept
/// there.
fn bring_over(
    upper: &Path,
    folder: &Path,
    since: Timestamp,
    how: BringOver,
) -> Result<BroughtOver, NeuronError> {
    let what = || format!("bring changes over to {}", folder.display());
    let upper = match open(CWD, upper) {
        Ok(upper) => upper,
        // Nothing was ever written.
        Err(Errno::NOENT) => return Ok(BroughtOver::default()),
        Err(error) => return Err(failed(what())(error)),
    };
    let folder = open(CWD, folder).map_err(failed(what()))?;
    let mut walk = Walk {
        how,
        place: Place::new(since),
        texts: Texts::default(),
        brought: BroughtOver::default(),
        seen: 0,
    };
    walk.folder(&upper, Some(&folder), Path::new(""), (false, 0))?;
    walk.brought.changed.sort_by(|one, other| one.path.cmp(&other.path));
    walk.brought.kept.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(walk.brought)
}

/// One entry of a layer, with what the folder has of that name.
struct Entry<'a> {
    upper: &'a OwnedFd,
    lower: Option<&'a OwnedFd>,
    name: &'a CStr,
    path: &'a Path,
    above: Stat,
    beneath: Option<Stat>,
}

struct Walk {
    how: BringOver,
    place: Place,
    texts: Texts,
    brought: BroughtOver,
    seen: usize,
}

impl Walk {
    fn folder(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        path: &Path,
        (is_hidden, depth): (bool, usize),
    ) -> Result<(), NeuronError> {
        let what = |error: Errno| failed(format!("bring over {}", path.display()))(error);
        let is_hidden = is_hidden || is_opaque(upper);
        let names = names(upper).map_err(what)?;
        for name in &names {
            self.seen += 1;
            if self.seen > PATHS_MAX {
                return Err(NeuronError::NotSupported(format!(
                    "more than {PATHS_MAX} paths were changed: they are not brought over at once"
                )));
            }
            let inner = path.join(OsStr::from_bytes(name.to_bytes()));
            let above = statat(upper, name, AtFlags::SYMLINK_NOFOLLOW).map_err(what)?;
            let beneath = lower.map_or(Ok(None), |lower| look(lower, name)).map_err(what)?;
            let entry = Entry { upper, lower, name, path: &inner, above, beneath };
            self.entry(&entry, (is_hidden, depth))?;
        }
        if let Some(lower) = lower.filter(|_| is_hidden) {
            for name in self::names(lower).map_err(what)? {
                if names.binary_search(&name).is_err() {
                    let inner = path.join(OsStr::from_bytes(name.to_bytes()));
                    self.remove(lower, &name, &inner)?;
                }
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        (is_hidden, depth): (bool, usize),
    ) -> Result<(), NeuronError> {
        let kind = FileType::from_raw_mode(entry.above.st_mode);
        let is_folder_beneath = entry.beneath.as_ref().is_some_and(is_folder);
        match kind {
            FileType::CharacterDevice if entry.above.st_rdev == 0 => {
                match entry.lower.filter(|_| entry.beneath.is_some()) {
                    Some(lower) => self.remove(lower, entry.name, entry.path),
                    None => Ok(()),
                }
            }
            FileType::Directory => {
                if depth >= DEPTH_MAX {
                    self.keep(entry.path, "it is nested too deep to be brought over");
                    return Ok(());
                }
                if !is_folder_beneath && !self.put(entry)? {
                    return Ok(());
                }
                let what = || failed(format!("open {}", entry.path.display()));
                let upper = open(entry.upper, entry.name).map_err(what())?;
                // Looked at only, it is not there yet.
                let is_there = is_folder_beneath || !self.how.is_dry;
                let lower = entry.lower.filter(|_| is_there);
                let lower = lower.map(|lower| open(lower, entry.name)).transpose();
                let lower = lower.map_err(what())?;
                let is_hidden = is_hidden && is_folder_beneath;
                self.folder(&upper, lower.as_ref(), entry.path, (is_hidden, depth + 1))
            }
            FileType::RegularFile | FileType::Symlink => self.put(entry).map(drop),
            _ => {
                self.keep(entry.path, "it is a device, a socket or a pipe");
                Ok(())
            }
        }
    }

    /// Puts something in place; tells whether it is there then, or would be.
    fn put(&mut self, entry: &Entry<'_>) -> Result<bool, NeuronError> {
        let Entry { upper, lower, name, path, above, beneath } = entry;
        let what = || failed(format!("bring over {}", path.display()));
        let new = self.texts.held(upper, name, above).map_err(what())?;
        let old = match (lower, beneath) {
            (Some(lower), Some(beneath)) => {
                if content::is_same((upper, above), (lower, beneath), name).map_err(what())? {
                    return Ok(true);
                }
                self.texts.held(lower, name, beneath).map_err(what())?
            }
            _ => Held::Nothing,
        };
        if !self.how.is_forced {
            if is_executed(path) {
                self.keep(path, "tools outside execute it by themselves");
                return Ok(false);
            }
            let is_gone = beneath.is_none() && was_copied_up(upper, name);
            if is_gone {
                self.keep(path, "it was removed from the folder meanwhile");
                return Ok(false);
            }
            if let Some(lower) = lower
                && beneath.is_some()
                && self.place.changed_since(lower, name).map_err(what())?
            {
                self.keep(path, "it was changed in the folder meanwhile");
                return Ok(false);
            }
        }
        if !self.how.is_dry {
            let Some(lower) = lower else { return Ok(false) };
            let put = self.place.put((upper, above), (lower, beneath.as_ref()), name);
            if let Err(error) = put {
                self.keep(path, &format!("it could not be written: {error}"));
                return Ok(false);
            }
        }
        let change = match beneath {
            None => OverlayChange::Added,
            Some(_) => OverlayChange::Changed,
        };
        self.brought.changed.push(BroughtPath { path: path.to_path_buf(), change, old, new });
        Ok(true)
    }

    fn remove(&mut self, lower: &OwnedFd, name: &CStr, path: &Path) -> Result<(), NeuronError> {
        let what = || failed(format!("remove {}", path.display()));
        let Some(beneath) = look(lower, name).map_err(what())? else { return Ok(()) };
        let old = self.texts.held(lower, name, &beneath).map_err(what())?;
        if !self.how.is_forced {
            if is_executed(path) {
                self.keep(path, "tools outside execute it by themselves");
                return Ok(());
            }
            if self.place.changed_since(lower, name).map_err(what())? {
                self.keep(path, "it was changed in the folder meanwhile, and removed in the layer");
                return Ok(());
            }
        }
        if !self.how.is_dry
            && let Err(error) = self.place.remove(lower, name)
        {
            self.keep(path, &format!("it could not be removed: {error}"));
            return Ok(());
        }
        let change = OverlayChange::Removed;
        let path = path.to_path_buf();
        self.brought.changed.push(BroughtPath { path, change, old, new: Held::Nothing });
        Ok(())
    }

    fn keep(&mut self, path: &Path, why: &str) {
        let path = path.display().to_string();
        self.brought.kept.push(Kept { path, why: why.to_owned() });
    }
}

/// Tells whether tools outside of the neuron would execute something by itself.
fn is_executed(path: &Path) -> bool {
    // A `.git` that comes, goes or becomes a file makes git take its settings from elsewhere.
    if path.file_name().is_some_and(|name| name == ".git") {
        return true;
    }
    let mut of_git = false;
    for part in path.components() {
        let Component::Normal(name) = part else { continue };
        if EXECUTED.iter().any(|known| name == *known) {
            return true;
        }
        if of_git && EXECUTED_BY_GIT.iter().any(|known| name == *known) {
            return true;
        }
        if of_git && NAMES_OF_GIT.iter().any(|known| name == *known) {
            return false;
        }
        of_git = of_git || name == ".git";
    }
    false
}

/// Tells whether a file was there beneath when the neuron first changed it.
fn was_copied_up(upper: &OwnedFd, name: &CStr) -> bool {
    let Ok(file) = content::open_plainly(upper, name) else { return false };
    let mut value = [0_u8; 256];
    ORIGIN.iter().any(|mark| match fgetxattr(&file, *mark, &mut value) {
        Ok(_) | Err(Errno::RANGE) => true,
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests;
