//! What is written comes back as it was.

use driver_api::{ListFilter, LogRow, NewSession, SessionHead};
use protocol::{EventKind, FrameId, Seq, Timestamp};

use super::{Disk, all, created, id, row, row_with, rows, session};

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
