//! Doing it: what goes first, the deepest before what holds it; then what is made; then the
//! permissions of folders, so that none is closed before its contents are there.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, chmodat, fchmod, fstat, fsync, mkdirat, renameat,
    renameat_with, statat, symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::aside;
use super::plan::Step;
use crate::beneath::PASSED;
use crate::ground::{Ground, name};
use crate::node::{Key, Node, Stamp};
use crate::objects::{Objects, Shelf};

/// Up to so many files and folders are synced one by one; for more it is cheaper to sync once.
const SYNCED_ALONE_MAX: usize = 64;
/// What a folder must let its owner do while its contents are changed.
const OPEN: u32 = 0o700;

/// Why a path could not be done.
#[derive(Debug)]
enum Trouble {
    System(Errno),
    Changed,
    NotEmpty,
    Contents(String),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOTEMPTY => Self::NotEmpty,
            other => Self::System(other),
        }
    }
}

impl Trouble {
    fn told(self) -> String {
        match self {
            Self::System(Errno::LOOP) => "it is behind a link now".to_owned(),
            Self::System(error) => {
                format!("it could not be brought back: {}", std::io::Error::from(error))
            }
            Self::Changed => "changed while it was being brought back".to_owned(),
            Self::NotEmpty => "it holds something that stays".to_owned(),
            Self::Contents(what) => format!("it could not be brought back: {what}"),
        }
    }
}

type Done = Result<(), Trouble>;

/// Does all steps and returns those that failed, with the reason.
pub(super) fn apply(
    ground: &mut Ground,
    objects: &Objects,
    steps: &BTreeMap<Key, Step>,
) -> Vec<(Key, String)> {
    let is_synced_alone = steps.len() <= SYNCED_ALONE_MAX;
    let mut work = Work { ground, objects, lifted: Vec::new(), is_synced_alone };
    let mut failed = Vec::new();
    for step in steps.values().rev().filter(|step| step.target.is_none()) {
        if let Err(trouble) = work.remove(step) {
            failed.push((step.key.clone(), trouble.told()));
        }
    }
    for step in steps.values().filter(|step| step.target.is_some()) {
        if let Err(trouble) = work.make(step) {
            failed.push((step.key.clone(), trouble.told()));
        }
    }
    for step in steps.values().rev() {
        if let Some(Node::Folder { mode }) = &step.target
            && !failed.iter().any(|(key, _)| *key == step.key)
            && let Err(error) = work.set_mode(&step.key, *mode)
        {
            failed.push((step.key.clone(), Trouble::from(error).told()));
        }
    }
    work.close(steps);
    work.sync(steps);
    failed
}

#[derive(Debug)]
struct Work<'w> {
    ground: &'w mut Ground,
    objects: &'w Objects,
    /// Folders that were opened up for their owner, with their modes before.
    lifted: Vec<(Key, u32)>,
    is_synced_alone: bool,
}

impl Work<'_> {
    fn remove(&mut self, step: &Step) -> Done {
        let flags = if step.is_folder_now() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        self.within(&step.key, |_, folder| {
            still(step, folder)?;
            Ok(unlinkat(folder, name(&step.key), flags)?)
        })
    }

    fn make(&mut self, step: &Step) -> Done {
        match &step.target {
            Some(Node::Folder { .. }) => self.make_folder(step),
            Some(Node::Link { target }) => {
                let target = Key::from_bytes(target);
                self.within(&step.key, |_, folder| {
                    let link = |name: &Path| symlinkat(target.path(), folder, name);
                    let (aside, ()) = aside::make(link)?;
                    put(step, folder, &aside)
                })
            }
            Some(Node::File { mode, hash, .. }) => match step.contents() {
                None => {
                    self.within(&step.key, |_, folder| still(step, folder))?;
                    Ok(self.set_mode(&step.key, *mode)?)
                }
                Some(_) => {
                    let bytes = self.objects.read(Shelf::Contents, hash);
                    let bytes = bytes.map_err(|error| Trouble::Contents(error.to_string()))?;
                    self.within(&step.key, |work, folder| work.write(step, folder, *mode, &bytes))
                }
            },
            Some(Node::Left(_)) | None => Ok(()),
        }
    }

    fn write(&mut self, step: &Step, folder: &OwnedFd, mode: u32, bytes: &[u8]) -> Done {
        let (aside, file) = aside::make_file(folder)?;
        let filled = fill(&file, bytes, mode, self.is_synced_alone);
        let done = filled.map_err(Trouble::from).and_then(|()| put(step, folder, &aside));
        if done.is_err() {
            let _gone = unlinkat(folder, &aside, AtFlags::empty());
        }
        done
    }

    /// Makes a folder that its owner may fill; its own permissions come last.
    fn make_folder(&mut self, step: &Step) -> Done {
        if step.is_folder_now() {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(OPEN);
        self.within(&step.key, |_, folder| {
            if step.now.is_none() {
                return Ok(mkdirat(folder, name(&step.key), mode)?);
            }
            let (aside, ()) = aside::make(|name| mkdirat(folder, name, mode))?;
            let done = put(step, folder, &aside);
            if done.is_err() {
                let _gone = unlinkat(folder, &aside, AtFlags::REMOVEDIR);
            }
            done
        })?;
        if self.ground.is_root(&step.key) {
            self.ground.reopen();
        }
        Ok(())
    }

    /// Works in the folder of a path; opens it up for its owner where it must be.
    fn within(&mut self, key: &Key, mut work: impl FnMut(&mut Self, &OwnedFd) -> Done) -> Done {
        let tried = match self.ground.folder_of(key) {
            Ok(folder) => work(self, &folder),
            Err(error) => Err(error.into()),
        };
        let Err(Trouble::System(Errno::ACCESS)) = tried else { return tried };
        if self.ground.is_root(key) || !self.lift(key) {
            return tried;
        }
        let folder = self.ground.folder_of(key)?;
        work(self, &folder)
    }

    /// Lets the owner into the folders above a path; says whether that changed anything.
    fn lift(&mut self, key: &Key) -> bool {
        let above = std::iter::successors(key.parent(), Key::parent);
        let mut folders: Vec<Key> = above.take_while(|folder| self.ground.covers(folder)).collect();
        folders.reverse();
        let mut is_lifted = false;
        for folder in folders {
            let Ok(stat) = self.ground.at(&folder, PASSED).and_then(fstat) else { continue };
            let mode = Stamp::of(&stat).mode;
            if mode & OPEN != OPEN && self.set_mode(&folder, mode | OPEN).is_ok() {
                self.lifted.push((folder, mode));
                is_lifted = true;
            }
        }
        is_lifted
    }

    /// Gives folders that were opened up their modes again.
    fn close(&mut self, steps: &BTreeMap<Key, Step>) {
        for (key, mode) in std::mem::take(&mut self.lifted).into_iter().rev() {
            if steps.get(&key).is_none_or(|step| !step.is_folder_then())
                && let Err(error) = self.set_mode(&key, mode)
                && error != Errno::NOENT
            {
                tracing::warn!(folder = key.shown(), %error, "a mode was not set back");
            }
        }
    }

    /// The path is opened without following links, and the mode set on what was opened.
    fn set_mode(&self, key: &Key, mode: u32) -> Result<(), Errno> {
        let open = self.ground.at(key, OFlags::PATH | OFlags::NOFOLLOW)?;
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())
    }

    /// Makes what was done durable; that it is done does not depend on it.
    fn sync(&self, steps: &BTreeMap<Key, Step>) {
        let folders: BTreeSet<Key> = steps.keys().filter_map(Key::parent).collect();
        let roots = steps.keys().filter(|key| self.ground.is_root(key));
        let is_few = self.is_synced_alone && folders.len() <= SYNCED_ALONE_MAX;
        let list: Vec<&Key> = folders.iter().chain(roots).collect();
        for key in list.into_iter().filter(|key| self.ground.covers(key)) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let Ok(folder) = self.ground.at(key, flags) else { continue };
            let synced = if is_few { fsync(&folder) } else { syncfs(&folder) };
            if let Err(error) = synced {
                tracing::warn!(folder = key.shown(), %error, "a restored folder was not synced");
            }
            if !is_few {
                return;
            }
        }
    }
}

fn fill(file: &OwnedFd, bytes: &[u8], mode: u32, is_synced: bool) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(file, rest))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    fchmod(file, Mode::from_raw_mode(mode))?;
    if is_synced { fsync(file) } else { Ok(()) }
}

/// Sees that a path is still what the plan was made for.
fn still(step: &Step, folder: &OwnedFd) -> Done {
    let now = match statat(folder, name(&step.key), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(Stamp::of(&stat)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let is_same = match (&step.stamp, &now) {
        // The times of a folder change with what is done in it.
        (Some(then), Some(now)) if step.is_folder_now() => then.inode == now.inode,
        // The time of the last change of any kind moves with other names of the same file, which
        // may be steps of the same plan.
        (Some(then), Some(now)) => Stamp { ctime_ns: then.ctime_ns, ..*now } == *then,
        (then, now) => then == now,
    };
    if is_same { Ok(()) } else { Err(Trouble::Changed) }
}

/// Puts what was made aside in the place of what is there, in one step.
fn put(step: &Step, folder: &OwnedFd, aside: &Path) -> Done {
    let name = name(&step.key);
    let done = still(step, folder).and_then(|()| {
        if step.now.is_none() {
            return Ok(place(folder, aside, name)?);
        }
        if step.is_folder_now() == step.is_folder_then() {
            return Ok(renameat(folder, aside, folder, name)?);
        }
        swap(step, folder, aside)
    });
    if done.is_err() {
        let flags = if step.is_folder_then() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _gone = unlinkat(folder, aside, flags);
    }
    done
}

/// Takes a free name, and never one that somebody took a moment ago.
fn place(folder: &OwnedFd, aside: &Path, name: &Path) -> Result<(), Errno> {
    match renameat_with(folder, aside, folder, name, RenameFlags::NOREPLACE) {
        // Not every file system can.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, aside, folder, name),
        done => done,
    }
}

/// A folder and something else change places; then the old one goes.
fn swap(step: &Step, folder: &OwnedFd, aside: &Path) -> Done {
    let name = name(&step.key);
    let old = if step.is_folder_now() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match renameat_with(folder, aside, folder, name, RenameFlags::EXCHANGE) {
        Ok(()) => {
            let removed = unlinkat(folder, aside, old);
            if removed.is_err() {
                renameat_with(folder, aside, folder, name, RenameFlags::EXCHANGE)?;
            }
            Ok(removed?)
        }
        Err(Errno::INVAL | Errno::NOSYS) => {
            unlinkat(folder, name, old)?;
            Ok(renameat(folder, aside, folder, name)?)
        }
        Err(error) => Err(error.into()),
    }
}
