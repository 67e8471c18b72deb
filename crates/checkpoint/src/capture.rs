//! Capturing: walk, keep what is new, make it durable, then name it.

use std::collections::HashMap;
use std::path::PathBuf;

use driver_api::Captured;
use protocol::SessionId;

use crate::batch::Batch;
use crate::depot::Depot;
use crate::error::{Error, Result};
use crate::library::Library;
use crate::node::{Entry, Key, Node, Why};
use crate::objects::Shelf;
use crate::stat_cache::{Read, Stats};
use crate::tree::{self, Tree, Written};
use crate::walk::{Seen, Walk};

/// How long a file must have been left alone before its look is trusted: the coarsest times that
/// file systems in use write down are of two seconds.
const SETTLED_WITHIN_NS: i64 = 2_000_000_000;
/// How many names one sentence gives as examples.
const NAMES_SHOWN: usize = 5;
/// What is left when the limit of all checkpoints was passed, in percent of it, so that not every
/// capture has to sweep.
const SWEPT_TO_PERCENT: u64 = 80;

/// Captures the roots for a session.
pub(crate) fn capture(depot: &Depot, session: &SessionId, paths: &[PathBuf]) -> Result<Captured> {
    match capture_after(depot, session, paths, true) {
        // A damaged tree of the past must not be in the way of those to come.
        Err(error @ (Error::Missing(_) | Error::Damaged(_))) => {
            depot.heal(&error);
            capture_after(depot, session, paths, false)
        }
        done => done,
    }
}

fn capture_after(
    depot: &Depot,
    session: &SessionId,
    paths: &[PathBuf],
    knows_earlier: bool,
) -> Result<Captured> {
    let lock = depot.enter()?;
    let roots = tree::roots(paths);
    let library = Library::new(&depot.objects);
    let fence = depot.fence(&roots);
    let earlier = if knows_earlier { earlier(depot, &library, session)? } else { None };
    let known = depot.stats.load(&roots);
    let is_trusted = known.tree.is_some_and(|tree| depot.objects.has(Shelf::Trees, &tree));
    let batch = Batch::new(&depot.objects, &depot.aside());
    let walk = Walk {
        roots: &roots,
        limits: &depot.limits,
        fence: &fence,
        stats: &known,
        is_trusted,
        earlier: earlier.as_ref().map(|tree| (&library, tree)),
        objects: &depot.objects,
        batch: Some(&batch),
        settled_before_ns: now_ns().saturating_sub(SETTLED_WITHIN_NS),
    };
    let seen = walk.run()?;
    if let Some(place) = only_own(&seen.entries) {
        return Err(Error::OnlyOwn(place.shown()));
    }
    let left_out = left_out(&seen.entries, &depot.limits);
    let Seen { entries, files, unchanged, .. } = seen;
    let merged = merge(&known, files, unchanged, &entries);
    let written = Tree::write(roots.clone(), entries);
    let hash = written.tree.hash;
    let is_known = is_trusted && known.tree == Some(hash);
    let added = if is_known { 0 } else { keep(depot, batch, &written)? };
    if depot.sessions.add(session, &hash)? {
        depot.objects.touch(Shelf::Trees, &hash)?;
    }
    if merged.is_some() || !is_known {
        let files = merged.unwrap_or_else(|| known.files.clone());
        depot.stats.save(&roots, Stats { tree: Some(hash), files })?;
    }
    let is_over =
        added > 0 && depot.grow(added)? + depot.stats.bytes() > depot.limits.kept_bytes_max;
    drop(lock);
    if is_over {
        let most = depot.limits.kept_bytes_max / 100 * SWEPT_TO_PERCENT;
        crate::sweep::sweep(depot, Some(session), most)?;
    }
    Ok(Captured { tree: written.tree.id(), files: written.tree.entries, left_out })
}

/// Keeps a tree, durably. Returns how many bytes it added.
fn keep(depot: &Depot, batch: Batch<'_>, written: &Written) -> Result<u64> {
    for (piece, bytes, _) in &written.pieces {
        batch.put(Shelf::Contents, *piece, bytes)?;
    }
    let contents = batch.commit()?;
    // The head is only there when all that it names is.
    let head = Batch::new(&depot.objects, &depot.aside());
    head.put(Shelf::Trees, written.tree.hash, &written.head)?;
    Ok(contents + head.commit()?)
}

/// Looks at the roots as they are now without keeping anything.
pub(crate) fn look(
    depot: &Depot,
    library: &Library<'_>,
    roots: Vec<Key>,
    earlier: &Tree,
) -> Result<Tree> {
    let known = depot.stats.load(&roots);
    let walk = Walk {
        roots: &roots,
        limits: &depot.limits,
        fence: &depot.fence(&roots),
        stats: &known,
        is_trusted: true,
        earlier: Some((library, earlier)),
        objects: &depot.objects,
        batch: None,
        settled_before_ns: i64::MIN,
    };
    let entries = walk.run()?.entries;
    Ok(library.hold(Tree::write(roots, entries)))
}

/// The newest tree of the session, so that what it has is not lost from sight when rules change.
fn earlier(depot: &Depot, library: &Library<'_>, session: &SessionId) -> Result<Option<Tree>> {
    let Some(hash) = depot.sessions.newest(session) else { return Ok(None) };
    match library.head(hash) {
        Ok(tree) => Ok(Some(tree)),
        Err(Error::Missing(_) | Error::Damaged(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Joins what was read now with what was known and still is; none when nothing is new.
fn merge(
    known: &Stats,
    mut read: HashMap<Key, Read>,
    unchanged: usize,
    entries: &[Entry],
) -> Option<HashMap<Key, Read>> {
    if read.is_empty() && unchanged == known.files.len() {
        return None;
    }
    for entry in entries.iter().filter(|entry| matches!(entry.node, Node::File { .. })) {
        if let Some(old) = known.files.get(&entry.key) {
            read.entry(entry.key.clone()).or_insert(*old);
        }
    }
    Some(read)
}

#[allow(clippy::disallowed_methods, reason = "held against times that the kernel gave to files")]
fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(i64::MIN)
}

/// Returns a root when there is nothing to capture but the program's own data.
fn only_own(entries: &[Entry]) -> Option<&Key> {
    let is_own = |entry: &Entry| matches!(&entry.node, Node::Left(left) if left.why == Why::Own);
    entries.first().filter(|_| entries.iter().all(is_own)).map(|entry| &entry.key)
}

/// Says what is there and not in the tree, a sentence for each reason.
fn left_out(entries: &[Entry], limits: &crate::Limits) -> Vec<String> {
    let of = |wanted: &[Why]| {
        let mut names = Vec::new();
        let mut count: u64 = 0;
        for entry in entries {
            if matches!(&entry.node, Node::Left(left) if wanted.contains(&left.why)) {
                count += 1;
                if names.len() < NAMES_SHOWN {
                    names.push(entry.key.shown());
                }
            }
        }
        let more = count.saturating_sub(names.len() as u64);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        (count > 0).then(|| format!("{}{rest}", names.join(", ")))
    };
    let large = stdx::bytes(limits.file_bytes_max);
    let sentences = [
        (&[Why::Own] as &[Why], "this program's own data, which is never touched".to_owned()),
        (&[Why::Git], "git's own folder, which git itself can bring back".to_owned()),
        (&[Why::Ignored], "ignored by git's rules".to_owned()),
        (&[Why::Large], format!("larger than {large}")),
        (&[Why::Unreadable, Why::Unseen], "unreadable".to_owned()),
        (&[Why::Special], "no file, folder or link".to_owned()),
        (&[Why::Mount], "on another mount".to_owned()),
    ];
    let told =
        sentences.into_iter().filter_map(|(why, text)| Some(format!("{text}: {}", of(why)?)));
    told.collect()
}
