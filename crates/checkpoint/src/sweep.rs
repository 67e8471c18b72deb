//! Sweeping: what no kept tree needs goes. Whoever captures or restores is never disturbed.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use protocol::SessionId;

use crate::depot::{Depot, files};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::library::Library;
use crate::node::Node;
use crate::objects::Shelf;

/// What stays.
#[derive(Debug, Default)]
struct Kept {
    trees: HashSet<Hash>,
    contents: HashSet<Hash>,
    bytes: u64,
}

/// Keeps the newest trees that fit into `bytes_max`, those of `first` before all others, and
/// removes everything else. Does nothing while others are busy: the next sweep will.
pub(crate) fn sweep(depot: &Depot, first: Option<&SessionId>, bytes_max: u64) -> Result<()> {
    let Some(_lock) = depot.enter_alone()? else { return Ok(()) };
    depot.clear_aside();
    let first = first.map(|session| depot.sessions.path(session));
    let mut sessions = depot.sessions.all()?;
    sessions.sort_by_key(|trees| {
        (Some(&trees.path) != first.as_ref(), std::cmp::Reverse(trees.changed_at))
    });
    let library = Library::new(&depot.objects);
    let mut kept = Kept::default();
    let mut is_full = false;
    for tree in sessions.iter().flat_map(|session| session.trees.iter().rev()) {
        if kept.trees.contains(tree) || is_full {
            continue;
        }
        match needs(depot, &library, &kept, tree) {
            Ok((contents, bytes)) => {
                is_full = kept.bytes + bytes > bytes_max && !kept.trees.is_empty();
                if !is_full {
                    kept.trees.insert(*tree);
                    kept.contents.extend(contents);
                    kept.bytes += bytes;
                }
            }
            // A tree that cannot be read cannot be restored either.
            Err(Error::Missing(_) | Error::Damaged(_)) => {
                tracing::warn!(%tree, "a kept tree is damaged and is dropped");
            }
            Err(error) => return Err(error),
        }
    }
    for session in &sessions {
        session.retain(&kept.trees)?;
    }
    // Heads first: a head that is there promises that all else is.
    remove_others(&depot.objects.shelf(Shelf::Trees), &kept.trees)?;
    remove_others(&depot.objects.shelf(Shelf::Contents), &kept.contents)?;
    depot.set_size(kept.bytes)
}

/// Returns what a tree needs beyond what is kept already, and how many bytes that is.
fn needs(
    depot: &Depot,
    library: &Library<'_>,
    kept: &Kept,
    hash: &Hash,
) -> Result<(HashSet<Hash>, u64)> {
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
    let size = |shelf, hash| fs::metadata(depot.objects.place(shelf, hash)).map_or(0, |m| m.len());
    let head = size(Shelf::Trees, hash);
    let bytes = contents.iter().map(|hash| size(Shelf::Contents, hash)).sum::<u64>() + head;
    Ok((contents, bytes))
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
