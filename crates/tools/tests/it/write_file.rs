//! `write_file`.

use std::os::unix::fs::PermissionsExt;

use driver_api::Access;
use protocol::Effect;
use protocol::event::Display;
use serde_json::json;

use crate::{Bench, text_of};

#[tokio::test]
async fn a_new_file_needs_nothing_and_may_be_written_again() {
    let bench = Bench::new();
    let input = json!({"path": "new/dir/a.txt", "content": "one\ntwo\n"});
    let outcome = bench.call("write_file", input.clone()).await.unwrap();
    assert_eq!(text_of(&outcome), "created new/dir/a.txt: 2 lines");
    assert_eq!(bench.text("new/dir/a.txt"), "one\ntwo\n");
    let Some(Display::Diff { added: 2, removed: 0, .. }) = outcome.display else {
        panic!("{:?}", outcome.display)
    };
    let text = bench.ok("write_file", input).await;
    assert_eq!(text, "new/dir/a.txt has this content already; unchanged");
    let text = bench.ok("write_file", json!({"path": "new/dir/a.txt", "content": "x"})).await;
    assert_eq!(text, "wrote new/dir/a.txt: 1 line");
}

#[tokio::test]
async fn an_existing_file_must_have_been_read() {
    let bench = Bench::new();
    bench.file("a.txt", "precious\n");
    std::fs::set_permissions(bench.path().join("a.txt"), PermissionsExt::from_mode(0o640)).unwrap();
    let input = json!({"path": "a.txt", "content": "new\n"});
    let error = bench.error("write_file", input.clone()).await;
    assert!(error.contains("read it first"), "{error}");
    bench.read("a.txt").await;
    bench.file("a.txt", "changed meanwhile\n");
    let error = bench.error("write_file", input.clone()).await;
    assert!(error.contains("changed since it was read"), "{error}");
    assert_eq!(bench.text("a.txt"), "changed meanwhile\n");
    bench.read("a.txt").await;
    bench.ok("write_file", input).await;
    assert_eq!(bench.text("a.txt"), "new\n");
    let mode = bench.path().join("a.txt").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[tokio::test]
async fn a_file_that_comes_between_gate_and_run_is_not_overwritten() {
    let bench = Bench::new();
    let input = json!({"path": "a.txt", "content": "mine\n"});
    let facts = bench.facts("write_file", input.clone()).await.unwrap();
    bench.file("a.txt", "theirs\n");
    let run = bench.tool("write_file");
    let error = run.run(&crate::object(input), &facts, &bench.context).await.unwrap_err();
    assert!(error.to_string().contains("read it first"), "{error}");
    assert_eq!(bench.text("a.txt"), "theirs\n");
}

#[tokio::test]
async fn facts_name_the_target_of_a_link() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.path().join("link")).unwrap();
    let input = json!({"path": "link/new.txt", "content": ""});
    let facts = bench.facts("write_file", input).await.unwrap();
    let real = outside.path().canonicalize().unwrap().join("new.txt");
    assert_eq!((facts.effect, facts.paths[0].access), (Effect::Write, Access::Write));
    assert_eq!((&facts.paths[0].located.real, &facts.paths[0].located.root), (&real, &None));
    assert_eq!(facts.summary, real.display().to_string());
}
