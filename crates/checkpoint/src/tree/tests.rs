//! Heads and pieces.

use super::*;

fn entries(count: u32) -> Vec<Entry> {
    let entry = |n: u32| Entry {
        key: Key::from_bytes(format!("/r/{n:06}").as_bytes()),
        node: Node::File { mode: 0o644, size: 1, hash: Hash::of(&n.to_le_bytes()) },
    };
    (0..count).map(entry).collect()
}

#[test]
fn a_tree_is_read_as_it_was_written() {
    let written = Tree::write(vec![Key::from_bytes(b"/r")], entries(5_000));
    assert_eq!(Tree::read(written.tree.hash, &written.head), Some(written.tree.clone()));
    let read: Vec<_> =
        written.pieces.iter().flat_map(|(_, bytes, _)| read_piece(bytes).unwrap()).collect();
    assert_eq!(read, entries(5_000));
    assert!(written.pieces.len() > 10, "{}", written.pieces.len());
    let piece = written.tree.piece(&Key::from_bytes(b"/r/002500")).unwrap();
    let (_, bytes, _) = written.pieces.iter().find(|(hash, ..)| *hash == piece.hash).unwrap();
    assert!(read_piece(bytes).unwrap().iter().any(|entry| entry.key.name() == b"002500"));
}

#[test]
fn a_change_costs_one_piece() {
    let pieces = |entries| Tree::write(Vec::new(), entries).tree.pieces;
    let old = pieces(entries(5_000));
    let mut changed = entries(5_000);
    changed.remove(2_500);
    let new = pieces(changed);
    let fresh = new.iter().filter(|piece| !old.contains(piece)).count();
    assert!((1..=2).contains(&fresh), "{fresh}");
}

#[test]
fn bytes_that_are_no_tree_are_refused() {
    let written = Tree::write(vec![Key::from_bytes(b"/r")], entries(10));
    for length in 0..written.head.len() {
        assert_eq!(Tree::read(written.tree.hash, &written.head[..length]), None);
    }
    assert_eq!(read_piece(b"something else"), None);
}

#[test]
fn roots_within_roots_are_dropped() {
    let of = |text: &str| PathBuf::from(text);
    let kept = roots(&[of("/no/b"), of("/no/a/c"), of("/no/a"), of("/no/ab"), of("/no/a")]);
    assert_eq!(kept, ["/no/a", "/no/ab", "/no/b"].map(|root| Key::of(&of(root))));
}
