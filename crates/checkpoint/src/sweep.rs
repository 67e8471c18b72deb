//! Sweeping: what no kept tree needs goes. Whoever captures or restores is never disturbed.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use protocol::SessionId;

use crate::depot::{Depot, files};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::library::Library;
use crate::node::Node;
use crate::objects::Shelf;

/// How many trees of each session are kept before older ones of any: those around its newest
/// turn, without which nothing of it can be taken back.
const NEWEST_KEPT: usize = 2;
/// The part of the space that they may take, so that many sessions that nobody goes on with do not
/// cost the busy ones their past.
const NEWEST_PERCENT: u64 = 50;

/// What stays.
#[derive(Debug, Default)]
struct Kept {
    trees: HashSet<Hash>,
    contents: HashSet<Hash>,
    bytes: u64,
    /// How many of the bytes are of `stats/`.
    stats_bytes: u64,
}

/// Keeps the newest trees of every session, as far as half of `bytes_max` goes; then the newest of
/// all that fit into it. Removes everything else. Sessions are asked in the order of their newest
/// trees, `first` before all others. Does nothing while others are busy: the next sweep will.
pub(crate) fn sweep(depot: &Depot, first: Option<&SessionId>, bytes_max: u64) -> Result<()> {
    let Some(_lock) = depot.enter_alone()? else { return Ok(()) };
    depot.clear_aside();
    let first = first.map(|session| depot.sessions.path(session));
    let mut sessions = depot.sessions.all()?;
    let time = |tree: &Hash| Reverse(depot.objects.time(Shelf::Trees, tree));
    sessions.sort_by_cached_key(|session| {
        (Some(&session.path) != first.as_ref(), session.trees.last().map(time))
    });
    let newest = sessions.iter().flat_map(|session| session.trees.iter().rev().take(NEWEST_KEPT));
    let newest: Vec<Hash> = newest.copied().collect();
    // What has the same time stays in this order: the newer ones of a session first.
    let all = sessions.iter().flat_map(|session| session.trees.iter().rev());
    let mut all: Vec<Hash> = all.copied().collect();
    all.sort_by_cached_key(time);
    let library = Library::new(&depot.objects);
    let mut sweep =
        Sweep { depot, library, stats: depot.stats.bytes_by_tree(), kept: Kept::default() };
    sweep.keep(&newest, bytes_max / 100 * NEWEST_PERCENT)?;
    sweep.keep(&all, bytes_max)?;
    let kept = sweep.kept;
    for session in &sessions {
        session.retain(&kept.trees)?;
    }
    depot.stats.retain(&kept.trees);
    // Heads first: a head that is there promises that all else is.
    remove_others(&depot.objects.shelf(Shelf::Trees), &kept.trees)?;
    remove_others(&depot.objects.shelf(Shelf::Contents), &kept.contents)?;
    depot.set_size(kept.bytes.saturating_sub(kept.stats_bytes))
}

#[derive(Debug)]
struct Sweep<'a> {
    depot: &'a Depot,
    library: Library<'a>,
    /// How many bytes of `stats/` stay with each tree.
    stats: HashMap<Hash, u64>,
    kept: Kept,
}

impl Sweep<'_> {
    /// Keeps trees in this order until one does not fit; the very first always does.
    fn keep(&mut self, trees: &[Hash], bytes_max: u64) -> Result<()> {
        for tree in trees {
            if self.kept.trees.contains(tree) {
                continue;
            }
            let (contents, bytes) = match self.needs(tree) {
                Ok(needs) => needs,
                // A tree that cannot be read cannot be restored either.
                Err(Error::Missing(_) | Error::Damaged(_)) => {
                    tracing::warn!(%tree, "a kept tree is damaged and is dropped");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let stats_bytes = self.stats.get(tree).copied().unwrap_or_default();
            let kept = &mut self.kept;
            if kept.bytes + bytes + stats_bytes > bytes_max && !kept.trees.is_empty() {
                return Ok(());
            }
            kept.trees.insert(*tree);
            kept.contents.extend(contents);
            kept.bytes += bytes + stats_bytes;
            kept.stats_bytes += stats_bytes;
        }
        Ok(())
    }

    /// Returns what a tree needs beyond what is kept already, and how many bytes that is.
    fn needs(&self, hash: &Hash) -> Result<(HashSet<Hash>, u64)> {
        let (library, kept) = (&self.library, &self.kept);
        let tree = library.head(*hash)?;
        let mut contents = HashSet::new();
        for piece in tree.pieces.iter().filter(|piece| !kept.contents.contains(&piece.hash)) {
            contents.insert(piece.hash);
            for entry in library.piece(&piece.hash)?.iter() {
                if let Node::File { hash, .. } = &entry.node
                    && !kept.contents.contains(hash)
                {
                    contents.insert(*hash);
                }
            }
        }
        let place = |shelf, hash| self.depot.objects.place(shelf, hash);
        let size = |shelf, hash| fs::metadata(place(shelf, hash)).map_or(0, |found| found.len());
        let head = size(Shelf::Trees, hash);
        let bytes = contents.iter().map(|hash| size(Shelf::Contents, hash)).sum::<u64>() + head;
        Ok((contents, bytes))
    }
}

fn remove_others(shelf: &Path, kept: &HashSet<Hash>) -> Result<()> {
    for (path, _) in files(shelf) {
        let is_kept = named(&path).is_some_and(|hash| kept.contains(&hash));
        if !is_kept {
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    Ok(())
}

fn named(path: &Path) -> Option<Hash> {
    let (name, folder) = (path.file_name()?, path.parent()?.file_name()?);
    Hash::from_hex(&format!("{}{}", folder.to_str()?, name.to_str()?))
}
