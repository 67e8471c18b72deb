//! The tools in a workspace whose files are not on this machine: they say what they say in a local
//! one.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::{Bench, text_of};

/// A tree with everything that a walk decides about.
fn tree() -> Bench {
    let bench = Bench::new();
    for (age, (path, content)) in [
        ("a/a.rs", "one\nFN upper\nfn one() {}\r\nlast\n"),
        ("a/note.md", "fn in a note\n"),
        ("b.rs", "fn two() {}\nlet x = 1;\nfn three() {}\n"),
        ("b/.gitignore", "*.log\n!keep.log\n/only-here\n"),
        ("b/drop.log", "fn dropped\n"),
        ("b/keep.log", "fn kept\n"),
        ("b/only-here/x.rs", "fn not here\n"),
        ("b/deep/only-here/x.rs", "fn here\n"),
        ("b/deep/.ignore", "!drop.log\n"),
        ("b/deep/drop.log", "fn said otherwise\n"),
        ("binary", "fn \0 fn\n"),
        ("empty.txt", ""),
        ("odd \"name\"\n.rs", "fn odd\n"),
        ("out/x.rs", "fn ignored\n"),
        ("utf16.txt", "\u{feff}fn marked\n"),
        (".gitignore", "out\n# a comment\n\\#x\n"),
        (".git/config", "fn config\n"),
        (".git/info/exclude", "excluded.rs\n"),
        ("excluded.rs", "fn excluded\n"),
        ("secrets/a/b.txt", "fn secret\n"),
        ("sub/.env", "fn env\n"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.file(path, content);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + age as u64);
        let file = File::options().append(true).open(bench.path().join(path)).unwrap();
        file.set_modified(time).unwrap();
    }
    std::fs::create_dir(bench.path().join("bare")).unwrap();
    let link = |to: &str, name| std::os::unix::fs::symlink(to, bench.path().join(name)).unwrap();
    link("a", "folder");
    link("secrets/a", "protected");
    link("./sub/../sub/.env", "file.txt");
    link("nowhere", "dangling.txt");
    bench
}

fn calls() -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for path in [".", "a", "b", "b/deep", "out", "bare", "secrets"] {
        for depth in [1, 2, 5] {
            calls.push(("list_dir", json!({"path": path, "depth": depth})));
        }
        for pattern in ["*", "*.rs", "**/*.{rs,log}", "deep/**"] {
            calls.push(("glob", json!({"pattern": pattern, "path": path})));
        }
        for output in ["lines", "files", "counts"] {
            calls.push(("grep", json!({"pattern": "fn", "path": path, "output": output})));
        }
    }
    for input in [
        json!({"pattern": r"^fn \w+"}),
        json!({"pattern": "FN", "case_insensitive": true, "context": 1}),
        json!({"pattern": r"upper\nfn", "multiline": true}),
        json!({"pattern": "fn", "glob": "*.rs", "limit": 2}),
        json!({"pattern": "fn", "path": "b.rs"}),
        json!({"pattern": "fn", "path": "out/x.rs"}),
        json!({"pattern": "fn", "path": "binary"}),
        json!({"pattern": "a("}),
        json!({"pattern": "fn", "path": "gone"}),
    ] {
        calls.push(("grep", input));
    }
    calls.push(("list_dir", json!({"path": "b.rs"})));
    calls.push(("glob", json!({"pattern": "*", "path": "gone"})));
    calls
}

async fn said(bench: &Bench, name: &str, input: Value) -> String {
    match bench.call(name, input).await {
        Ok(outcome) => format!("{} {}", outcome.truncated, text_of(&outcome)),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn searches_say_the_same_everywhere() {
    let bench = tree();
    for protected in [vec![], vec!["secrets", ".env"]] {
        bench.host.protected.lock().unwrap().clone_from(&protected);
        for (name, input) in calls() {
            if !protected.is_empty() && input.get("limit").is_some() {
                // How much is left out depends on how far a search came.
                continue;
            }
            bench.workspace.is_remote.store(false, Ordering::Relaxed);
            let here = said(&bench, name, input.clone()).await;
            bench.workspace.is_remote.store(true, Ordering::Relaxed);
            let there = said(&bench, name, input.clone()).await;
            // Names near a missing one are looked up on this machine alone.
            let here = here.split("; near it").next().unwrap();
            assert_eq!(there, here, "{name} {input} without {protected:?}");
        }
    }
}

#[tokio::test]
async fn a_workspace_without_find_says_what_to_do() {
    let bench = tree();
    bench.workspace.is_remote.store(true, Ordering::Relaxed);
    bench.workspace.missing.lock().unwrap().push("find".to_owned());
    for (name, input) in [
        ("list_dir", json!({})),
        ("glob", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "x"})),
    ] {
        let error = bench.error(name, input).await;
        assert!(error.contains("there is no find; use run_shell"), "{error}");
    }
    let text = bench.ok("grep", json!({"pattern": "two", "path": "b.rs"})).await;
    assert_eq!(text, "b.rs\n1: fn two() {}", "one file needs no find");
}

#[tokio::test]
async fn what_is_too_large_to_fetch_is_named() {
    let bench = Bench::new();
    bench.workspace.is_remote.store(true, Ordering::Relaxed);
    bench.file("small.txt", "needle\n");
    bench.file("large.txt", vec![b'x'; (8 << 20) + 1]);
    let text = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert_eq!(text, "small.txt\n1: needle\n(1 file larger than 8 MiB left out)");
}

#[tokio::test]
async fn a_stop_ends_a_search() {
    let bench = tree();
    bench.workspace.is_remote.store(true, Ordering::Relaxed);
    bench.context.cancel.cancel();
    let text = bench.ok("grep", json!({"pattern": "fn"})).await;
    assert_eq!(text, "nothing matches\n(stopped before the end)");
}

#[tokio::test]
async fn a_long_output_can_be_read_on() {
    let bench = Bench::new();
    bench.workspace.is_remote.store(true, Ordering::Relaxed);
    let command = "for n in $(seq 1 20000); do echo line $n; done";
    let outcome = bench.call("run_shell", json!({"command": command})).await.unwrap();
    let spill = outcome.spill.unwrap();
    // The file is on this machine; the workspace would not find it.
    let input = json!({"path": spill, "offset": 10_000, "limit": 1});
    let text = bench.ok("read_file", input).await;
    assert!(text.contains("10000\tline 10000\n"), "{text}");
    let inner = bench.spill.path().join("sub/file");
    std::fs::create_dir(inner.parent().unwrap()).unwrap();
    std::fs::write(&inner, "x").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", bench.spill.path().join("link")).unwrap();
    bench.error("read_file", json!({"path": bench.spill.path().join("gone")})).await;
}

#[tokio::test]
async fn a_caller_who_knows_what_is_there_need_not_read_it() {
    let bench = Bench::new();
    bench.file("a.txt", "old\n");
    let write = json!({"path": "a.txt", "content": "new\n"});
    let error = bench.error("write_file", write.clone()).await;
    assert!(error.contains("has not been read"), "{error}");
    bench.host.overwrites.store(true, Ordering::Relaxed);
    bench.ok("write_file", write).await;
    // It is known as it was written, and changes behind the back.
    bench.file("a.txt", "other\n");
    let edit = json!({"path": "a.txt", "edits": [{"old": "other", "new": "third"}]});
    bench.ok("edit_file", edit).await;
    assert_eq!(bench.text("a.txt"), "third\n");
}
