//! Who may append.

use driver_api::{ListFilter, Snapshot, StoreError};
use protocol::Seq;

use super::{Disk, all, created, id, rows};

pub async fn a_stale_lease_is_fenced(disk: &Disk) {
    let store = disk.open().await;
    let old = created(&*store, "a").await;
    let other = created(&*store, "b").await;
    let new = store.claim(&id("a")).await.unwrap();
    let snapshot = Snapshot { seq: Seq(0), version: 1, bytes: vec![1] };
    let stale = [
        store.append(&old, rows(1, 1), None).await.map(|_| ()),
        store.truncate(&old, Seq(0)).await,
        store.put_snapshot(&old, snapshot).await,
        store.remove(&old).await,
    ];
    for answer in stale {
        assert!(matches!(&answer, Err(StoreError::Stale(a)) if *a == id("a")), "{answer:?}");
    }
    store.release(&old).await.unwrap();
    // In one commit with others, only the stale part fails.
    let (fenced, fresh, elsewhere) = tokio::join!(
        store.append(&old, rows(1, 1), None),
        store.append(&new, rows(1, 2), None),
        store.append(&other, rows(1, 3), None),
    );
    assert!(matches!(fenced, Err(StoreError::Stale(_))));
    assert_eq!((fresh.unwrap().last_seq, elsewhere.unwrap().last_seq), (Seq(2), Seq(3)));
    assert_eq!(all(&*store, "a").await, rows(1, 2));
}

pub async fn a_claim_renews_the_lease(disk: &Disk) {
    let store = disk.open().await;
    let mut lease = created(&*store, "a").await;
    for _ in 0..3 {
        let renewed = store.claim(&id("a")).await.unwrap();
        assert!(renewed.generation > lease.generation);
        lease = renewed;
    }
    assert_eq!(store.append(&lease, rows(1, 1), None).await.unwrap().last_seq, Seq(1));
}

pub async fn a_living_owner_keeps_its_session(disk: &Disk) {
    let (one, two) = (disk.open().await, disk.open().await);
    let lease = created(&*one, "a").await;
    let owner = one.get(&id("a")).await.unwrap().owner.unwrap();
    assert!(one.is_mine(&owner) && !two.is_mine(&owner));
    let refused = two.claim(&id("a")).await;
    assert!(matches!(refused, Err(StoreError::OwnedElsewhere(found)) if found == owner));
    assert_eq!(two.get(&id("a")).await.unwrap().owner, Some(owner));
    // Another process's lease is of no use, whatever its number.
    let stolen = two.append(&lease, rows(1, 1), None).await;
    assert!(matches!(stolen, Err(StoreError::Stale(_))), "{stolen:?}");
    let mine = created(&*two, "b").await;
    let (a, b) =
        tokio::join!(one.append(&lease, rows(1, 5), None), two.append(&mine, rows(1, 5), None));
    assert_eq!((a.unwrap().last_seq, b.unwrap().last_seq), (Seq(5), Seq(5)));
    assert_eq!(all(&*one, "b").await, rows(1, 5));
    assert_eq!(all(&*two, "a").await, rows(1, 5));
}

pub async fn a_release_frees_the_session(disk: &Disk) {
    let (one, two) = (disk.open().await, disk.open().await);
    let old = created(&*one, "a").await;
    one.release(&old).await.unwrap();
    assert_eq!(one.get(&id("a")).await.unwrap().owner, None);
    let released = one.append(&old, rows(1, 1), None).await;
    assert!(matches!(released, Err(StoreError::Stale(_))));
    let new = two.claim(&id("a")).await.unwrap();
    assert!(new.generation > old.generation);
    two.append(&new, rows(1, 1), None).await.unwrap();
    // A stale release takes nothing from the new owner.
    one.release(&old).await.unwrap();
    two.append(&new, rows(2, 2), None).await.unwrap();
    assert!(matches!(one.claim(&id("a")).await, Err(StoreError::OwnedElsewhere(_))));
}

pub async fn an_ended_owner_is_replaced(disk: &Disk) {
    let (one, two) = (disk.open().await, disk.open().await);
    let old = created(&*one, "a").await;
    one.append(&old, rows(1, 1), None).await.unwrap();
    one.close().await.unwrap();
    assert_eq!(two.get(&id("a")).await.unwrap().owner, None);
    assert_eq!(two.list(ListFilter::default()).await.unwrap()[0].owner, None);
    let new = two.claim(&id("a")).await.unwrap();
    assert!(new.generation > old.generation);
    two.append(&new, rows(2, 2), None).await.unwrap();
    assert_eq!(all(&*two, "a").await, rows(1, 2));
}
