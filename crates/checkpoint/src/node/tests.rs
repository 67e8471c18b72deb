//! Names and nodes.

use super::*;

#[test]
fn odd_names_are_shown_without_loss() {
    let shown = |bytes: &[u8]| Key::from_bytes(bytes).shown();
    assert_eq!(shown("/a/ü\\n".as_bytes()), "/a/ü\\n");
    assert_eq!(shown(b"/a/\xff\\x"), "/a/\\xff\\\\x");
    assert_ne!(shown(b"/a/\xff\\xfe"), shown(b"/a/\xff\xfe"));
}

#[test]
fn paths_have_names_and_parents() {
    let key = Key::from_bytes(b"/a").join(b"b");
    assert_eq!((key.as_bytes(), key.name()), (b"/a/b".as_slice(), b"b".as_slice()));
    assert_eq!(key.parent(), Some(Key::from_bytes(b"/a")));
    assert_eq!(Key::from_bytes(b"/").join(b"b"), Key::from_bytes(b"/b"));
}

#[test]
fn every_kind_of_node_is_read_as_it_was_written() {
    let left = |why, is_folder| {
        Node::Left(Left { why, is_folder, mode: 0o7777, size: 1 << 40, mtime_ns: -7 })
    };
    let mut nodes = vec![
        Node::Folder { mode: 0o1777 },
        Node::File { mode: 0o755, size: u64::MAX, hash: Hash::of(b"a") },
        Node::Link { target: b"../\xff".as_slice().into() },
    ];
    nodes.extend(Why::ALL.map(|why| left(why, true)));
    nodes.extend(Why::ALL.map(|why| left(why, false)));
    for node in nodes {
        let mut writer = Writer::default();
        node.write(&mut writer);
        let bytes = writer.finish();
        let mut reader = Reader::after(b"", &bytes).unwrap();
        assert_eq!(Node::read(&mut reader), Some(node));
        assert!(reader.is_empty());
    }
}
