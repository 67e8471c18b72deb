//! Comparing trees.

use super::*;
use crate::node::{Left, Why};

fn file(text: &str) -> Node {
    Node::File { mode: 0o644, size: text.len() as u64, hash: Hash::of(text.as_bytes()) }
}

fn left(why: Why) -> Node {
    Node::Left(Left { why, is_folder: true, mode: 0, size: 0, mtime_ns: 0 })
}

fn compare(before: &[(&str, Node)], after: &[(&str, Node)]) -> Vec<(String, bool, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::new(folder.path());
    let library = Library::new(&objects);
    let tree = |list: &[(&str, Node)]| {
        let mut entries: Vec<Entry> = (0..1_000)
            .map(|n| Entry { key: Key::from_bytes(format!("/r/x/{n}").as_bytes()), node: file("") })
            .collect();
        entries.extend(list.iter().map(|(path, node)| Entry {
            key: Key::from_bytes(path.as_bytes()),
            node: node.clone(),
        }));
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        library.hold(Tree::write(vec![Key::from_bytes(b"/r")], entries))
    };
    let differences = library.compare(&tree(before), &tree(after)).unwrap();
    let told = |one: &Difference| (one.key.shown(), one.is_change(), one.is_restorable());
    differences.iter().map(told).collect()
}

#[test]
fn what_differs_is_judged() {
    let told =
        |path: &str, is_change, is_restorable| vec![(path.to_owned(), is_change, is_restorable)];
    let cases = [
        (vec![], vec![("/r/a", file("1"))], told("/r/a", true, true)),
        (vec![("/r/a", file("1"))], vec![], told("/r/a", true, true)),
        (vec![("/r/a", file("1"))], vec![("/r/a", file("2"))], told("/r/a", true, true)),
        (vec![("/r/a", left(Why::Large))], vec![], told("/r/a", true, false)),
        (vec![], vec![("/r/a", left(Why::Large))], told("/r/a", true, true)),
        (vec![], vec![("/r/a", left(Why::Ignored))], told("/r/a", false, true)),
        (vec![("/r/a", left(Why::Ignored))], vec![], told("/r/a", true, false)),
        (vec![("/r/a", left(Why::Own))], vec![], told("/r/a", false, false)),
        (vec![], vec![("/r/a", left(Why::Own))], told("/r/a", false, true)),
        (vec![("/r/a", left(Why::Unseen))], vec![], told("/r/a", false, false)),
        (vec![("/r/a", file("a"))], vec![("/r/a", left(Why::Unseen))], told("/r/a", true, true)),
    ];
    for (before, after, expected) in cases {
        assert_eq!(compare(&before, &after), expected, "{before:?} {after:?}");
    }
    assert_eq!(compare(&[("/r/a", file("1"))], &[("/r/a", file("1"))]), []);
}

#[test]
fn what_was_never_seen_is_no_news() {
    let before = [("/r/a", left(Why::Ignored))];
    let after = [("/r/a", Node::Folder { mode: 0o755 }), ("/r/a/b", file("1"))];
    let told = compare(&before, &after);
    assert_eq!(told, [("/r/a".to_owned(), true, false), ("/r/a/b".to_owned(), false, false)]);
}

#[test]
fn paths_are_found_in_their_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::new(folder.path());
    let library = Library::new(&objects);
    let mut entries = Vec::new();
    for folder in 0..50 {
        for name in 0..40 {
            let key = Key::from_bytes(format!("/r/{folder:02}/{name:02}").as_bytes());
            entries.push(Entry { key, node: file("") });
        }
    }
    let keys: Vec<Key> = entries.iter().map(|entry| entry.key.clone()).collect();
    let tree = library.hold(Tree::write(vec![Key::from_bytes(b"/r")], entries));
    for key in &keys {
        assert!(library.node(&tree, key).unwrap().is_some(), "{key:?}");
        assert!(library.has_beneath(&tree, &key.parent().unwrap()).unwrap(), "{key:?}");
        assert!(!library.has_beneath(&tree, key).unwrap(), "{key:?}");
    }
    for absent in ["/", "/r", "/r/0", "/r/000", "/r/99/01", "/s"] {
        let key = Key::from_bytes(absent.as_bytes());
        assert_eq!(library.node(&tree, &key).unwrap(), None, "{absent}");
    }
    assert!(library.has_beneath(&tree, &Key::from_bytes(b"/r")).unwrap());
    assert!(!library.has_beneath(&tree, &Key::from_bytes(b"/r/0")).unwrap());
}
