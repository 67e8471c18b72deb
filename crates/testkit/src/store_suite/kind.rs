//! Rows of one kind over all sessions.

use driver_api::{LogRow, NewSession, Store};
use protocol::{EventKind, Seq, SessionId, Timestamp};

use super::{Disk, START, created, id, row, session};

/// Makes a row of a kind at an instant.
fn of(seq: u64, kind: EventKind, ms: i64) -> LogRow {
    LogRow { kind, at: START.plus_ms(ms), ..row(seq) }
}

/// Sessions whose rows of every kind lie between each other, not in the order of the sessions.
async fn mixed(store: &dyn Store) {
    let (usage, other) = (EventKind::Usage, EventKind::Notice);
    let b = vec![of(1, other, 1), of(2, usage, 2), of(3, usage, 9)];
    store.create(NewSession { rows: b, ..session("b") }).await.unwrap();
    let lease = created(store, "a").await;
    let a = vec![of(1, usage, 1), of(2, other, 2), of(3, usage, 2), of(4, usage, 5)];
    store.append(&lease, a, None).await.unwrap();
}

/// Returns the sessions and seqs of what was found.
async fn found(store: &dyn Store, kind: EventKind, ms: i64, limit: usize) -> Vec<(String, u64)> {
    let rows = store.rows_of(kind, START.plus_ms(ms), limit).await.unwrap();
    let name = |id: SessionId| id.as_str().trim_start_matches("ses-").to_owned();
    rows.into_iter().map(|(id, row)| (name(id), row.seq.0)).collect()
}

fn pairs(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(name, seq)| ((*name).to_owned(), *seq)).collect()
}

pub async fn rows_of_a_kind_come_from_all_sessions(disk: &Disk) {
    let store = disk.open().await;
    mixed(&*store).await;
    let usage = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 3)];
    for (kind, wanted) in
        [(EventKind::Usage, &usage[..]), (EventKind::Notice, &[("b", 1), ("a", 2)])]
    {
        assert_eq!(found(&*store, kind, i64::from(i32::MIN), 100).await, pairs(wanted));
    }
    assert_eq!(found(&*store, EventKind::Done, 0, 100).await, []);
    let whole = store.rows_of(EventKind::Usage, START, 1).await.unwrap();
    assert_eq!(whole, [(id("a"), of(1, EventKind::Usage, 1))]);
}

pub async fn rows_of_a_kind_come_in_pages(disk: &Disk) {
    let store = disk.open().await;
    mixed(&*store).await;
    let usage = EventKind::Usage;
    // The instant itself belongs to it.
    assert_eq!(
        found(&*store, usage, 2, 100).await,
        pairs(&[("b", 2), ("a", 3), ("a", 4), ("b", 3)])
    );
    assert_eq!(found(&*store, usage, 2, 2).await, pairs(&[("b", 2), ("a", 3)]));
    assert_eq!(found(&*store, usage, 3, usize::MAX).await, pairs(&[("a", 4), ("b", 3)]));
    assert_eq!(found(&*store, usage, 9, 100).await, pairs(&[("b", 3)]));
    assert_eq!(found(&*store, usage, 10, 100).await, []);
    assert_eq!(found(&*store, usage, 0, 0).await, []);
    let never = store.rows_of(usage, Timestamp(i64::MAX), 10).await.unwrap();
    assert_eq!(never, []);
}

pub async fn removed_rows_of_a_kind_are_gone(disk: &Disk) {
    let store = disk.open().await;
    let usage = EventKind::Usage;
    let lease = created(&*store, "a").await;
    let other = created(&*store, "b").await;
    let large = LogRow { body: "x".repeat(2 << 20), ..of(3, usage, 3) };
    let rows = vec![of(1, usage, 1), of(2, usage, 2), large.clone()];
    store.append(&lease, rows, None).await.unwrap();
    store.append(&other, vec![of(1, usage, 2)], None).await.unwrap();
    let last = store.rows_of(usage, START.plus_ms(3), 10).await.unwrap();
    assert_eq!(last, [(id("a"), large)]);
    store.truncate(&lease, Seq(1)).await.unwrap();
    assert_eq!(found(&*store, usage, 0, 100).await, pairs(&[("a", 1), ("b", 1)]));
    store.remove(&lease).await.unwrap();
    assert_eq!(found(&*store, usage, 0, 100).await, pairs(&[("b", 1)]));
}
