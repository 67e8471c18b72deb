//! Creation, facts, lists and removal.

use std::sync::Arc;

use driver_api::{Lease, ListFilter, NewSession, SessionHead, SessionState, Snapshot, StoreError};
use futures_util::future::join_all;
use protocol::{Mode, Seq};

use super::{Disk, START, all, created, id, row, rows, session};

pub async fn a_created_session_is_found(disk: &Disk) {
    let store = disk.open().await;
    let head = SessionHead {
        title: Some("a title".to_owned()),
        model: "provider/model".to_owned(),
        mode: Mode::FullAuto,
        state: SessionState::Running,
        prompts: 3,
        cost_usd: 0.1 + 0.2,
    };
    let new = NewSession { head: head.clone(), rows: rows(1, 2), ..session("a") };
    let lease = store.create(new).await.unwrap();
    assert_eq!((lease.session.clone(), lease.generation), (id("a"), 1));
    let found = store.get(&id("a")).await.unwrap();
    assert_eq!((found.id.clone(), found.cwd.as_str()), (id("a"), "/work"));
    assert_eq!(found.head, head);
    assert_eq!((found.created_at, found.updated_at), (START, START.plus_ms(2)));
    assert_eq!(found.last_seq, Seq(2));
    assert!(found.owner.is_some());
    assert_eq!(all(&*store, "a").await, rows(1, 2));
}

pub async fn an_id_is_taken_once(disk: &Disk) {
    let store = disk.open().await;
    created(&*store, "a").await;
    let again = NewSession { rows: rows(1, 1), ..session("a") };
    let refused = store.create(again).await;
    assert!(matches!(refused, Err(StoreError::Exists(taken)) if taken == id("a")));
    assert_eq!(all(&*store, "a").await, []);
}

pub async fn an_unknown_session_is_not_found(disk: &Disk) {
    let store = disk.open().await;
    let lease = Lease { session: id("x"), generation: 1 };
    let snapshot = Snapshot { seq: Seq(1), version: 1, bytes: vec![1] };
    let answers = [
        store.claim(&id("x")).await.map(|_| ()),
        store.append(&lease, rows(1, 1), None).await.map(|_| ()),
        store.read(&id("x"), Seq(1), 10).await.map(|_| ()),
        store.truncate(&lease, Seq(0)).await,
        store.snapshot(&id("x")).await.map(|_| ()),
        store.put_snapshot(&lease, snapshot).await,
        store.get(&id("x")).await.map(|_| ()),
        store.remove(&lease).await,
    ];
    for answer in answers {
        assert!(matches!(&answer, Err(StoreError::NotFound(x)) if *x == id("x")), "{answer:?}");
    }
    store.release(&lease).await.unwrap();
    assert_eq!(store.list(ListFilter::default()).await.unwrap(), []);
}

pub async fn lists_are_newest_first(disk: &Disk) {
    let store = disk.open().await;
    let first = created(&*store, "a").await;
    for name in ["b", "c"] {
        created(&*store, name).await;
    }
    let names = || async {
        let found = store.list(ListFilter::default()).await.unwrap();
        found.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    // At the same instant, the one created later comes first.
    assert_eq!(names().await, [id("c"), id("b"), id("a")]);
    store.append(&first, rows(1, 1), None).await.unwrap();
    assert_eq!(names().await, [id("a"), id("c"), id("b")]);
}

pub async fn lists_keep_to_filter_and_limit(disk: &Disk) {
    let store = disk.open().await;
    let new = |n: i64| NewSession {
        cwd: format!("/work/{}", n % 2),
        at: START.plus_ms(n),
        ..session(&format!("{n:03}"))
    };
    join_all((0..120).map(|n| store.create(new(n)))).await.into_iter().for_each(|made| {
        made.unwrap();
    });
    let list = |cwd: Option<&str>, before: Option<i64>, limit: usize| {
        let before = before.map(|n| (START.plus_ms(n), id(&format!("{n:03}"))));
        let filter =
            ListFilter { cwd: cwd.map(str::to_owned), before, limit, ..ListFilter::default() };
        let store = Arc::clone(&store);
        async move {
            let found = store.list(filter).await.unwrap();
            found.into_iter().map(|row| row.created_at.0 - START.0).collect::<Vec<_>>()
        }
    };
    assert_eq!(list(None, None, 0).await, (20..120).rev().collect::<Vec<_>>());
    assert_eq!(list(None, None, 1000).await.len(), 120);
    assert_eq!(list(None, None, usize::MAX).await.len(), 120);
    assert_eq!(list(None, Some(10), 3).await, [9, 8, 7]);
    assert_eq!(list(Some("/work/1"), Some(10), 3).await, [9, 7, 5]);
    assert_eq!(list(Some("/work"), None, 3).await, [] as [i64; 0]);
}

/// However many were touched in one millisecond, and where a page ends among them.
pub async fn pages_of_a_list_leave_nobody_out(disk: &Disk) {
    let store = disk.open().await;
    let new = |n: i64| NewSession { at: START.plus_ms(n / 5), ..session(&format!("{n:03}")) };
    for n in 0..15 {
        store.create(new(n)).await.unwrap();
    }
    for limit in 1..16 {
        let (mut before, mut found) = (None, Vec::new());
        loop {
            let filter = ListFilter { before, limit, ..ListFilter::default() };
            let page = store.list(filter).await.unwrap();
            found.extend(page.iter().map(|row| row.id.clone()));
            let Some(last) = page.last() else { break };
            before = Some((last.updated_at, last.id.clone()));
        }
        let all: Vec<_> = (0..15).rev().map(|n| id(&format!("{n:03}"))).collect();
        assert_eq!(found, all, "{limit} at a time");
    }
    let gone = Some((START.plus_ms(2), id("gone")));
    let rest = store.list(ListFilter { before: gone, ..ListFilter::default() }).await.unwrap();
    assert_eq!(rest.len(), 10);
}

pub async fn lists_of_the_busy_leave_the_idle_out(disk: &Disk) {
    let store = disk.open().await;
    let states = [SessionState::Idle, SessionState::Running, SessionState::Waiting];
    for (name, state) in ["a", "b", "c"].into_iter().zip(states) {
        let lease = created(&*store, name).await;
        let head = SessionHead { state, ..store.get(&id(name)).await.unwrap().head };
        store.append(&lease, rows(1, 1), Some(head)).await.unwrap();
    }
    let busy = |filter: ListFilter| {
        let store = Arc::clone(&store);
        async move {
            let found = store.list(ListFilter { is_busy: true, ..filter }).await.unwrap();
            found.into_iter().map(|row| row.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(busy(ListFilter::default()).await, [id("c"), id("b")]);
    assert_eq!(busy(ListFilter { limit: 1, ..ListFilter::default() }).await, [id("c")]);
    let cwd = Some(store.get(&id("b")).await.unwrap().cwd);
    let of_folder = ListFilter { cwd, ..ListFilter::default() };
    assert_eq!(busy(of_folder).await, [id("c"), id("b")]);
    let elsewhere = ListFilter { cwd: Some("/nowhere".to_owned()), ..ListFilter::default() };
    assert_eq!(busy(elsewhere).await, []);
}

pub async fn a_probe_changes_nothing(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    store.append(&lease, rows(1, 2), None).await.unwrap();
    let before = store.get(&id("a")).await.unwrap();
    let (probed, appended) = tokio::join!(store.probe(), store.append(&lease, rows(3, 3), None));
    probed.unwrap();
    appended.unwrap();
    store.probe().await.unwrap();
    let after = store.get(&id("a")).await.unwrap();
    assert_eq!((after.owner, after.head), (before.owner, before.head));
    assert_eq!(all(&*store, "a").await, rows(1, 3));
    assert_eq!(store.list(ListFilter::default()).await.unwrap().len(), 1);
    store.close().await.unwrap();
    assert!(matches!(store.probe().await, Err(StoreError::Fault(_))));
    assert_eq!(all(&*disk.open().await, "a").await, rows(1, 3));
}

pub async fn the_head_is_replaced_with_an_append(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let head = |n: u64| SessionHead {
        title: (n != 2).then(|| format!("title {n}")),
        model: format!("model {n}"),
        mode: Mode::ALL[usize::try_from(n).unwrap()],
        state: SessionState::Waiting,
        prompts: n,
        cost_usd: 0.25,
    };
    for n in [1, 2, 3] {
        store.append(&lease, rows(n, n), Some(head(n))).await.unwrap();
        assert_eq!(store.get(&id("a")).await.unwrap().head, head(n));
    }
    store.append(&lease, rows(4, 4), None).await.unwrap();
    assert_eq!(store.get(&id("a")).await.unwrap().head, head(3));
    // A head alone: no row, and the time of the last growth stays.
    store.append(&lease, Vec::new(), Some(head(1))).await.unwrap();
    let found = store.get(&id("a")).await.unwrap();
    assert_eq!((found.head, found.updated_at, found.last_seq), (head(1), row(4).at, Seq(4)));
    // A refused append changes no head.
    assert!(store.append(&lease, rows(9, 9), Some(head(2))).await.is_err());
    assert_eq!(store.get(&id("a")).await.unwrap().head, head(1));
}

pub async fn a_removed_session_is_gone(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    created(&*store, "b").await;
    store.append(&lease, rows(1, 9), None).await.unwrap();
    let snapshot = Snapshot { seq: Seq(9), version: 1, bytes: vec![1] };
    store.put_snapshot(&lease, snapshot).await.unwrap();
    store.remove(&lease).await.unwrap();
    assert!(matches!(store.get(&id("a")).await, Err(StoreError::NotFound(_))));
    assert!(matches!(store.append(&lease, rows(10, 10), None).await, Err(StoreError::NotFound(_))));
    assert_eq!(store.list(ListFilter::default()).await.unwrap().len(), 1);
    // The id may be used again, and nothing of the old session shows.
    created(&*store, "a").await;
    assert_eq!(all(&*store, "a").await, []);
    assert_eq!(store.snapshot(&id("a")).await.unwrap(), None);
}

pub async fn a_closed_store_fails_and_loses_nothing(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let (appended, closed) = tokio::join!(store.append(&lease, rows(1, 3), None), store.close());
    assert_eq!(appended.unwrap().last_seq, Seq(3));
    closed.unwrap();
    store.close().await.unwrap();
    let answers = [
        store.append(&lease, rows(4, 4), None).await.map(|_| ()),
        store.claim(&id("a")).await.map(|_| ()),
        store.get(&id("a")).await.map(|_| ()),
        store.read(&id("a"), Seq(1), 1).await.map(|_| ()),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Fault(_))), "{answer:?}");
    }
    let again = disk.open().await;
    assert_eq!(all(&*again, "a").await, rows(1, 3));
}
