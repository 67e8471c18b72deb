//! The folder of all checkpoints, as it lies on disk.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::lock::{self, Lock};
use crate::node::Key;
use crate::objects::{Objects, Shelf, make_folder};
use crate::options::{Limits, Options};
use crate::sessions::Sessions;
use crate::stat_cache::StatCache;

/// More digits than any size has.
const DIGITS_MAX: u64 = 32;

#[derive(Debug)]
pub(crate) struct Depot {
    folder: PathBuf,
    left_out: Vec<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) objects: Objects,
    pub(crate) sessions: Sessions,
    pub(crate) stats: StatCache,
    is_ready: Mutex<bool>,
}

impl Depot {
    pub(crate) fn new(options: Options) -> Self {
        let Options { folder, left_out, limits } = options;
        Self {
            limits,
            objects: Objects::new(&folder),
            sessions: Sessions::new(&folder),
            stats: StatCache::new(&folder),
            is_ready: Mutex::default(),
            folder,
            left_out,
        }
    }

    /// The folder in which captures write before they are done.
    pub(crate) fn aside(&self) -> PathBuf {
        self.folder.join("aside")
    }

    /// What is never captured or touched in a workspace of these roots.
    pub(crate) fn fence(&self, roots: &[Key]) -> Fence {
        Fence::around(&self.folder, &self.left_out, roots)
    }

    /// Enters the folder together with others; makes it where it is missing.
    pub(crate) fn enter(&self) -> Result<Lock> {
        self.prepare()?;
        lock::share(&self.lock_path())
    }

    /// Enters alone; none when others are always in it.
    pub(crate) fn enter_alone(&self) -> Result<Option<Lock>> {
        self.prepare()?;
        lock::alone(&self.lock_path())
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn prepare(&self) -> Result<()> {
        let mut is_ready = self.is_ready.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_ready {
            return Ok(());
        }
        let [objects, trees] =
            [Shelf::Contents, Shelf::Trees].map(|shelf| self.objects.shelf(shelf));
        let (sessions, stats) = (self.sessions.folder(), self.stats.folder());
        for folder in [&*self.aside(), &objects, &trees, sessions, stats] {
            make_folder(folder)?;
        }
        // What lies aside while nobody is here is of captures that were killed.
        if let Some(_lock) = lock::alone_now(&self.lock_path())? {
            self.clear_aside();
        }
        *is_ready = true;
        Ok(())
    }

    /// The lock must be held alone.
    pub(crate) fn clear_aside(&self) {
        for entry in fs::read_dir(self.aside()).into_iter().flatten().flatten() {
            let _gone = fs::remove_dir_all(entry.path());
        }
    }

    /// Sees that what turned out to be damaged is not taken for kept by the next capture.
    pub(crate) fn heal(&self, error: &Error) {
        if let Error::Missing(hash) | Error::Damaged(hash) = error {
            tracing::warn!(%hash, "something kept is damaged, and is thrown away");
            self.objects.remove(Shelf::Contents, hash);
            self.objects.remove(Shelf::Trees, hash);
            self.stats.clear();
        }
    }

    /// Adds to the count of kept bytes and returns it.
    pub(crate) fn grow(&self, bytes: u64) -> Result<u64> {
        self.count(|old| old.unwrap_or_else(|| self.measure()) + bytes)
    }

    /// Sets the count of kept bytes.
    pub(crate) fn set_size(&self, bytes: u64) -> Result<()> {
        self.count(|_| bytes).map(drop)
    }

    fn count(&self, change: impl FnOnce(Option<u64>) -> u64) -> Result<u64> {
        let path = self.folder.join("size");
        let count = || -> std::io::Result<u64> {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut file = options.open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            let mut text = String::new();
            (&file).take(DIGITS_MAX).read_to_string(&mut text)?;
            let size = change(text.trim().parse().ok());
            file.rewind()?;
            file.set_len(0)?;
            file.write_all(size.to_string().as_bytes())?;
            Ok(size)
        };
        count().map_err(|error| Error::io("count in", &path, error))
    }

    fn measure(&self) -> u64 {
        let shelves = [Shelf::Contents, Shelf::Trees].map(|shelf| self.objects.shelf(shelf));
        shelves.iter().flat_map(|shelf| files(shelf)).map(|(_, size)| size).sum()
    }
}

/// Lists the files in the folders of a folder, with their sizes.
pub(crate) fn files(shelf: &Path) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
    let folders = fs::read_dir(shelf).into_iter().flatten().flatten();
    let entries = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        metadata.is_file().then(|| (entry.path(), metadata.len()))
    })
}
