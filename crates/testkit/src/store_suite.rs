//! What every store promises: one case each, run by [`crate::store_suite!`].
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are the bodies of tests"
)]

use std::any::Any;
use std::sync::Arc;

use driver_api::{
    Lease, ListFilter, LogRow, NewSession, SessionHead, SessionState, Snapshot, Store, StoreError,
};
use futures_util::future::{BoxFuture, join_all};
use protocol::{EventKind, FrameId, Mode, Seq, SessionId, Timestamp};

/// A new disk: every call of `open` starts another process that uses it.
pub struct Disk {
    open: Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// Makes a disk from a function that starts a process on it. `kept` lives as long as the disk:
    /// a temporary folder, for example.
    pub fn new(
        open: impl Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync + 'static,
        kept: impl Any + Send + Sync,
    ) -> Self {
        Self { open: Box::new(open), _kept: Box::new(kept) }
    }

    /// Starts a process.
    pub async fn open(&self) -> Arc<dyn Store> {
        (self.open)().await
    }
}

/// Makes a test of every case. The argument is a function that gives a new [`Disk`].
///
/// ```text
/// testkit::store_suite!(my_disk);
/// ```
#[macro_export]
macro_rules! store_suite {
    ($disk:expr) => {
        $crate::store_suite! { $disk =>
            a_created_session_is_found
            an_id_is_taken_once
            an_unknown_session_is_not_found
            lists_are_newest_first
            lists_keep_to_filter_and_limit
            appends_are_dense_and_readable
            a_gap_is_refused_whole
            an_empty_append_changes_nothing
            a_stale_lease_is_fenced
            a_claim_renews_the_lease
            a_living_owner_keeps_its_session
            a_release_frees_the_session
            an_ended_owner_is_replaced
            reads_come_in_pages
            a_cut_removes_the_tail
            a_snapshot_replaces_the_older
            a_removed_session_is_gone
            a_large_body_comes_back
            the_head_is_replaced_with_an_append
            any_text_comes_back
            any_number_comes_back
            every_kind_comes_back
            ten_thousand_rows_come_back
            many_sessions_append_at_once
            appends_of_one_session_keep_their_order
            a_closed_store_fails_and_loses_nothing
        }
    };
    ($disk:expr => $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::store_suite::$case(&$disk()).await;
            }
        )*
    };
}

/// The instant at which the sessions of the suite begin.
const START: Timestamp = Timestamp(1_796_000_000_000);

/// Makes an id.
pub fn id(name: &str) -> SessionId {
    SessionId::new(format!("ses-{name}"))
}

/// Makes a row with a body of its own.
pub fn row(seq: u64) -> LogRow {
    row_with(seq, format!("{{\"text\":\"event number {seq}\"}}"))
}

/// Makes a row with a body.
pub fn row_with(seq: u64, body: impl Into<String>) -> LogRow {
    LogRow {
        seq: Seq(seq),
        frame: FrameId(seq * 3),
        at: START.plus_ms(seq.cast_signed()),
        kind: EventKind::AssistantMessage,
        body: body.into(),
    }
}

/// Makes rows of the seqs from `first` to `last`.
pub fn rows(first: u64, last: u64) -> Vec<LogRow> {
    (first..=last).map(row).collect()
}

/// Makes a session without rows.
pub fn session(name: &str) -> NewSession {
    NewSession {
        id: id(name),
        cwd: "/work".to_owned(),
        at: START,
        head: SessionHead { model: "scripted/demo".to_owned(), ..SessionHead::default() },
        rows: Vec::new(),
    }
}

async fn created(store: &dyn Store, name: &str) -> Lease {
    store.create(session(name)).await.unwrap()
}

async fn all(store: &dyn Store, name: &str) -> Vec<LogRow> {
    store.read(&id(name), Seq(1), usize::MAX).await.unwrap()
}

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
        let before = before.map(|n| START.plus_ms(n));
        let filter = ListFilter { cwd: cwd.map(str::to_owned), before, limit };
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

pub async fn a_large_body_comes_back(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    let body = |size: usize| "größer ".repeat(size / 9);
    let written =
        vec![row(1), row_with(2, body(3 << 20)), row_with(3, body(1 << 20)), row_with(4, "")];
    store.append(&lease, written.clone(), None).await.unwrap();
    // The same body once more, in another session.
    let other = created(&*store, "b").await;
    store.append(&other, vec![row_with(1, body(3 << 20))], None).await.unwrap();
    assert_eq!(all(&*store, "a").await, written);
    store.remove(&lease).await.unwrap();
    assert_eq!(all(&*store, "b").await, [row_with(1, body(3 << 20))]);
    store.truncate(&other, Seq(0)).await.unwrap();
    store.append(&other, vec![row_with(1, body(3 << 20))], None).await.unwrap();
    assert_eq!(all(&*store, "b").await, [row_with(1, body(3 << 20))]);
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

pub async fn any_text_comes_back(disk: &Disk) {
    let store = disk.open().await;
    let text = "ő \u{0} \u{1b}[31m 🦀 \u{202e} '; DROP TABLE sessions; -- \u{10ffff}";
    let new = NewSession {
        id: id(text),
        cwd: format!("/{text}"),
        head: SessionHead { title: Some(text.to_owned()), ..SessionHead::default() },
        rows: vec![row_with(1, text), row_with(2, "")],
        ..session("")
    };
    store.create(new.clone()).await.unwrap();
    assert_eq!(all(&*store, text).await, new.rows);
    let found = store.get(&id(text)).await.unwrap();
    assert_eq!((found.cwd, found.head), (new.cwd.clone(), new.head));
    let filter = ListFilter { cwd: Some(new.cwd), ..ListFilter::default() };
    assert_eq!(store.list(filter).await.unwrap().len(), 1);
}

pub async fn any_number_comes_back(disk: &Disk) {
    let store = disk.open().await;
    let mut written = rows(1, 4);
    written[0].at = Timestamp(0);
    written[1].at = Timestamp(-1);
    written[2].at = Timestamp(i64::MAX);
    written[0].frame = FrameId(0);
    written[1].frame = FrameId(u64::MAX);
    written[2].frame = FrameId(7 << 32 | 5);
    store.create(NewSession { rows: written.clone(), ..session("a") }).await.unwrap();
    assert_eq!(all(&*store, "a").await, written);
}

pub async fn every_kind_comes_back(disk: &Disk) {
    let store = disk.open().await;
    let kinds = EventKind::ALL.iter().zip(1..);
    let written: Vec<_> = kinds.map(|(kind, seq)| LogRow { kind: *kind, ..row(seq) }).collect();
    store.create(NewSession { rows: written.clone(), ..session("a") }).await.unwrap();
    assert_eq!(all(&*store, "a").await, written);
}

pub async fn ten_thousand_rows_come_back(disk: &Disk) {
    let store = disk.open().await;
    let lease = created(&*store, "a").await;
    for first in (1..10_000).step_by(500) {
        store.append(&lease, rows(first, first + 499), None).await.unwrap();
    }
    let mut read = Vec::new();
    while read.len() < 10_000 {
        let from = Seq(read.len() as u64 + 1);
        read.extend(store.read(&id("a"), from, 1000).await.unwrap());
    }
    assert_eq!(read, rows(1, 10_000));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::MemoryDisk;

    fn disk() -> Disk {
        let disk = MemoryDisk::new();
        let open = disk.clone();
        Disk::new(
            move || {
                let store: Arc<dyn Store> = open.process();
                Box::pin(std::future::ready(store))
            },
            disk,
        )
    }

    crate::store_suite!(disk);

    #[test]
    fn every_case_is_listed() {
        let source = include_str!("store_suite.rs");
        let (list, cases) = source.split_once("const START").unwrap();
        let cases = cases.lines().filter_map(|line| {
            line.strip_prefix("pub async fn ")?.split_once("(disk: &Disk)").map(|(name, _)| name)
        });
        let listed: Vec<&str> = list.lines().map(str::trim).collect();
        let mut count = 0;
        for case in cases {
            assert!(listed.contains(&case), "{case} is not in the list of store_suite!");
            count += 1;
        }
        assert!(count > 20);
    }
}
