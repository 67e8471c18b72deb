//! Several processes on one folder. Each opened store has a lock of its own, so that two in one
//! process meet as two processes do.

use std::fs;

use driver_api::{Store, StoreError};
use futures_util::future::join_all;
use protocol::Seq;
use testkit::store_suite::{id, rows, session};

use crate::Folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_append_at_the_same_time() {
    let folder = Folder::new();
    let stores = [folder.open().await, folder.open().await];
    let names: Vec<String> = (0..8).map(|n| format!("{n}")).collect();
    let work = names.iter().zip(stores.iter().cycle()).map(|(name, store)| async move {
        let lease = store.create(session(name)).await.unwrap();
        for seq in 1..=15 {
            store.append(&lease, rows(seq, seq), None).await.unwrap();
        }
    });
    join_all(work).await;
    for name in &names {
        for store in &stores {
            assert_eq!(store.read(&id(name), Seq(1), 100).await.unwrap(), rows(1, 15));
        }
    }
}

#[tokio::test]
async fn a_dropped_store_is_a_dead_owner() {
    let folder = Folder::new();
    let first = folder.open().await;
    first.create(session("a")).await.unwrap();
    let run = folder.path().join("run");
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
    let second = folder.open().await;
    assert!(matches!(second.claim(&id("a")).await, Err(StoreError::OwnedElsewhere(_))));
    drop(first);
    // The lock goes with the writer, which ends when it sees that nobody asks any more.
    let lease = loop {
        match second.claim(&id("a")).await {
            Ok(lease) => break lease,
            Err(StoreError::OwnedElsewhere(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(lease.generation, 2);
    second.close().await.unwrap();
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0, "no lock file is left");
}

#[tokio::test]
async fn the_lock_file_of_a_killed_process_is_removed_by_the_next_owner() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.create(session("a")).await.unwrap();
    store.close().await.unwrap();
    // What a killed process leaves: its name in the row, its file without a lock.
    let run = folder.path().join("run");
    let dead = "00000000000000000000000000000001";
    fs::write(run.join(dead).with_extension("lock"), "4194304\n").unwrap();
    let sql = format!("UPDATE sessions SET owner_instance = '{dead}', owner_pid = 4194304");
    crate::files::change(&folder.database(), sql).await;
    let next = folder.open().await;
    assert_eq!(next.get(&id("a")).await.unwrap().owner, None);
    next.claim(&id("a")).await.unwrap();
    let left: Vec<_> = fs::read_dir(&run).unwrap().collect();
    assert_eq!(left.len(), 1, "only the lock of the new owner: {left:?}");
}

#[tokio::test]
async fn a_takeover_behind_the_back_of_a_writer_fences_it() {
    let folder = Folder::new();
    let store = folder.open().await;
    let (taken, kept) =
        (store.create(session("a")).await.unwrap(), store.create(session("b")).await.unwrap());
    for lease in [&taken, &kept] {
        store.append(lease, rows(1, 1), None).await.unwrap();
    }
    // Another process took this one for dead, for example because its lock file was deleted.
    let sql = "UPDATE sessions SET generation = 2, owner_instance = 'other' WHERE id = 'ses-a'";
    crate::files::change(&folder.database(), sql.to_owned()).await;
    let (fenced, fresh) = tokio::join!(
        store.append(&taken, rows(2, 2), None),
        store.append(&kept, rows(2, 2), None),
    );
    assert!(matches!(fenced, Err(StoreError::Stale(_))), "{fenced:?}");
    assert_eq!(fresh.unwrap().last_seq, Seq(2));
    assert_eq!(store.read(&id("a"), Seq(1), 10).await.unwrap(), rows(1, 1));
    assert_eq!(store.read(&id("b"), Seq(1), 10).await.unwrap(), rows(1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_openings_at_once_make_one_database() {
    let folder = Folder::new();
    let opened = join_all((0..6).map(|_| folder.open())).await;
    for (number, store) in opened.iter().enumerate() {
        assert!(store.notices().is_empty(), "{:?}", store.notices());
        store.create(session(&number.to_string())).await.unwrap();
    }
    assert_eq!(opened[0].list(Default::default()).await.unwrap().len(), 6);
}
