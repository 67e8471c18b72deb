//! The disk keeps what a process wrote, and the crash comes when it was asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;

use super::*;
use crate::store_suite::{id, rows, session};

/// Appends one row after another until the process dies; returns how many were answered.
async fn append_until_crash(disk: &MemoryDisk, store: &MemoryStore) -> u64 {
    let lease = store.create(session("a")).await.unwrap();
    let mut answered = 0;
    loop {
        let next = answered + 1;
        tokio::select! {
            biased;
            () = disk.crashed() => return answered,
            appended = store.append(&lease, rows(next, next), None) => {
                assert_eq!(appended.unwrap().last_seq, Seq(next));
                answered = next;
            }
        }
    }
}

#[tokio::test]
async fn a_crash_loses_the_append_or_only_its_answer() {
    for (crash, found) in [(Crash::Lost, 2), (Crash::Unanswered, 3)] {
        let disk = MemoryDisk::new();
        let first = disk.process();
        disk.crash_at(3, crash);
        assert_eq!(append_until_crash(&disk, &first).await, 2);
        assert!(disk.has_crashed());
        assert_eq!(disk.rows(&id("a")), rows(1, found));
        assert!(first.get(&id("a")).now_or_never().is_none(), "a dead process never answers");
        assert!(first.close().now_or_never().is_none());
        let second = disk.process();
        let lease = second.claim(&id("a")).await.unwrap();
        assert_eq!(lease.generation, 2);
        let next = found + 1;
        second.append(&lease, rows(next, next), None).await.unwrap();
    }
}

#[tokio::test]
async fn a_crash_is_over_all_processes_and_can_be_asked_for_again() {
    let disk = MemoryDisk::new();
    let (one, two) = (disk.process(), disk.process());
    let a = one.create(session("a")).await.unwrap();
    let b = two.create(session("b")).await.unwrap();
    disk.crash_at(2, Crash::Lost);
    one.append(&a, rows(1, 1), None).await.unwrap();
    assert!(two.append(&b, rows(1, 1), None).now_or_never().is_none());
    assert!(disk.has_crashed());
    assert_eq!(disk.appends(), 2);
    one.append(&a, rows(2, 2), None).await.unwrap();
    disk.crash_at(4, Crash::Lost);
    assert!(!disk.has_crashed());
    assert!(one.append(&a, rows(3, 3), None).now_or_never().is_none());
    assert_eq!(disk.rows(&id("a")), rows(1, 2));
}

#[tokio::test]
async fn the_hook_hears_every_append_before_it_is_made() {
    let disk = MemoryDisk::new();
    let heard = Arc::new(AtomicU64::new(0));
    let (seen, looked_at) = (Arc::clone(&heard), disk.clone());
    disk.on_append(move |number| {
        seen.store(number, Ordering::SeqCst);
        assert_eq!(looked_at.rows(&id("a")).len() as u64, number - 1);
    });
    let store = disk.process();
    let lease = store.create(session("a")).await.unwrap();
    for seq in 1..=3 {
        store.append(&lease, rows(seq, seq), None).await.unwrap();
        assert_eq!(heard.load(Ordering::SeqCst), seq);
    }
}

#[tokio::test]
async fn a_killed_process_loses_its_sessions_to_others() {
    let disk = MemoryDisk::new();
    let (one, two) = (disk.process(), disk.process());
    one.create(session("a")).await.unwrap();
    assert!(matches!(two.claim(&id("a")).await, Err(StoreError::OwnedElsewhere(_))));
    one.kill();
    assert_eq!(two.get(&id("a")).await.unwrap().owner, None);
    two.claim(&id("a")).await.unwrap();
    assert_eq!(disk.sessions(), [id("a")]);
}

#[tokio::test]
async fn damage_ends_a_read_and_leaves_the_count() {
    let disk = MemoryDisk::new();
    let store = disk.process();
    let lease = store.create(session("a")).await.unwrap();
    store.append(&lease, rows(1, 5), None).await.unwrap();
    disk.damage(&id("a"), |rows| {
        rows.remove(2);
    });
    assert_eq!(store.read(&id("a"), Seq(1), 10).await.unwrap(), rows(1, 2));
    assert_eq!(store.get(&id("a")).await.unwrap().last_seq, Seq(5));
    store.truncate(&lease, Seq(2)).await.unwrap();
    store.append(&lease, rows(3, 3), None).await.unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 10).await.unwrap(), rows(1, 3));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_an_error_and_no_end() {
    let disk = MemoryDisk::new();
    let store = disk.process();
    let lease = store.create(session("a")).await.unwrap();
    store.append(&lease, rows(1, 5), None).await.unwrap();
    disk.fail_reads(&id("a"), Some(Seq(3)));
    assert_eq!(store.read(&id("a"), Seq(1), 2).await.unwrap(), rows(1, 2));
    let failed = store.read(&id("a"), Seq(1), 10).await;
    assert!(matches!(failed, Err(StoreError::Fault(_))), "{failed:?}");
    disk.fail_reads(&id("a"), None);
    assert_eq!(store.read(&id("a"), Seq(1), 10).await.unwrap(), rows(1, 5));
}
