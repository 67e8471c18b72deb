//! What files looked like when they were read: as long as they still do, they are not read again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::hash::{self, Hash};
use crate::node::{Key, Stamp};
use crate::objects::{read_small, write_new};
use crate::wire::{Reader, Writer};

const HEAD: &[u8] = b"narthex stats 1\n";
/// The largest file of this kind: half a million entries.
const CACHE_BYTES_MAX: u64 = 128 << 20;
/// More than the bytes before the first file.
const START_BYTES: u64 = 64;
/// How many sets of roots are held in memory: a server's busiest workspaces.
const HELD_MAX: usize = 4;

/// A file as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) stamp: Stamp,
    pub(crate) hash: Hash,
}

/// What is known of the files of some roots.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// The tree that was captured then. While it is kept, so are all contents named here.
    pub(crate) tree: Option<Hash>,
    pub(crate) files: HashMap<Key, Read>,
}

#[derive(Debug)]
pub(crate) struct StatCache {
    folder: PathBuf,
    held: Mutex<Vec<(Hash, Arc<Stats>)>>,
}

impl StatCache {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.join("stats"), held: Mutex::default() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn load(&self, roots: &[Key]) -> Arc<Stats> {
        let name = name(roots);
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.iter().find(|(other, _)| *other == name);
        if let Some((_, stats)) = found {
            return Arc::clone(stats);
        }
        drop(held);
        let bytes = read_small(&self.folder.join(name.to_string()), CACHE_BYTES_MAX);
        let stats = Arc::new(bytes.and_then(|bytes| decode(&bytes)).unwrap_or_default());
        self.hold(name, &stats);
        stats
    }

    /// Keeps what is known, for this process and the next. It is only ever a shortcut, so it is
    /// not synced: a damaged file is not believed.
    pub(crate) fn save(&self, roots: &[Key], stats: Stats) -> Result<()> {
        let name = name(roots);
        let bytes = encode(&stats);
        self.hold(name, &Arc::new(stats));
        let path = self.folder.join(name.to_string());
        let aside = path.with_extension(std::process::id().to_string());
        let _old = fs::remove_file(&aside);
        write_new(&aside, &bytes)?;
        fs::rename(&aside, &path).map_err(|error| Error::io("rename", &aside, error))
    }

    /// How many bytes are kept on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|(_, bytes)| bytes).sum()
    }

    /// Returns how many bytes are kept for each tree.
    pub(crate) fn bytes_by_tree(&self) -> HashMap<Hash, u64> {
        let mut all = HashMap::new();
        for (path, bytes) in self.files() {
            if let Some(tree) = tree_of(&path) {
                *all.entry(tree).or_default() += bytes;
            }
        }
        all
    }

    /// Removes what is of other trees than these, and what was never finished: without its tree,
    /// a file says nothing that may be believed. Nobody else may be at work.
    pub(crate) fn retain(&self, trees: &HashSet<Hash>) {
        for (path, _) in self.files() {
            let is_whole = path.extension().is_none();
            if !is_whole || !tree_of(&path).is_some_and(|tree| trees.contains(&tree)) {
                let _gone = fs::remove_file(path);
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
    }

    /// Forgets everything: something that was taken for kept is not.
    pub(crate) fn clear(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for (path, _) in self.files() {
            let _gone = fs::remove_file(path);
        }
    }

    fn hold(&self, name: Hash, stats: &Arc<Stats>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(other, _)| *other != name);
        if held.len() >= HELD_MAX {
            held.remove(0);
        }
        held.push((name, Arc::clone(stats)));
    }
}

fn name(roots: &[Key]) -> Hash {
    let mut bytes = Writer::default();
    for root in roots {
        bytes.bytes(root.as_bytes());
    }
    Hash::of(&bytes.finish())
}

/// Reads no more of a file than the name of its tree.
fn tree_of(path: &Path) -> Option<Hash> {
    let mut bytes = Vec::new();
    let mut start = fs::File::open(path).ok()?.take(START_BYTES);
    start.read_to_end(&mut bytes).ok()?;
    let mut from = Reader::after(HEAD, &bytes)?;
    if from.number()? == 0 { None } else { from.hash() }
}

fn encode(stats: &Stats) -> Vec<u8> {
    let mut to = Writer::of(HEAD);
    match &stats.tree {
        Some(tree) => to.number(1).hash(tree),
        None => to.number(0),
    };
    for (key, read) in &stats.files {
        let stamp = &read.stamp;
        to.bytes(key.as_bytes()).number(stamp.inode).number(u64::from(stamp.mode));
        to.number(stamp.size).signed(stamp.mtime_ns).signed(stamp.ctime_ns).hash(&read.hash);
    }
    let mut bytes = to.finish();
    let sum = Hash::of(&bytes);
    bytes.extend_from_slice(sum.as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Stats> {
    let (bytes, sum) = bytes.split_at_checked(bytes.len().checked_sub(hash::LENGTH)?)?;
    if Hash::of(bytes).as_bytes() != sum {
        return None;
    }
    let mut from = Reader::after(HEAD, bytes)?;
    let tree = if from.number()? == 0 { None } else { Some(from.hash()?) };
    let mut files = HashMap::new();
    while !from.is_empty() {
        let key = Key::from_bytes(from.bytes()?);
        let stamp = Stamp {
            inode: from.number()?,
            mode: from.number()?.try_into().ok()?,
            size: from.number()?,
            mtime_ns: from.signed()?,
            ctime_ns: from.signed()?,
        };
        files.insert(key, Read { stamp, hash: from.hash()? });
    }
    Some(Stats { tree, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_process_knows_what_the_last_one_did_and_believes_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let roots = [Key::from_bytes(b"/r")];
        let stats = || {
            let stamp = Stamp { inode: 1, mode: 0o644, size: 2, mtime_ns: -3, ctime_ns: 4 };
            let read = Read { stamp, hash: Hash::of(b"ab") };
            let files = [(Key::from_bytes(b"/r/\xff"), read)].into();
            Stats { tree: Some(Hash::of(b"tree")), files }
        };
        let cache = StatCache::new(folder.path());
        fs::create_dir(cache.folder()).unwrap();
        cache.save(&roots, stats()).unwrap();
        assert_eq!(*StatCache::new(folder.path()).load(&roots), stats());
        assert_eq!(*StatCache::new(folder.path()).load(&[]), Stats::default());
        let path = cache.folder().join(name(&roots).to_string());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(*StatCache::new(folder.path()).load(&roots), Stats::default(), "{at}");
        }
        cache.clear();
        assert_eq!(*cache.load(&roots), Stats::default());
    }

    #[test]
    fn what_is_of_no_kept_tree_goes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = StatCache::new(folder.path());
        fs::create_dir(cache.folder()).unwrap();
        let [kept, gone] = [b"kept", b"gone"].map(|text| Hash::of(text));
        let roots = |text: &str| [Key::from_bytes(text.as_bytes())];
        let of = |tree| Stats { tree, files: HashMap::new() };
        for (root, tree) in [("/a", Some(kept)), ("/b", Some(gone)), ("/c", None)] {
            cache.save(&roots(root), of(tree)).unwrap();
        }
        let file = |root| cache.folder().join(name(&roots(root)).to_string());
        fs::copy(file("/a"), file("/a").with_extension("77")).unwrap();
        let length = fs::metadata(file("/a")).unwrap().len();
        cache.retain(&[kept].into());
        let left: Vec<_> = cache.files().collect();
        assert_eq!(left, [(file("/a"), length)]);
        assert_eq!(cache.bytes(), length);
        assert_eq!(cache.bytes_by_tree(), [(kept, length)].into());
    }
}
