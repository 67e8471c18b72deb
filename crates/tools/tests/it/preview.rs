//! What a call says of its change before it runs.

use protocol::event::Display;
use serde_json::{Value, json};

use crate::{Bench, names};

/// Checks that a call says beforehand what it shows afterwards, and that looking changes nothing.
async fn agrees(bench: &Bench, name: &str, input: Value) -> String {
    let before = names(bench.path());
    let preview = bench.preview(name, input.clone()).await.unwrap();
    assert_eq!(names(bench.path()), before, "{name} only looks");
    assert_eq!(bench.preview(name, input.clone()).await.as_ref(), Some(&preview));
    let outcome = bench.call(name, input).await.unwrap();
    let Some(Display::Diff { diff, .. }) = outcome.display else { panic!("{name} shows no diff") };
    assert_eq!(preview, diff);
    preview
}

#[tokio::test]
async fn a_new_and_an_existing_file_are_shown_as_they_will_be_written() {
    let bench = Bench::new();
    let input = json!({"path": "dir/a.txt", "content": "one\ntwo\n"});
    let diff = agrees(&bench, "write_file", input.clone()).await;
    assert_eq!(diff, "--- /dev/null\n+++ b/dir/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    assert_eq!(bench.preview("write_file", input).await, None, "nothing would change");
    let diff = agrees(&bench, "write_file", json!({"path": "dir/a.txt", "content": "one\n"})).await;
    assert_eq!(diff, "--- a/dir/a.txt\n+++ b/dir/a.txt\n@@ -1,2 +1 @@\n one\n-two\n");
    let diff = agrees(&bench, "write_file", json!({"path": "empty", "content": ""})).await;
    assert_eq!(diff, "--- /dev/null\n+++ b/empty\n");
}

#[tokio::test]
async fn a_file_that_nobody_read_yet_is_shown_too() {
    let bench = Bench::new();
    bench.file("a.txt", "old\n");
    let input = json!({"path": "a.txt", "content": "new\n"});
    let diff = bench.preview("write_file", input.clone()).await.unwrap();
    assert!(diff.ends_with("-old\n+new\n"), "{diff}");
    assert!(bench.error("write_file", input).await.contains("read it first"));
    // The preview follows the file.
    bench.file("a.txt", "older\n");
    let edit = json!({"path": "a.txt", "edits": [{"old": "older", "new": "new"}]});
    let diff = bench.preview("edit_file", edit).await.unwrap();
    assert!(diff.ends_with("-older\n+new\n"), "{diff}");
}

#[tokio::test]
async fn edits_and_patches_are_shown_as_they_will_be_made() {
    let bench = Bench::new();
    bench.file("a.txt", "one\r\ntwo\r\n");
    bench.file("b.txt", "three\n");
    bench.read("a.txt").await;
    let edits = json!({"path": "a.txt", "edits": [
        {"old": "one", "new": "1"},
        {"old": "1", "new": "eins"}
    ]});
    let diff = agrees(&bench, "edit_file", edits).await;
    assert!(diff.contains("-one") && diff.contains("+eins") && !diff.contains("\n+1\n"), "{diff}");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-two\n+zwei\n*** Update File: b.txt\n\
                 *** Move to: c.txt\n*** Add File: d.txt\n+new\n*** End Patch\n";
    let diff = agrees(&bench, "apply_patch", json!({"patch": patch})).await;
    for line in ["--- a/b.txt", "+++ /dev/null", "+++ b/c.txt", "+++ b/d.txt", "+zwei"] {
        assert!(diff.contains(line), "{line} in {diff}");
    }
}

#[tokio::test]
async fn what_could_not_be_done_has_no_preview() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    bench.file("binary", b"\0\x01");
    let edit = |path: &str, old: &str, new: &str| {
        let edits = [json!({"old": old, "new": new})];
        json!({"path": path, "edits": edits})
    };
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-two\n+2\n*** End Patch\n";
    let calls = [
        ("edit_file", edit("a.txt", "two", "2")),
        ("edit_file", edit("missing.txt", "one", "1")),
        ("edit_file", edit("binary", "one", "1")),
        ("edit_file", edit("a.txt", "one", "one")),
        ("apply_patch", json!({"patch": patch})),
        ("run_shell", json!({"command": "rm a.txt"})),
        ("read_file", json!({"path": "a.txt"})),
    ];
    for (name, input) in calls {
        assert_eq!(bench.preview(name, input.clone()).await, None, "{name} {input}");
    }
    assert_eq!(bench.text("a.txt"), "one\n");
}

#[tokio::test]
async fn a_long_preview_is_cut_with_a_note() {
    let bench = Bench::new();
    let content: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let diff = agrees(&bench, "write_file", json!({"path": "a.txt", "content": content})).await;
    assert!(diff.len() <= 64 * 1024, "{}", diff.len());
    assert!(diff.ends_with("the rest of the diff was left out\n"));
}
