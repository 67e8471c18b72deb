//! Reading trees: one path, all of them, or what two trees do not share.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::TreeId;

use crate::beneath::below;
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::node::{Entry, Key, Node, Why};
use crate::objects::{Objects, Shelf};
use crate::tree::{Tree, Written, read_piece};

/// How many pieces are held: those of a tree of the usual size, a few times over.
const PIECES_HELD_MAX: usize = 1_024;

/// What a tree says about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    There(Node),
    /// It lies in something that the tree does not look into, or could not be looked at.
    Unknown,
}

/// A path about which two trees say different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) key: Key,
    pub(crate) before: State,
    pub(crate) after: State,
}

#[derive(Debug)]
pub(crate) struct Library<'a> {
    objects: &'a Objects,
    pieces: Mutex<HashMap<Hash, Arc<Vec<Entry>>>>,
    /// Trees that are of now and not kept.
    held: Mutex<HashMap<Hash, Arc<Vec<Entry>>>>,
}

impl<'a> Library<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        Self { objects, pieces: Mutex::default(), held: Mutex::default() }
    }

    /// # Errors
    /// [`Error::Gone`].
    pub(crate) fn tree(&self, id: &TreeId) -> Result<Tree> {
        let gone = || Error::Gone(id.clone());
        let hash = Hash::from_hex(id.as_str()).ok_or_else(gone)?;
        match self.head(hash) {
            Err(Error::Missing(_)) => Err(gone()),
            read => read,
        }
    }

    pub(crate) fn head(&self, hash: Hash) -> Result<Tree> {
        let head = self.objects.read(Shelf::Trees, &hash)?;
        Tree::read(hash, &head).ok_or(Error::Damaged(hash))
    }

    /// Takes in a tree that is not kept, for comparing.
    pub(crate) fn hold(&self, written: Written) -> Tree {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(written.pieces.into_iter().map(|(hash, _, entries)| (hash, entries.into())));
        written.tree
    }

    pub(crate) fn piece(&self, hash: &Hash) -> Result<Arc<Vec<Entry>>> {
        if let Some(piece) = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(hash) {
            return Ok(Arc::clone(piece));
        }
        if let Some(piece) = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).get(hash) {
            return Ok(Arc::clone(piece));
        }
        let bytes = self.objects.read(Shelf::Contents, hash)?;
        let piece = Arc::new(read_piece(&bytes).ok_or(Error::Damaged(*hash))?);
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.len() >= PIECES_HELD_MAX {
            pieces.clear();
        }
        pieces.insert(*hash, Arc::clone(&piece));
        Ok(piece)
    }

    /// Returns what stands at a path in a tree, not looking at what it lies in.
    pub(crate) fn node(&self, tree: &Tree, key: &Key) -> Result<Option<Node>> {
        let Some(piece) = tree.piece(key) else { return Ok(None) };
        let entries = self.piece(&piece.hash)?;
        let found = entries.binary_search_by(|entry| entry.key.cmp(key)).ok();
        Ok(found.and_then(|at| entries.get(at)).map(|entry| entry.node.clone()))
    }

    /// Whether a tree has anything beneath a path.
    pub(crate) fn has_beneath(&self, tree: &Tree, key: &Key) -> Result<bool> {
        let start = key.join(b"");
        let from = tree.pieces.partition_point(|piece| piece.first <= start).saturating_sub(1);
        // What comes after the start may stand in the piece that follows.
        for piece in tree.pieces.iter().skip(from).take(2) {
            let entries = self.piece(&piece.hash)?;
            let at = entries.partition_point(|entry| entry.key < start);
            if let Some(entry) = entries.get(at) {
                return Ok(below(key, &entry.key).is_some());
            }
        }
        Ok(false)
    }

    /// Lists what two trees do not say alike, in the order of the paths. Pieces that both have
    /// are not read.
    pub(crate) fn compare(&self, before: &Tree, after: &Tree) -> Result<Vec<Difference>> {
        let old = self.own_entries(before, after)?;
        let new = self.own_entries(after, before)?;
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        let mut differences = Vec::new();
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => old.key.cmp(&new.key),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(differences),
            };
            let from_old = if order.is_le() { old.next() } else { None };
            let from_new = if order.is_ge() { new.next() } else { None };
            let Some(key) = from_old.as_ref().or(from_new.as_ref()).map(|entry| entry.key.clone())
            else {
                continue;
            };
            if from_old == from_new {
                continue;
            }
            let state = |tree, entry: Option<Entry>| match entry {
                Some(Entry { node: Node::Left(left), .. }) if left.why.is_unknown() => {
                    Ok(State::Unknown)
                }
                Some(entry) => Ok(State::There(entry.node)),
                None => self.absent(tree, &key),
            };
            let (before, after) = (state(before, from_old)?, state(after, from_new)?);
            differences.push(Difference { key, before, after });
        }
    }

    /// Tells an absent path from one that the tree could not see.
    fn absent(&self, tree: &Tree, key: &Key) -> Result<State> {
        if !tree.covers(key) {
            return Ok(State::Unknown);
        }
        let mut above = key.parent();
        while let Some(folder) = above.filter(|folder| tree.covers(folder)) {
            match self.node(tree, &folder)? {
                Some(Node::Left(_)) => return Ok(State::Unknown),
                Some(_) => return Ok(State::Absent),
                None => above = folder.parent(),
            }
        }
        Ok(State::Absent)
    }

    /// The entries of the pieces that only one of two trees has.
    fn own_entries(&self, tree: &Tree, other: &Tree) -> Result<Vec<Entry>> {
        let shared: HashSet<&Hash> = other.pieces.iter().map(|piece| &piece.hash).collect();
        let mut entries = Vec::new();
        for piece in tree.pieces.iter().filter(|piece| !shared.contains(&piece.hash)) {
            entries.extend(self.piece(&piece.hash)?.iter().cloned());
        }
        Ok(entries)
    }
}

impl Difference {
    /// Whether a turn is said to have changed the path. What was not seen before is judged by
    /// the folder that it is in; ignored files that come up are what builds leave.
    pub(crate) fn is_change(&self) -> bool {
        match (&self.before, &self.after) {
            (State::Unknown, _) | (State::Absent, State::Unknown) => false,
            (State::Absent, State::There(Node::Left(left))) => !left.why.is_blind(),
            (State::There(Node::Left(old)), State::There(Node::Left(new))) => {
                !(old.why.is_blind() && old.why == new.why)
            }
            (State::Absent | State::There(_), _) => true,
        }
    }

    /// Whether it is something ignored that came up.
    pub(crate) fn is_ignored_newcomer(&self) -> bool {
        let State::There(Node::Left(left)) = &self.after else { return false };
        self.before == State::Absent && left.why == Why::Ignored
    }

    /// Whether the older state can be brought back.
    pub(crate) fn is_restorable(&self) -> bool {
        !matches!(self.before, State::Unknown | State::There(Node::Left(_)))
    }
}

#[cfg(test)]
mod tests;
