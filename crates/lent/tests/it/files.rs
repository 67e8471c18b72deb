//! Files: what goes through the client, and what does not.

use std::path::Path;

use driver_api::{LendError, Lends};

use crate::stand::Stand;

const FILES: Lends = Lends { reads_files: true, writes_files: true, runs_commands: false };

fn refused() -> LendError {
    LendError::Refused("not this one".to_owned())
}

#[tokio::test]
async fn the_newer_text_of_the_client_is_read() {
    let stand = Stand::new(FILES);
    stand.on_disk("/top/a", b"old");
    stand.in_buffer("/top/a", "new text");
    assert_eq!(stand.read("/top/a").await.unwrap(), b"new text");
    // Only the client has it.
    stand.in_buffer("/top/b", "fresh");
    assert_eq!(stand.read("/top/b").await.unwrap(), b"fresh");
    assert!(stand.read("/top/c").await.unwrap_err().contains("does not exist"));
    stand.in_buffer("/top/a", &"x".repeat(101));
    assert!(stand.read("/top/a").await.unwrap_err().contains("101 bytes"));
}

#[tokio::test]
async fn what_is_no_text_or_lies_outside_is_the_machines() {
    let stand = Stand::new(FILES);
    for (path, bytes) in
        [("/top/nul", &b"a\0b"[..]), ("/top/latin", b"\xe4"), ("/elsewhere/t", b"text")]
    {
        stand.on_disk(path, bytes);
        stand.in_buffer(path, "garbled");
        assert_eq!(stand.read(path).await.unwrap(), bytes, "{path}");
        stand.write(path, bytes).await.unwrap();
        assert_eq!(stand.client.buffers.lock().unwrap()[Path::new(path)], "garbled");
    }
}

#[tokio::test]
async fn a_no_of_the_client_stands() {
    let stand = Stand::new(FILES);
    stand.on_disk("/top/a", b"text");
    stand.refuses(refused());
    assert!(stand.read("/top/a").await.unwrap_err().contains("refused: not this one"));
    assert!(stand.write("/top/a", b"new").await.unwrap_err().contains("not this one"));
    assert_eq!(stand.disk.files.lock().unwrap()[Path::new("/top/a")], b"text");
    // What neither has is not there.
    assert!(stand.read("/top/none").await.unwrap_err().contains("does not exist"));
    stand.refuses(LendError::Gone);
    for path in ["/top/a", "/top/none"] {
        assert!(stand.read(path).await.unwrap_err().contains("does not answer"), "{path}");
    }
}

#[tokio::test]
async fn texts_are_written_through_the_client_alone() {
    let stand = Stand::new(FILES);
    let stat = stand.write("/top/new", b"hello").await.unwrap();
    assert_eq!((stat.size, stat.mode), (5, 0o644));
    assert_eq!(stand.client.buffers.lock().unwrap()[Path::new("/top/new")], "hello");
    assert!(stand.disk.files.lock().unwrap().is_empty());
    stand.on_disk("/top/tool", b"#!");
    let stat = stand.write("/top/tool", b"#!/bin/sh").await.unwrap();
    assert_eq!((stat.size, stat.mode), (9, 0o755), "an existing file keeps its bits");
}

#[tokio::test]
async fn what_is_not_lent_is_the_machines() {
    let stand = Stand::new(Lends { reads_files: true, ..Lends::default() });
    stand.write("/top/a", b"here").await.unwrap();
    assert_eq!(stand.disk.files.lock().unwrap()[Path::new("/top/a")], b"here");
    let stand = Stand::new(Lends { writes_files: true, ..Lends::default() });
    stand.on_disk("/top/a", b"disk");
    stand.in_buffer("/top/a", "buffer");
    assert_eq!(stand.read("/top/a").await.unwrap(), b"disk");
}
