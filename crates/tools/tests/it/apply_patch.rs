//! `apply_patch`.

use std::os::unix::fs::PermissionsExt;

use driver_api::Access;
use protocol::Effect;
use protocol::event::Display;
use serde_json::json;

use crate::{Bench, names, text_of};

const ENVELOPE: &str = "*** Begin Patch
*** Update File: src/a.txt
@@
 one
-two
+2
*** Update File: move.txt
*** Move to: dir/moved.txt
*** Add File: new.txt
+new
*** Delete File: old.txt
*** End Patch
";

const UNIFIED: &str = "diff --git a/src/a.txt b/src/a.txt
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/move.txt b/dir/moved.txt
similarity index 100%
rename from move.txt
rename to dir/moved.txt
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("src/a.txt", "one\ntwo\n");
    bench.file("move.txt", "moved\n");
    bench.file("old.txt", "old\n");
    bench
}

async fn check_both_ways(patch: &str) {
    let bench = bench();
    let outcome = bench.call("apply_patch", json!({"patch": patch})).await.unwrap();
    assert_eq!(
        text_of(&outcome),
        "updated src/a.txt\nmoved move.txt to dir/moved.txt\ncreated new.txt\ndeleted old.txt"
    );
    assert_eq!(names(bench.path()), ["a.txt", "dir", "moved.txt", "new.txt", "src"]);
    assert_eq!(bench.text("src/a.txt"), "one\n2\n");
    assert_eq!(
        (bench.text("dir/moved.txt"), bench.text("new.txt")),
        ("moved\n".into(), "new\n".into())
    );
    assert!(
        matches!(outcome.display, Some(Display::Diff { added: 3, removed: 3, .. })),
        "{:?}",
        outcome.display
    );
    let gone: Vec<_> = outcome.files.iter().filter(|stamp| stamp.hash.is_none()).collect();
    assert_eq!((outcome.files.len(), gone.len()), (5, 2));
}

#[tokio::test]
async fn both_forms_change_several_files() {
    check_both_ways(ENVELOPE).await;
    check_both_ways(UNIFIED).await;
}

#[tokio::test]
async fn facts_name_every_path() {
    let bench = bench();
    let facts = bench.facts("apply_patch", json!({"patch": UNIFIED})).await.unwrap();
    assert_eq!(facts.effect, Effect::Write);
    assert_eq!(facts.summary, "5 files: dir/moved.txt, move.txt, new.txt, …");
    let paths: Vec<_> = facts.paths.iter().map(|fact| fact.located.shown()).collect();
    assert_eq!(paths, ["src/a.txt", "move.txt", "dir/moved.txt", "new.txt", "old.txt"]);
    assert!(facts.paths.iter().all(|fact| fact.access == Access::Write));
}

#[tokio::test]
async fn one_hunk_that_does_not_fit_changes_nothing() {
    let bench = bench();
    let before = names(bench.path());
    for patch in [
        ENVELOPE.replace("+new\n", "+new\n*** Update File: move2.txt\n-x\n+y\n"),
        ENVELOPE.replace("-two", "-three"),
        ENVELOPE.replace("new.txt", "old.txt"),
        UNIFIED.replace("-old", "-other"),
    ] {
        let error = bench.error("apply_patch", json!({"patch": patch})).await;
        assert!(error.ends_with("no file was changed"), "{error}");
        assert_eq!(names(bench.path()), before);
        assert_eq!(bench.text("src/a.txt"), "one\ntwo\n");
    }
}

#[tokio::test]
async fn a_failing_write_puts_everything_back() {
    let bench = bench();
    let before = names(bench.path());
    *bench.workspace.broken.lock().unwrap() = Some(bench.path().join("new.txt"));
    let error = bench.error("apply_patch", json!({"patch": ENVELOPE})).await;
    assert!(error.starts_with("new.txt could not be written: permission denied"), "{error}");
    assert!(error.ends_with("no file is changed"), "{error}");
    let mut after = names(bench.path());
    after.retain(|name| name != "dir");
    assert_eq!(after, before);
    assert_eq!(bench.text("src/a.txt"), "one\ntwo\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_refused() {
    let bench = bench();
    bench.read("old.txt").await;
    bench.file("old.txt", "old and changed\n");
    let error = bench.error("apply_patch", json!({"patch": ENVELOPE})).await;
    assert!(error.contains("old.txt has changed since it was read"), "{error}");
    assert_eq!(bench.text("src/a.txt"), "one\ntwo\n");
}

#[tokio::test]
async fn one_file_may_be_changed_twice() {
    let bench = bench();
    let patch = "*** Begin Patch\n*** Update File: src/a.txt\n-one\n+1\n*** Update File: \
                 ./src/a.txt\n-two\n+2\n*** End Patch\n";
    bench.ok("apply_patch", json!({"patch": patch})).await;
    assert_eq!(bench.text("src/a.txt"), "1\n2\n");
}

fn mode(bench: &Bench, path: &str) -> u32 {
    bench.path().join(path).metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(bench: &Bench, path: &str, mode: u32) {
    let path = bench.path().join(path);
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_moved_file_keeps_its_permission_bits() {
    for patch in [ENVELOPE, UNIFIED] {
        let bench = bench();
        set_mode(&bench, "move.txt", 0o750);
        set_mode(&bench, "src/a.txt", 0o755);
        bench.ok("apply_patch", json!({"patch": patch})).await;
        assert_eq!((mode(&bench, "dir/moved.txt"), mode(&bench, "src/a.txt")), (0o750, 0o755));
    }
}

#[tokio::test]
async fn a_move_grants_no_rights_of_its_owner() {
    let bench = bench();
    set_mode(&bench, "move.txt", 0o4755);
    bench.ok("apply_patch", json!({"patch": ENVELOPE})).await;
    assert_eq!(mode(&bench, "dir/moved.txt"), 0o755);
}

#[tokio::test]
async fn what_is_put_back_keeps_its_permission_bits() {
    let bench = bench();
    set_mode(&bench, "old.txt", 0o700);
    set_mode(&bench, "move.txt", 0o711);
    // Removals come last, and the last of them fails: the first was gone by then.
    *bench.workspace.stuck.lock().unwrap() = Some(bench.path().join("old.txt"));
    let error = bench.error("apply_patch", json!({"patch": ENVELOPE})).await;
    assert!(error.ends_with("no file is changed"), "{error}");
    assert_eq!((mode(&bench, "old.txt"), mode(&bench, "move.txt")), (0o700, 0o711));
}
