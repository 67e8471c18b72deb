//! `glob` and `grep`.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::{Bench, text_of};

fn set_age(bench: &Bench, path: &str, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000 - seconds);
    let file = File::options().append(true).open(bench.path().join(path)).unwrap();
    file.set_modified(time).unwrap();
}

#[tokio::test]
async fn glob_finds_the_newest_first() {
    let bench = Bench::new();
    for (age, path) in ["src/a.rs", "b.rs", "src/deep/c.rs", "d.txt"].iter().enumerate() {
        bench.file(path, "");
        set_age(&bench, path, 10 - age as u64);
    }
    bench.file(".gitignore", "ignored/\n");
    bench.file("ignored/x.rs", "");
    bench.file(".git/y.rs", "");
    let text = bench.ok("glob", json!({"pattern": "*.rs"})).await;
    assert_eq!(text, "src/deep/c.rs\nb.rs\nsrc/a.rs");
    let text = bench.ok("glob", json!({"pattern": "src/*.rs"})).await;
    assert_eq!(text, "src/a.rs");
    let text = bench.ok("glob", json!({"pattern": "**/*.{txt,md}"})).await;
    assert_eq!(text, "d.txt");
    let text = bench.ok("glob", json!({"pattern": "*.rs", "path": "src/deep"})).await;
    assert_eq!(text, "src/deep/c.rs");
    assert_eq!(bench.ok("glob", json!({"pattern": "*.py"})).await, "no file matches");
}

#[tokio::test]
async fn glob_says_how_many_are_left_out_and_refuses_bad_patterns() {
    let bench = Bench::new();
    for number in 0..250 {
        bench.file(&format!("{number}.txt"), "");
    }
    let outcome = bench.call("glob", json!({"pattern": "*.txt"})).await.unwrap();
    assert!(outcome.truncated && text_of(&outcome).ends_with("(50 older files left out)"));
    let error = bench.error("glob", json!({"pattern": "/etc/*"})).await;
    assert!(error.contains("name the folder in `path`"), "{error}");
    let error = bench.error("glob", json!({"pattern": "a["})).await;
    assert!(error.starts_with("the glob a[ cannot be read"), "{error}");
}

fn grep_bench() -> Bench {
    let bench = Bench::new();
    bench.file("b.rs", "fn two() {}\nlet x = 1;\nfn three() {}\n");
    bench.file("a/a.rs", "one\nFN upper\nfn one() {}\r\nlast\n");
    bench.file("a/note.md", "fn in a note\n");
    bench.file("binary", b"fn \0 fn\n");
    bench.file(".gitignore", "out\n");
    bench.file("out/x.rs", "fn ignored\n");
    bench
}

#[tokio::test]
async fn grep_shows_lines_by_file() {
    let bench = grep_bench();
    let text = bench.ok("grep", json!({"pattern": r"^fn \w+"})).await;
    assert_eq!(
        text,
        "a/a.rs\n3: fn one() {}\na/note.md\n1: fn in a note\nb.rs\n1: fn two() {}\n3: fn three() {}"
    );
    let text = bench.ok("grep", json!({"pattern": "fn", "glob": "*.rs", "path": "a"})).await;
    assert_eq!(text, "a/a.rs\n3: fn one() {}");
    let text = bench
        .ok("grep", json!({"pattern": "fn", "path": "a/a.rs", "case_insensitive": true}))
        .await;
    assert_eq!(text, "a/a.rs\n2: FN upper\n3: fn one() {}");
    let text = bench.ok("grep", json!({"pattern": "upper", "context": 1})).await;
    assert_eq!(text, "a/a.rs\n1- one\n2: FN upper\n3- fn one() {}");
    let text = bench.ok("grep", json!({"pattern": "x", "path": "out/x.rs"})).await;
    assert_eq!(text, "nothing matches");
    let text = bench.ok("grep", json!({"pattern": "ignored$", "path": "out"})).await;
    assert_eq!(text, "out/x.rs\n1: fn ignored");
    let text = bench.ok("grep", json!({"pattern": r"\{\}$", "path": "a"})).await;
    assert_eq!(text, "a/a.rs\n3: fn one() {}", "an end of line before a carriage return");
}

#[tokio::test]
async fn grep_has_other_outputs() {
    let bench = grep_bench();
    let text = bench.ok("grep", json!({"pattern": "^fn", "output": "files"})).await;
    assert_eq!(text, "a/a.rs\na/note.md\nb.rs");
    let text = bench.ok("grep", json!({"pattern": "^fn", "output": "counts"})).await;
    assert_eq!(text, "a/a.rs: 1\na/note.md: 1\nb.rs: 2");
    let input = json!({"pattern": "two.*let", "multiline": true});
    assert_eq!(bench.ok("grep", input).await, "b.rs\n1: fn two() {}\n2: let x = 1;");
}

#[tokio::test]
async fn grep_keeps_its_limits() {
    let bench = grep_bench();
    let outcome = bench.call("grep", json!({"pattern": "^fn", "limit": 3})).await.unwrap();
    let text = text_of(&outcome);
    assert!(outcome.truncated && text.contains("b.rs\n1: fn two() {}\n(more matches"), "{text}");
    let outcome = bench.call("grep", json!({"pattern": "^fn", "limit": 4})).await.unwrap();
    assert!(!outcome.truncated, "exactly the limit is no cut: {}", text_of(&outcome));
    let input = json!({"pattern": "^fn", "output": "files", "limit": 2});
    let outcome = bench.call("grep", input).await.unwrap();
    assert!(outcome.truncated && text_of(&outcome).starts_with("a/a.rs\na/note.md\n(more"));
    bench.file("long.txt", format!("needle{}\n", "x".repeat(10_000)).repeat(300));
    let text = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(text.chars().count() <= tools::OUTPUT_CHARS_MAX && text.contains("… [line cut]"));
}

#[tokio::test]
async fn grep_explains_bad_patterns() {
    let bench = grep_bench();
    let check = async |pattern: &str, expected: &str| {
        let error = bench.error("grep", json!({"pattern": pattern})).await;
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    };
    check("a{", "write literal braces as \\{").await;
    check("(", "unclosed group").await;
    check("(?=x)", "lookaround").await;
    check("a\\nb", "set multiline").await;
    let error = bench.error("grep", json!({"pattern": "x", "path": "c.rs"})).await;
    assert_eq!(error, "c.rs does not exist; near it: b.rs");
}

/// What the note on protected places ends with: how to get at one all the same.
const HIDDEN: &str = "left out by a rule; read_file with the path of such a file asks for it where \
                      the rule leaves that open)";

#[tokio::test]
async fn what_a_rule_protects_is_left_out() {
    let bench = Bench::new();
    bench.file(".env", "KEY=1\n");
    bench.file("sub/.env", "KEY=2\n");
    bench.file("secrets/a/b.txt", "KEY=3\n");
    bench.file("open.txt", "KEY=4\n");
    bench.file("plain/c.txt", "KEY=5\n");
    let link = |to: &str, name| std::os::unix::fs::symlink(to, bench.path().join(name)).unwrap();
    link("secrets/a", "folder");
    link(".env", "file.txt");
    link("open.txt", "fine.txt");
    link("nowhere", "dangling.txt");
    let grep = json!({"pattern": "KEY"});
    let all = bench.ok("grep", grep.clone()).await;
    assert_eq!(all.matches("KEY").count(), 5, "without rules nothing is left out: {all}");
    assert!(!all.contains("left out"), "{all}");

    *bench.host.protected.lock().unwrap() = vec![".env", "secrets"];
    assert_eq!(
        bench.ok("grep", grep).await,
        format!("open.txt\n1: KEY=4\nplain/c.txt\n1: KEY=5\n(2 files and 1 folder are {HIDDEN}")
    );
    let text = bench.ok("grep", json!({"pattern": "KEY", "path": "sub"})).await;
    assert_eq!(text, format!("nothing matches\n(1 file is {HIDDEN}"));
    let text = bench.ok("grep", json!({"pattern": "KEY", "path": ".env"})).await;
    assert_eq!(text, ".env\n1: KEY=1", "the judged path itself is not asked for again");
    let text = bench.ok("grep", json!({"pattern": "KEY", "glob": "c.txt"})).await;
    assert_eq!(text, format!("plain/c.txt\n1: KEY=5\n(1 folder is {HIDDEN}"));

    let text = bench.ok("glob", json!({"pattern": "*"})).await;
    let mut names: Vec<_> = text.lines().collect();
    names.sort_unstable();
    let note = &*format!("(4 files and 1 folder are {HIDDEN}");
    assert_eq!(names, [note, "dangling.txt", "fine.txt", "open.txt", "plain/c.txt"]);

    let text = bench.ok("list_dir", json!({})).await;
    assert_eq!(
        text,
        format!(
            "dangling.txt -> nowhere\nfine.txt -> open.txt\nopen.txt  6 B\nplain/\nsub/\n\
             (3 files and 1 folder are {HIDDEN}"
        )
    );
    let text = bench.ok("list_dir", json!({"path": "sub"})).await;
    assert_eq!(text, format!("(1 file is {HIDDEN}"));
    let error = bench.error("read_file", json!({"path": ".enw"})).await;
    assert!(!error.contains(".env"), "names of protected files are not offered: {error}");
}

#[tokio::test]
async fn a_stop_ends_a_search() {
    let bench = grep_bench();
    bench.context.cancel.cancel();
    let text = bench.ok("grep", json!({"pattern": "fn"})).await;
    assert_eq!(text, "nothing matches\n(stopped before the end)");
}
