//! `read_file`.

use std::sync::atomic::Ordering;

use driver_api::{Access, CallFacts};
use protocol::event::Display;
use protocol::{Block, Effect};
use serde_json::json;

use crate::{Bench, text_of};

#[tokio::test]
async fn lines_are_numbered_and_the_file_is_stamped() {
    let bench = Bench::new();
    bench.file("a.txt", "one\ntwo\r\nthree");
    let outcome = bench.call("read_file", json!({"path": "a.txt"})).await.unwrap();
    assert_eq!(text_of(&outcome), "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_eq!(outcome.display, Some(Display::Note { text: "3 lines".to_owned() }));
    assert!(!outcome.truncated);
    let [stamp] = outcome.files.as_slice() else { panic!("one stamp was expected") };
    assert_eq!(stamp.path, bench.path().join("a.txt").display().to_string());
    assert_eq!(stamp.hash.as_ref().map(String::len), Some(32));
}

#[tokio::test]
async fn facts_name_the_real_path() {
    let bench = Bench::new();
    bench.file("dir/a.txt", "one");
    std::os::unix::fs::symlink("dir", bench.path().join("link")).unwrap();
    let facts = bench.facts("read_file", json!({"path": "link/a.txt"})).await.unwrap();
    let CallFacts { effect, summary, paths, command } = facts;
    assert_eq!((effect, summary.as_str(), command), (Effect::Read, "dir/a.txt", None));
    assert_eq!((paths.len(), paths[0].access), (1, Access::Read));
    assert_eq!(paths[0].located.real, bench.path().join("dir/a.txt"));
}

#[tokio::test]
async fn long_files_come_in_parts() {
    let bench = Bench::new();
    let text: String = (1..=5_000).map(|n| format!("{n}\n")).collect();
    bench.file("a.txt", text);
    let outcome = bench.call("read_file", json!({"path": "a.txt"})).await.unwrap();
    let text = text_of(&outcome);
    assert!(outcome.truncated && text.starts_with("     1\t1\n"));
    let end = "  2000\t2000\n(lines 1-2000 of 5000; read on with offset=2001)\n";
    assert!(text.ends_with(end), "{}", &text[text.len() - 100..]);
    let text = bench.ok("read_file", json!({"path": "a.txt", "offset": 4_999, "limit": 9})).await;
    assert_eq!(text, "  4999\t4999\n  5000\t5000\n");
    let error = bench.error("read_file", json!({"path": "a.txt", "offset": 5_001})).await;
    assert_eq!(error, "offset 5001 is past the end: the file has 5000 lines");
}

#[tokio::test]
async fn long_lines_and_many_characters_are_cut() {
    let bench = Bench::new();
    bench.file("a.txt", format!("{}\nend\n", "ü".repeat(2_500)));
    let text = bench.ok("read_file", json!({"path": "a.txt"})).await;
    let line = format!("     1\t{} … [500 more characters in this line]\n", "ü".repeat(2_000));
    assert_eq!(text, format!("{line}     2\tend\n"));
    bench.file("b.txt", format!("{}\n", "x".repeat(1_000)).repeat(100));
    let text = bench.ok("read_file", json!({"path": "b.txt"})).await;
    assert!(text.chars().count() <= tools::OUTPUT_CHARS_MAX);
    assert!(text.ends_with("(lines 1-29 of 100; read on with offset=30)\n"));
}

#[tokio::test]
async fn encodings_are_read() {
    let bench = Bench::new();
    bench.file("bom.txt", b"\xef\xbb\xbfone\n");
    let text = bench.ok("read_file", json!({"path": "bom.txt"})).await;
    assert_eq!(text, "     1\tone\n(UTF-8 with a byte order mark; edits keep it)\n");
    bench.file("wide.txt", b"\xff\xfeo\0k\0\n\0");
    let text = bench.ok("read_file", json!({"path": "wide.txt"})).await;
    assert!(text.starts_with("     1\tok\n(kept as UTF-16"), "{text}");
    bench.file("latin.txt", b"gr\xfcn\n");
    let text = bench.ok("read_file", json!({"path": "latin.txt"})).await;
    assert!(text.starts_with("     1\tgr\u{fffd}n\n(not all of it is UTF-8"), "{text}");
    bench.file("empty.txt", "");
    let outcome = bench.call("read_file", json!({"path": "empty.txt"})).await.unwrap();
    assert_eq!((text_of(&outcome).as_str(), outcome.files.len()), ("(the file is empty)", 1));
}

#[tokio::test]
async fn images_are_shown_where_the_model_reads_them() {
    let mut bench = Bench::new();
    bench.file("a.png", b"\x89PNG\r\n\x1a\n\0\0");
    let outcome = bench.call("read_file", json!({"path": "a.png"})).await.unwrap();
    let [Block::Image(image)] = outcome.content.as_slice() else { panic!("no image") };
    assert_eq!((image.mime_type.as_str(), image.data.as_str()), ("image/png", "iVBORw0KGgoAAA=="));
    assert_eq!(outcome.files.len(), 1);
    bench.context.images = false;
    let error = bench.error("read_file", json!({"path": "a.png"})).await;
    assert!(error.contains("does not read images"), "{error}");
}

#[tokio::test]
async fn what_is_no_text_is_refused_by_name() {
    let bench = Bench::new();
    bench.file("a.pdf", "%PDF-1.7 ...");
    let error = bench.error("read_file", json!({"path": "a.pdf"})).await;
    assert!(error.contains("pdftotext a.pdf -"), "{error}");
    bench.file("a.gz", b"\x1f\x8b\x08abc");
    let error = bench.error("read_file", json!({"path": "a.gz"})).await;
    assert_eq!(error, "a.gz is not a text: gzip data, 6 B");
    bench.file("dir/x", "");
    let error = bench.error("read_file", json!({"path": "dir"})).await;
    assert_eq!(error, "dir is a folder; use list_dir");
    let large = std::fs::File::create(bench.path().join("large.log")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    let error = bench.error("read_file", json!({"path": "large.log"})).await;
    assert!(error.contains("more than read_file takes (64.0 MiB)"), "{error}");
}

#[tokio::test]
async fn a_missing_file_brings_near_names() {
    let bench = Bench::new();
    bench.file("src/main.rs", "");
    bench.file("src/other.txt", "");
    let error = bench.error("read_file", json!({"path": "src/Mian.rs"})).await;
    assert_eq!(error, "src/Mian.rs does not exist; near it: src/main.rs");
    let error = bench.error("read_file", json!({"path": "nowhere/a.txt"})).await;
    assert_eq!(error, "nowhere/a.txt does not exist");
    bench.workspace.is_remote.store(true, Ordering::Relaxed);
    let error = bench.error("read_file", json!({"path": "src/Mian.rs"})).await;
    assert_eq!(error, "src/Mian.rs does not exist");
}
