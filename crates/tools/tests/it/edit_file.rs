//! `edit_file`.

use protocol::event::Display;
use serde_json::json;

use crate::{Bench, text_of};

#[tokio::test]
async fn every_edit_is_applied_or_none() {
    let bench = Bench::new();
    bench.file("a.txt", "one\ntwo\nthree\n");
    bench.read("a.txt").await;
    let edits = json!([{"old": "one", "new": "1"}, {"old": "not there", "new": "x"}]);
    let error = bench.error("edit_file", json!({"path": "a.txt", "edits": edits})).await;
    assert!(error.starts_with("edit 2 of 2: `old` was not found"), "{error}");
    assert!(error.ends_with("nothing was changed in a.txt"), "{error}");
    assert_eq!(bench.text("a.txt"), "one\ntwo\nthree\n");
    let edits = json!([{"old": "one", "new": "1"}, {"old": "three\n", "new": "3\n4\n"}]);
    let outcome = bench.call("edit_file", json!({"path": "a.txt", "edits": edits})).await.unwrap();
    assert_eq!(text_of(&outcome), "edited a.txt: lines 1, 3-4");
    assert_eq!(bench.text("a.txt"), "1\ntwo\n3\n4\n");
    let Some(Display::Diff { diff, added: 3, removed: 2 }) = outcome.display else {
        panic!("{:?}", outcome.display)
    };
    assert!(diff.starts_with("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n-one\n+1\n"), "{diff}");
    // What an edit leaves counts as seen.
    let edits = json!([{"old": "two", "new": "2"}]);
    bench.ok("edit_file", json!({"path": "a.txt", "edits": edits})).await;
    assert_eq!(bench.text("a.txt"), "1\n2\n3\n4\n");
}

#[tokio::test]
async fn a_file_must_have_been_read_and_be_unchanged() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    let input = json!({"path": "a.txt", "edits": [{"old": "one", "new": "1"}]});
    let error = bench.error("edit_file", input.clone()).await;
    assert!(error.contains("read it first"), "{error}");
    bench.read("a.txt").await;
    bench.file("a.txt", "one and more\n");
    let error = bench.error("edit_file", input).await;
    assert!(error.contains("changed since it was read"), "{error}");
    let input = json!({"path": "b.txt", "edits": [{"old": "one", "new": "1"}]});
    let error = bench.error("edit_file", input).await;
    assert_eq!(error, "b.txt does not exist; near it: a.txt; use write_file for a new file");
    assert_eq!(bench.text("a.txt"), "one and more\n");
}

#[tokio::test]
async fn encoding_and_line_ends_survive() {
    let bench = Bench::new();
    let check = async |before: &[u8], after: &[u8]| {
        bench.file("a.txt", before);
        bench.read("a.txt").await;
        let edits = json!([{"old": "a\nb", "new": "x\ny"}]);
        bench.ok("edit_file", json!({"path": "a.txt", "edits": edits})).await;
        assert_eq!(std::fs::read(bench.path().join("a.txt")).unwrap(), after);
    };
    check(b"a\r\nb\r\n", b"x\r\ny\r\n").await;
    check(b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfx\ny\n").await;
    check(b"\xff\xfea\0\n\0b\0", b"\xff\xfex\0\n\0y\0").await;
    check(b"gr\xfcn\na\nb\n", b"gr\xfcn\nx\ny\n").await;
}

#[tokio::test]
async fn what_is_no_text_and_what_is_no_edit_is_refused() {
    let bench = Bench::new();
    bench.file("a.bin", b"\x7fELF\0");
    let error = bench.error("read_file", json!({"path": "a.bin"})).await;
    assert!(error.contains("ELF program"), "{error}");
    let error = bench.error("edit_file", json!({"path": "a.bin", "edits": []})).await;
    assert_eq!(error, "edits is empty: name at least one");
    bench.file("same.txt", "same\nsame\n");
    bench.read("same.txt").await;
    let edits = json!([{"old": "same", "new": "other"}]);
    let error = bench.error("edit_file", json!({"path": "same.txt", "edits": edits})).await;
    assert!(error.starts_with("`old` occurs 2 times, at lines 1, 2;"), "{error}");
    let edits = json!([{"old": "same", "new": "other", "all": true}]);
    bench.ok("edit_file", json!({"path": "same.txt", "edits": edits})).await;
    assert_eq!(bench.text("same.txt"), "other\nother\n");
}

#[tokio::test]
async fn a_single_edit_may_be_spelled_without_a_list() {
    let bench = Bench::new();
    bench.file("a.txt", "one two two\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let input =
        json!({"path": "a.txt", "old_string": "two", "new_string": "2", "replace_all": true});
    bench.ok("edit_file", input).await;
    assert_eq!(bench.text("a.txt"), "one 2 2\n");
    for (wrong, expected) in [
        (json!({"path": "a.txt"}), "expected either edits, or old_string and new_string"),
        (json!({"path": "a.txt", "old_string": "one"}), "expected either edits"),
        (
            json!({"path": "a.txt", "edits": [{"old": "one", "new": "1"}], "old_string": "one",
                "new_string": "1"}),
            "expected either edits",
        ),
    ] {
        let error = bench.error("edit_file", wrong).await;
        assert!(error.contains(expected), "got {error}");
    }
    assert_eq!(bench.text("a.txt"), "one 2 2\n", "nothing was half done");
}
