//! What one capture adds: written aside, made durable together, then put under its names. An
//! object that stands under its name is whole, whenever the power went.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::objects::{Objects, Shelf, make_folder, pack, sync_folder, write_new};

/// Up to so many files are synced one by one; for more it is cheaper to sync the file system once.
const SYNCED_ALONE_MAX: usize = 16;
/// How many names are tried for the folder of a batch: others are of captures at the same time.
const NAMES_TRIED: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct Batch<'a> {
    objects: &'a Objects,
    aside: PathBuf,
    /// The folder where this batch writes, once it wrote something.
    folder: Mutex<Option<PathBuf>>,
    new: Mutex<BTreeMap<Hash, Shelf>>,
    bytes: AtomicU64,
}

impl<'a> Batch<'a> {
    /// `aside` is the folder in which batches have their folders.
    pub(crate) fn new(objects: &'a Objects, aside: &Path) -> Self {
        Self {
            objects,
            aside: aside.to_owned(),
            folder: Mutex::default(),
            new: Mutex::default(),
            bytes: AtomicU64::new(0),
        }
    }

    /// Adds an object where it is not kept yet.
    pub(crate) fn put(&self, shelf: Shelf, hash: Hash, bytes: &[u8]) -> Result<()> {
        if self.objects.has(shelf, &hash) {
            return Ok(());
        }
        // Whoever enters the name first writes; the batch is only finished when all have.
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.insert(hash, shelf).is_some() {
            return Ok(());
        }
        drop(new);
        let packed = pack(bytes);
        self.bytes.fetch_add(packed.len() as u64, Ordering::Relaxed);
        write_new(&self.folder()?.join(hash.to_string()), &packed).map(drop)
    }

    fn folder(&self) -> Result<PathBuf> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*folder {
            return Ok(folder.clone());
        }
        for number in 0..NAMES_TRIED {
            let path = self.aside.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    *folder = Some(path.clone());
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("make the folder", &path, error)),
            }
        }
        Err(Error::io(
            "make a folder in",
            &self.aside,
            io::Error::from(io::ErrorKind::AlreadyExists),
        ))
    }

    /// Makes everything durable and gives it its names. Returns how many bytes were added.
    pub(crate) fn commit(self) -> Result<u64> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(folder) = folder else { return Ok(0) };
        let new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        let names = || new.keys().map(|hash| folder.join(hash.to_string()));
        if new.len() > SYNCED_ALONE_MAX {
            self.sync_all()?;
        } else {
            names().try_for_each(|path| sync_folder(&path))?;
        }
        let mut folders = BTreeSet::new();
        for ((hash, shelf), from) in new.iter().zip(names()) {
            let place = self.objects.place(*shelf, hash);
            if let Some(shard) = place.parent()
                && folders.insert(shard.to_owned())
                && !shard.is_dir()
            {
                make_folder(shard)?;
                folders.insert(self.objects.shelf(*shelf));
            }
            fs::rename(&from, &place).map_err(|error| Error::io("rename", &from, error))?;
        }
        if folders.len() > SYNCED_ALONE_MAX {
            self.sync_all()?;
        } else {
            folders.iter().try_for_each(|path| sync_folder(path))?;
        }
        Ok(self.bytes.load(Ordering::Relaxed))
    }

    fn sync_all(&self) -> Result<()> {
        let sync = || {
            let folder = File::open(&self.aside)?;
            rustix::fs::syncfs(&folder).map_err(io::Error::from)
        };
        sync().map_err(|error| Error::io("sync", &self.aside, error))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(folder) = folder {
            let _gone = fs::remove_dir_all(folder);
        }
    }
}
