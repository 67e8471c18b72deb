//! Letters to the owner of a session.

use driver_api::{
    LETTER_BYTES_MAX, LETTER_ID_BYTES_MAX, LETTERS_MAX, Lease, Letter, Store, StoreError,
};

use super::{Disk, all, created, id, rows};

fn letter(name: &str) -> Letter {
    Letter { id: name.to_owned(), body: format!("{{\"wish\":\"{name}\"}}") }
}

/// Returns the ids of the letters that wait, in order.
async fn waiting(store: &dyn Store, lease: &Lease) -> Vec<String> {
    store.letters(lease).await.unwrap().into_iter().map(|letter| letter.id).collect()
}

pub async fn letters_reach_the_owner_in_order(disk: &Disk) {
    let (owner, other) = (disk.open().await, disk.open().await);
    let lease = created(&*owner, "a").await;
    let elsewhere = created(&*owner, "b").await;
    assert_eq!(owner.letters(&lease).await.unwrap(), []);
    for name in ["z", "a", "m"] {
        other.post(&id("a"), letter(name)).await.unwrap();
    }
    owner.post(&id("b"), letter("a")).await.unwrap();
    let found = owner.letters(&lease).await.unwrap();
    assert_eq!(found, [letter("z"), letter("a"), letter("m")]);
    // Reading takes nothing away; only what was thrown away is gone, here alone.
    assert_eq!(owner.letters(&lease).await.unwrap(), found);
    owner.drop_letter(&lease, "a").await.unwrap();
    owner.drop_letter(&lease, "a").await.unwrap();
    assert_eq!(waiting(&*owner, &lease).await, ["z", "m"]);
    assert_eq!(waiting(&*owner, &elsewhere).await, ["a"]);
    // A letter is no event: the log and the facts stay as they were.
    assert_eq!(all(&*owner, "a").await, []);
    owner.append(&lease, rows(1, 2), None).await.unwrap();
    assert_eq!(waiting(&*owner, &lease).await, ["z", "m"]);
}

pub async fn only_the_owner_reads_letters(disk: &Disk) {
    let (one, two) = (disk.open().await, disk.open().await);
    let old = created(&*one, "a").await;
    two.post(&id("a"), letter("first")).await.unwrap();
    let new = one.claim(&id("a")).await.unwrap();
    // Neither an older lease nor another process's use of this one.
    for (store, lease) in [(&one, &old), (&two, &new)] {
        let read = store.letters(lease).await.map(|_| ());
        let dropped = store.drop_letter(lease, "first").await;
        for answer in [read, dropped] {
            assert!(matches!(&answer, Err(StoreError::Stale(a)) if *a == id("a")), "{answer:?}");
        }
    }
    one.release(&new).await.unwrap();
    assert!(matches!(one.letters(&new).await, Err(StoreError::Stale(_))));
    // Nobody owns it now, and it still takes letters for whoever does next.
    one.post(&id("a"), letter("second")).await.unwrap();
    let next = two.claim(&id("a")).await.unwrap();
    assert_eq!(waiting(&*two, &next).await, ["first", "second"]);
}

pub async fn letters_outlive_the_process(disk: &Disk) {
    let (one, two) = (disk.open().await, disk.open().await);
    let lease = created(&*one, "a").await;
    for name in ["read", "unread"] {
        two.post(&id("a"), letter(name)).await.unwrap();
    }
    one.drop_letter(&lease, "read").await.unwrap();
    one.close().await.unwrap();
    two.close().await.unwrap();
    let three = disk.open().await;
    let lease = three.claim(&id("a")).await.unwrap();
    assert_eq!(three.letters(&lease).await.unwrap(), [letter("unread")]);
}

pub async fn a_letter_waits_once(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    for _ in 0..2 {
        store.post(&id("a"), letter("one")).await.unwrap();
    }
    let other = Letter { body: "{}".to_owned(), ..letter("one") };
    let refused = store.post(&id("a"), other).await;
    assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    assert_eq!(store.letters(&lease).await.unwrap(), [letter("one")]);
}

pub async fn a_session_takes_so_many_letters(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let name = |n: usize| format!("{n:02}");
    for n in 0..LETTERS_MAX {
        store.post(&id("a"), letter(&name(n))).await.unwrap();
    }
    let refused = store.post(&id("a"), letter("late")).await;
    assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    // One that waits already is no further one, and another session has a box of its own.
    store.post(&id("a"), letter("00")).await.unwrap();
    created(&*store, "b").await;
    store.post(&id("b"), letter("late")).await.unwrap();
    store.drop_letter(&lease, "05").await.unwrap();
    store.post(&id("a"), letter("late")).await.unwrap();
    let found = waiting(&*store, &lease).await;
    assert_eq!((found.len(), found.last().map(String::as_str)), (LETTERS_MAX, Some("late")));
}

pub async fn a_letter_has_a_size(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let of = |id: usize, body: usize| Letter { id: "i".repeat(id), body: "b".repeat(body) };
    let largest = of(LETTER_ID_BYTES_MAX, LETTER_BYTES_MAX);
    store.post(&id("a"), largest.clone()).await.unwrap();
    for large in [of(1, LETTER_BYTES_MAX + 1), of(LETTER_ID_BYTES_MAX + 1, 1)] {
        let refused = store.post(&id("a"), large).await;
        assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    }
    assert_eq!(store.letters(&lease).await.unwrap(), [largest]);
}

pub async fn letters_go_with_their_session(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.post(&id("a"), letter("old")).await.unwrap();
    store.remove(&lease).await.unwrap();
    let gone = [
        store.post(&id("a"), letter("new")).await,
        store.letters(&lease).await.map(|_| ()),
        store.drop_letter(&lease, "old").await,
    ];
    for answer in gone {
        assert!(matches!(&answer, Err(StoreError::NotFound(a)) if *a == id("a")), "{answer:?}");
    }
    let again = created(&*store, "a").await;
    assert_eq!(store.letters(&again).await.unwrap(), []);
}
