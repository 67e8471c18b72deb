//! Looking at every entry beneath the roots, with a few threads, reading only what changed.

mod queue;
pub(crate) mod reading;

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, RawDir, Stat, readlinkat, statat};
use rustix::io::Errno;

use crate::batch::Batch;
use crate::beneath::{LISTED, Root};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::library::Library;
use crate::node::{Entry, Key, Node, Stamp, Why};
use crate::objects::{Objects, Shelf};
use crate::options::Limits;
use crate::rules::{GIT, NAME, Rules};
use crate::stat_cache::{Read, Stats};
use crate::tree::Tree;
use queue::Queue;

/// How many files one thread takes to read at a time: a folder of many is shared by all threads.
const FILES_AT_ONCE: usize = 16;
/// How many threads walk: more only wait for each other and for the disk.
const THREADS_MAX: usize = 4;
/// The bytes of names that the kernel hands out at a time.
const LIST_BYTES: usize = 32 << 10;

/// What is walked, and what is known before.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) roots: &'a [Key],
    pub(crate) limits: &'a Limits,
    pub(crate) fence: &'a Fence,
    pub(crate) stats: &'a Stats,
    /// Whether all contents that `stats` names are known to be kept.
    pub(crate) is_trusted: bool,
    /// The tree whose paths are looked at even where rules ignore them by now.
    pub(crate) earlier: Option<(&'a Library<'a>, &'a Tree)>,
    pub(crate) objects: &'a Objects,
    /// Where contents go; none only looks.
    pub(crate) batch: Option<&'a Batch<'a>>,
    /// Files that changed since this time may change again without looking changed.
    pub(crate) settled_before_ns: i64,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) entries: Vec<Entry>,
    /// The files that need not be read again while they look the same.
    pub(crate) files: HashMap<Key, Read>,
    /// How many files were read.
    pub(crate) read: usize,
    /// How many files looked as they did when they were read before.
    pub(crate) unchanged: usize,
}

/// One thing to do.
#[derive(Debug)]
enum Task<'r> {
    Folder(Folder<'r>),
    Files(&'r Root, Vec<(Key, Stat)>),
}

#[derive(Debug)]
struct Folder<'r> {
    root: &'r Root,
    key: Key,
    stat: Stat,
    rules: Option<Arc<Rules>>,
    /// Whether it is ignored by now, so that only what the earlier tree has is looked at.
    is_hidden: bool,
}

/// A folder whose names are gone through.
#[derive(Debug)]
struct Listing<'r, 'q> {
    folder: Folder<'r>,
    open: OwnedFd,
    /// Files that have to be read.
    files: Vec<(Key, Stat)>,
    queue: &'q Queue<Task<'r>>,
}

/// Counts over all threads.
#[derive(Debug, Default)]
struct Counts {
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Walk<'_> {
    /// # Errors
    /// [`Error::TooMuch`] over a limit, [`Error::Io`] for a root that cannot be opened.
    pub(crate) fn run(&self) -> Result<Seen> {
        let mut roots = Vec::new();
        for key in self.roots {
            match Root::open(key) {
                Ok(root) => roots.push(root),
                // A turn may have removed its own workspace.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(Error::io("open", key.path(), error)),
            }
        }
        let counts = Counts::default();
        let mut seen = Seen::default();
        let queue = Queue::default();
        for root in &roots {
            let opened = root.at(&root.key, LISTED).and_then(rustix::fs::fstat);
            let stat = opened.map_err(|error| Error::io("open", root.key.path(), error))?;
            if self.fence.is_at(&root.key, &stat) {
                let (key, node) = (root.key.clone(), Node::left(Why::Own, &stat));
                seen.entries.push(Entry { key, node });
                continue;
            }
            let (key, rules) = (root.key.clone(), Rules::above(&root.key));
            queue.push(Task::Folder(Folder { root, key, stat, rules, is_hidden: false }));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let parts: Vec<Result<Seen>> = std::thread::scope(|scope| {
            let start = || {
                scope.spawn(|| {
                    let mut worker = Worker { walk: self, counts: &counts, seen: Seen::default() };
                    let done = queue.work(|task, queue| worker.perform(task, queue));
                    done.map(|()| worker.seen)
                })
            };
            let running: Vec<_> = (0..threads).map(|_| start()).collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined
                .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        for part in parts {
            let part = part?;
            seen.entries.extend(part.entries);
            seen.files.extend(part.files);
            seen.read += part.read;
            seen.unchanged += part.unchanged;
        }
        seen.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(seen)
    }
}

#[derive(Debug)]
struct Worker<'w> {
    walk: &'w Walk<'w>,
    counts: &'w Counts,
    seen: Seen,
}

impl Worker<'_> {
    fn perform<'r>(&mut self, task: Task<'r>, queue: &Queue<Task<'r>>) -> Result<()> {
        match task {
            Task::Folder(folder) => self.folder(folder, queue),
            Task::Files(root, files) => {
                files.into_iter().try_for_each(|(key, stat)| self.file(root, key, &stat))
            }
        }
    }

    fn folder<'r>(&mut self, folder: Folder<'r>, queue: &Queue<Task<'r>>) -> Result<()> {
        let opened = folder.root.at(&folder.key, LISTED);
        let listed = opened.and_then(|open| list(&open).map(|names| (open, names)));
        let (open, names) = match listed {
            Ok(listed) => listed,
            // It went away, or became something else, since its name was read.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(_) => {
                return self.add(folder.key, Node::left(Why::Unreadable, &folder.stat));
            }
        };
        let is_kept =
            if folder.is_hidden { self.earlier_node(&folder.key)?.is_some() } else { true };
        let node = if is_kept {
            Node::Folder { mode: Stamp::of(&folder.stat).mode }
        } else {
            Node::left(Why::Ignored, &folder.stat)
        };
        self.add(folder.key.clone(), node)?;
        let has_rules = names.iter().any(|name| name.as_bytes() == NAME.as_bytes());
        let rules = if has_rules {
            Rules::read(folder.rules.clone(), &folder.key, &open, Path::new(NAME))
        } else {
            folder.rules.clone()
        };
        let folder = Folder { rules, ..folder };
        let mut here = Listing { folder, open, files: Vec::new(), queue };
        for name in names {
            let key = here.folder.key.join(name.as_bytes());
            match statat(&here.open, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => self.entry(&mut here, &name, key, stat)?,
                Err(Errno::NOENT) => {}
                // A folder may be listed and not searched; a mount may be for others alone, or
                // its server dead. One such name is no reason to keep nothing.
                Err(_) => self.add(key, Node::unseen())?,
            }
            if here.files.len() >= FILES_AT_ONCE {
                queue.push(Task::Files(here.folder.root, std::mem::take(&mut here.files)));
            }
        }
        if !here.files.is_empty() {
            queue.push(Task::Files(here.folder.root, here.files));
        }
        Ok(())
    }

    fn entry(
        &mut self,
        here: &mut Listing<'_, '_>,
        name: &CStr,
        key: Key,
        stat: Stat,
    ) -> Result<()> {
        let folder = &here.folder;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if name.to_bytes() == GIT.as_bytes() {
            return self.add(key, Node::left(Why::Git, &stat));
        }
        if self.walk.fence.is_at(&key, &stat) {
            return self.add(key, Node::left(Why::Own, &stat));
        }
        if stat.st_dev != folder.root.device {
            return self.add(key, Node::left(Why::Mount, &stat));
        }
        let is_folder = kind == FileType::Directory;
        let is_ignored = folder.is_hidden
            || folder.rules.as_ref().is_some_and(|rules| rules.ignores(&key, is_folder));
        match kind {
            FileType::Directory => {
                if is_ignored && !self.is_known(&key)? {
                    return self.add(key, Node::left(Why::Ignored, &stat));
                }
                let (root, rules) = (folder.root, folder.rules.clone());
                let is_hidden = is_ignored;
                here.queue.push(Task::Folder(Folder { root, key, stat, rules, is_hidden }));
                Ok(())
            }
            FileType::RegularFile => {
                if is_ignored && self.is_passed_over(folder, &key, &stat)? {
                    return self.add(key, Node::left(Why::Ignored, &stat));
                }
                if let Some(node) = self.unchanged(&key, &stat)? {
                    return self.add(key, node);
                }
                here.files.push((key, stat));
                Ok(())
            }
            FileType::Symlink => match readlinkat(&here.open, name, Vec::new()) {
                Ok(target) => self.add(key, Node::Link { target: target.to_bytes().into() }),
                Err(Errno::NOENT | Errno::INVAL) => Ok(()),
                Err(_) => self.add(key, Node::left(Why::Unreadable, &stat)),
            },
            _ => self.add(key, Node::left(Why::Special, &stat)),
        }
    }

    /// Whether an ignored file is left out. Small ones in a folder that is not ignored are kept:
    /// nothing else could bring back the settings that people do not commit.
    fn is_passed_over(&self, folder: &Folder<'_>, key: &Key, stat: &Stat) -> Result<bool> {
        let is_small = Stamp::of(stat).size <= self.walk.limits.ignored_file_bytes_max;
        if is_small && !folder.is_hidden {
            return Ok(false);
        }
        Ok(!matches!(self.earlier_node(key)?, Some(Node::File { .. })))
    }

    /// Returns a file that looks as it did when it was read.
    fn unchanged(&mut self, key: &Key, stat: &Stat) -> Result<Option<Node>> {
        let stamp = Stamp::of(stat);
        if stamp.size > self.walk.limits.file_bytes_max {
            return Ok(Some(Node::left(Why::Large, stat)));
        }
        let Some(read) = self.walk.stats.files.get(key).filter(|read| read.stamp == stamp) else {
            return Ok(None);
        };
        let is_kept = self.walk.is_trusted || self.walk.objects.has(Shelf::Contents, &read.hash);
        self.seen.unchanged += usize::from(is_kept);
        let node = Node::File { mode: stamp.mode, size: stamp.size, hash: read.hash };
        Ok(is_kept.then_some(node))
    }

    fn earlier_node(&self, key: &Key) -> Result<Option<Node>> {
        let Some((library, tree)) = self.walk.earlier else { return Ok(None) };
        Ok(library.node(tree, key)?.filter(|node| !matches!(node, Node::Left(_))))
    }

    /// Whether the earlier tree has a folder or something beneath it.
    fn is_known(&self, key: &Key) -> Result<bool> {
        let Some((library, tree)) = self.walk.earlier else { return Ok(false) };
        Ok(self.earlier_node(key)?.is_some() || library.has_beneath(tree, key)?)
    }

    fn file(&mut self, root: &Root, key: Key, stat: &Stat) -> Result<()> {
        self.seen.read += 1;
        let outcome = reading::read(root, &key, self.walk.limits.file_bytes_max);
        let (bytes, stamp, is_steady) = match outcome {
            reading::Outcome::Read { bytes, stamp, is_steady } => (bytes, stamp, is_steady),
            reading::Outcome::Gone => return Ok(()),
            reading::Outcome::Large(stat) => return self.add(key, Node::left(Why::Large, &stat)),
            reading::Outcome::Unreadable => {
                return self.add(key, Node::left(Why::Unreadable, stat));
            }
        };
        let hash = crate::hash::Hash::of(&bytes);
        if let Some(batch) = self.walk.batch {
            batch.put(Shelf::Contents, hash, &bytes)?;
        }
        if is_steady && stamp.ctime_ns < self.walk.settled_before_ns {
            self.seen.files.insert(key.clone(), Read { stamp, hash });
        }
        let node = Node::File { mode: stamp.mode, size: bytes.len() as u64, hash };
        self.add(key, node)
    }

    fn add(&mut self, key: Key, node: Node) -> Result<()> {
        let limits = self.walk.limits;
        if self.counts.entries.fetch_add(1, Ordering::Relaxed) >= limits.entries_max {
            let most = limits.entries_max;
            return Err(Error::TooMuch(format!(
                "the workspace has more than {most} files and folders"
            )));
        }
        if let Node::File { size, .. } = &node
            && self.counts.bytes.fetch_add(*size, Ordering::Relaxed) + size > limits.tree_bytes_max
        {
            let most = stdx::bytes(limits.tree_bytes_max);
            return Err(Error::TooMuch(format!(
                "the files of the workspace have more than {most}"
            )));
        }
        self.seen.entries.push(Entry { key, node });
        Ok(())
    }
}

/// Reads the names in a folder.
pub(crate) fn list(folder: &OwnedFd) -> std::result::Result<Vec<CString>, Errno> {
    let mut space = Vec::with_capacity(LIST_BYTES);
    let mut names = Vec::new();
    let mut listing = RawDir::new(folder, space.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
