//! A tree: a sorted list of entries, cut into pieces at places that the names themselves decide.
//! Each piece is an object, so a change costs one piece and the head, not the list; and what two
//! trees share need not be read to compare them.

use std::path::PathBuf;

use protocol::TreeId;

use crate::beneath::below;
use crate::hash::Hash;
use crate::node::{Entry, Key, Node};
use crate::wire::{Reader, Writer};

const HEAD: &[u8] = b"narthex tree 1\n";
const PIECE: &[u8] = b"narthex entries 1\n";
/// One name of so many ends a piece: about 13 KiB, of which hashes are half.
const CUT_EVERY: u64 = 128;
/// The longest piece, for names that happen to cut nowhere.
const PIECE_ENTRIES_MAX: usize = 2_048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) hash: Hash,
    pub(crate) roots: Vec<Key>,
    pub(crate) entries: u64,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: Key,
    pub(crate) hash: Hash,
}

/// A tree and its objects.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) tree: Tree,
    pub(crate) head: Vec<u8>,
    pub(crate) pieces: Vec<(Hash, Vec<u8>, Vec<Entry>)>,
}

impl Tree {
    pub(crate) fn id(&self) -> TreeId {
        TreeId::new(self.hash.to_string())
    }

    /// Whether a path is in a folder that the tree is of.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.roots.iter().any(|root| below(root, key).is_some())
    }

    /// Returns the piece in which a path stands if the tree has it.
    pub(crate) fn piece(&self, key: &Key) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.first <= *key);
        self.pieces.get(after.checked_sub(1)?)
    }

    /// Writes a tree. The entries are sorted, none twice.
    pub(crate) fn write(roots: Vec<Key>, entries: Vec<Entry>) -> Written {
        let count = entries.len() as u64;
        let mut pieces = Vec::new();
        let mut open = Vec::new();
        for entry in entries {
            let is_end = spread(entry.key.as_bytes()).is_multiple_of(CUT_EVERY);
            open.push(entry);
            if is_end || open.len() >= PIECE_ENTRIES_MAX {
                pieces.push(write_piece(std::mem::take(&mut open)));
            }
        }
        if !open.is_empty() {
            pieces.push(write_piece(open));
        }
        let mut head = Writer::of(HEAD);
        head.number(roots.len() as u64);
        for root in &roots {
            head.bytes(root.as_bytes());
        }
        head.number(count).number(pieces.len() as u64);
        let mut listed = Vec::new();
        for (hash, _, entries) in &pieces {
            let Some(first) = entries.first() else { continue };
            head.bytes(first.key.as_bytes()).hash(hash);
            listed.push(Piece { first: first.key.clone(), hash: *hash });
        }
        let head = head.finish();
        let tree = Self { hash: Hash::of(&head), roots, entries: count, pieces: listed };
        Written { tree, head, pieces }
    }

    /// Reads a head; none where it is none.
    pub(crate) fn read(hash: Hash, head: &[u8]) -> Option<Self> {
        let mut from = Reader::after(HEAD, head)?;
        let mut roots = Vec::new();
        for _ in 0..from.number()? {
            roots.push(Key::from_bytes(from.bytes()?));
        }
        let entries = from.number()?;
        let mut pieces = Vec::new();
        for _ in 0..from.number()? {
            pieces.push(Piece { first: Key::from_bytes(from.bytes()?), hash: from.hash()? });
        }
        from.is_empty().then_some(Self { hash, roots, entries, pieces })
    }
}

/// A number in which names differ well (FNV-1a). It is part of how trees are written: with another
/// one, equal trees would be cut otherwise and have other ids.
fn spread(name: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = name.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    // The low bits of the sum alone depend too much on the last letters.
    sum ^ (sum >> 32)
}

fn write_piece(entries: Vec<Entry>) -> (Hash, Vec<u8>, Vec<Entry>) {
    let mut piece = Writer::of(PIECE);
    for entry in &entries {
        piece.bytes(entry.key.as_bytes());
        entry.node.write(&mut piece);
    }
    let bytes = piece.finish();
    (Hash::of(&bytes), bytes, entries)
}

/// Reads a piece; none where it is none.
pub(crate) fn read_piece(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut from = Reader::after(PIECE, bytes)?;
    let mut entries = Vec::new();
    while !from.is_empty() {
        entries.push(Entry { key: Key::from_bytes(from.bytes()?), node: Node::read(&mut from)? });
    }
    Some(entries)
}

/// Makes roots real where they exist, sorts them, and drops what lies within another.
pub(crate) fn roots(paths: &[PathBuf]) -> Vec<Key> {
    let real = |path: &PathBuf| Key::of(&path.canonicalize().unwrap_or_else(|_| path.clone()));
    let mut keys: Vec<Key> = paths.iter().map(real).collect();
    keys.sort();
    keys.dedup();
    let all = keys.clone();
    let is_within = |key: &Key| all.iter().any(|root| root != key && below(root, key).is_some());
    keys.retain(|key| !is_within(key));
    keys
}

#[cfg(test)]
mod tests;
