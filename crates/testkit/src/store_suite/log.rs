//! Rows: appended, read, cut; and the snapshot of what they fold to.

use std::sync::Arc;

use driver_api::{NewSession, SessionHead, Snapshot, StoreError};
use futures_util::future::join_all;
use protocol::Seq;

use super::{Disk, all, created, id, row, rows, session};

pub async fn appends_are_dense_and_readable(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let mut last = 0;
    for count in [1, 2, 3, 4, 5, 31, 32, 33, 100] {
        let answer = store.append(&lease, rows(last + 1, last + count), None).await.unwrap();
        last += count;
        assert_eq!(answer.last_seq, Seq(last));
    }
    assert_eq!(all(&*store, "a").await, rows(1, last));
    let found = store.get(&id("a")).await.unwrap();
    assert_eq!((found.last_seq, found.updated_at), (Seq(last), row(last).at));
}

pub async fn a_gap_is_refused_whole(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.append(&lease, rows(1, 3), None).await.unwrap();
    let gaps =
        [rows(5, 6), rows(3, 4), vec![row(4), row(6)], vec![row(5), row(4)], vec![row(4), row(4)]];
    for gap in gaps {
        let refused = store.append(&lease, gap, None).await;
        assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    }
    assert_eq!(all(&*store, "a").await, rows(1, 3));
    let bad = NewSession { rows: rows(2, 2), ..session("b") };
    assert!(matches!(store.create(bad).await, Err(StoreError::Fault(_))));
    assert!(matches!(store.get(&id("b")).await, Err(StoreError::NotFound(_))));
}

pub async fn an_empty_append_changes_nothing(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.append(&lease, rows(1, 2), None).await.unwrap();
    let before = store.get(&id("a")).await.unwrap();
    assert_eq!(store.append(&lease, Vec::new(), None).await.unwrap().last_seq, Seq(2));
    assert_eq!(store.get(&id("a")).await.unwrap(), before);
}

pub async fn reads_come_in_pages(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.append(&lease, rows(1, 25), None).await.unwrap();
    // Neighbours must not be read along.
    let other = created(&*store, "b").await;
    store.append(&other, rows(1, 3), None).await.unwrap();
    let read = |from: u64, limit: usize| {
        let store = Arc::clone(&store);
        async move { store.read(&id("a"), Seq(from), limit).await.unwrap() }
    };
    assert_eq!(read(1, 10).await, rows(1, 10));
    assert_eq!(read(11, 10).await, rows(11, 20));
    assert_eq!(read(21, 10).await, rows(21, 25));
    assert_eq!(read(0, 2).await, rows(1, 2));
    assert_eq!(read(25, usize::MAX).await, rows(25, 25));
    assert_eq!(read(26, 10).await, []);
    assert_eq!(read(u64::MAX, 10).await, []);
    assert_eq!(read(1, 0).await, []);
}

pub async fn a_cut_removes_the_tail(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.append(&lease, rows(1, 10), None).await.unwrap();
    let snapshot = Snapshot { seq: Seq(8), version: 1, bytes: vec![1] };
    store.put_snapshot(&lease, snapshot.clone()).await.unwrap();
    store.truncate(&lease, Seq(12)).await.unwrap();
    store.truncate(&lease, Seq(9)).await.unwrap();
    assert_eq!(store.snapshot(&id("a")).await.unwrap(), Some(snapshot));
    store.truncate(&lease, Seq(6)).await.unwrap();
    assert_eq!(all(&*store, "a").await, rows(1, 6));
    assert_eq!(store.get(&id("a")).await.unwrap().last_seq, Seq(6));
    assert_eq!(store.snapshot(&id("a")).await.unwrap(), None, "it held events that are gone");
    store.append(&lease, rows(7, 8), None).await.unwrap();
    assert_eq!(all(&*store, "a").await, rows(1, 8));
    store.truncate(&lease, Seq(0)).await.unwrap();
    assert_eq!(all(&*store, "a").await, []);
}

pub async fn a_snapshot_replaces_the_older(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    assert_eq!(store.snapshot(&id("a")).await.unwrap(), None);
    store.append(&lease, rows(1, 9), None).await.unwrap();
    for seq in [4, 9] {
        let bytes = (0..=255).cycle().take(10_000).collect();
        let snapshot = Snapshot { seq: Seq(seq), version: 7, bytes };
        store.put_snapshot(&lease, snapshot.clone()).await.unwrap();
        assert_eq!(store.snapshot(&id("a")).await.unwrap(), Some(snapshot));
    }
}

pub async fn many_sessions_append_at_once(disk: &Disk) {
    let store = disk.open().await;
    let names: Vec<String> = (0..64).map(|n| format!("{n:02}")).collect();
    let work = names.iter().map(|name| {
        let store = Arc::clone(&store);
        async move {
            let lease = created(&*store, name).await;
            for first in [1, 4, 7] {
                store.append(&lease, rows(first, first + 2), None).await.unwrap();
            }
        }
    });
    join_all(work).await;
    for name in &names {
        assert_eq!(all(&*store, name).await, rows(1, 9));
    }
}

pub async fn appends_of_one_session_keep_their_order(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let head = SessionHead { prompts: 20, ..SessionHead::default() };
    let appends = (1..=20).map(|seq| {
        let head = (seq == 20).then(|| head.clone());
        store.append(&lease, rows(seq, seq), head)
    });
    for (answer, seq) in join_all(appends).await.into_iter().zip(1..) {
        assert_eq!(answer.unwrap().last_seq, Seq(seq));
    }
    assert_eq!(all(&*store, "a").await, rows(1, 20));
    assert_eq!(store.get(&id("a")).await.unwrap().head, head);
}
