//! `list_dir`.

use serde_json::json;

use crate::{Bench, text_of};

#[tokio::test]
async fn a_folder_is_listed() {
    let bench = Bench::new();
    bench.file("src/deep/a.rs", "");
    bench.file("src/main.rs", "12345");
    bench.file(".hidden", "");
    bench.file(".git/config", "");
    bench.file(".gitignore", "target/\n");
    bench.file("target/x", "");
    std::os::unix::fs::symlink("src", bench.path().join("link")).unwrap();
    let text = bench.ok("list_dir", json!({})).await;
    assert_eq!(text, ".gitignore  8 B\n.hidden  0 B\nlink -> src\nsrc/");
    let text = bench.ok("list_dir", json!({"path": "src", "depth": 2})).await;
    assert_eq!(text, "deep/\ndeep/a.rs  0 B\nmain.rs  5 B");
    let text = bench.ok("list_dir", json!({"path": "target"})).await;
    assert_eq!(text, "x  0 B", "a folder that is asked for is listed, ignored or not");
}

#[tokio::test]
async fn long_listings_keep_the_top_and_say_what_is_left_out() {
    let bench = Bench::new();
    for number in 0..600 {
        bench.file(&format!("a/{number:03}"), "");
    }
    bench.file("z/file", "");
    let outcome = bench.call("list_dir", json!({"depth": 2})).await.unwrap();
    let text = text_of(&outcome);
    assert!(outcome.truncated && text.contains("\nz/\n"), "the top is whole");
    assert!(text.ends_with("(103 more entries left out)"), "{}", &text[text.len() - 60..]);
    assert_eq!(text.lines().count(), 501);
}

#[tokio::test]
async fn what_is_no_folder_is_refused() {
    let bench = Bench::new();
    bench.file("a.txt", "");
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    let error = bench.error("list_dir", json!({"path": "a.txt"})).await;
    assert_eq!(error, "a.txt is a file, not a folder; use read_file");
    let error = bench.error("list_dir", json!({"path": "emtpy"})).await;
    assert_eq!(error, "emtpy does not exist; near it: empty");
    let text = bench.ok("list_dir", json!({"path": "empty"})).await;
    assert!(text.starts_with("(the folder is empty"), "{text}");
}
