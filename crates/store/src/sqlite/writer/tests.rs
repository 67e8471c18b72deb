//! A commit whose answer was lost is answered by what it wrote.

use std::sync::Arc;

use driver_api::{Lease, Letter};
use protocol::{Seq, SessionId};
use testkit::store_suite::{id, row, row_with, session};

use super::super::fault::Damage;
use super::super::{inline_row, open_writer};
use super::*;

/// A writer without its task.
async fn writer(folder: &tempfile::TempDir) -> Writer {
    let path = folder.path().join("sessions.db");
    let shared = Arc::new(Shared {
        ownership: Ownership::new(folder.path().join("run")),
        blobs: Blobs::new(folder.path().join("blobs")),
        damage: Damage::new(&path),
        path,
    });
    let (connection, _) = open_writer(&shared).await.unwrap();
    Writer::new(shared, connection)
}

async fn done(writer: &mut Writer, works: Vec<Work>, lost_answers: u32) -> Vec<Answer> {
    writer.lost_answers = lost_answers;
    let (replies, answers): (Vec<_>, Vec<_>) = works.iter().map(|_| oneshot::channel()).unzip();
    writer.commit(works.into_iter().zip(replies).collect(), Attempt::First).await;
    answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect()
}

fn lease(session: &SessionId) -> Lease {
    Lease { session: session.clone(), generation: 1 }
}

fn append(session: &SessionId, first: u64, last: u64) -> Work {
    let rows = (first..=last).map(|seq| inline_row(row(seq))).collect();
    Work::Append(lease(session), rows, None)
}

async fn count(writer: &mut Writer) -> i64 {
    let sql = "SELECT count(*) FROM events";
    sqlx::query_scalar(sql).fetch_one(&mut writer.connection).await.unwrap()
}

#[tokio::test]
async fn a_lost_answer_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&folder).await;
    let (a, b) = (id("a"), id("b"));
    // One loss is met by the same group again; more than that by each work on its own.
    for lost in [1, TRIES] {
        let name = format!("new-{lost}");
        let create = Work::Create(Box::new(session(&name)), vec![inline_row(row(1))]);
        assert!(matches!(done(&mut writer, vec![create], lost.min(3)).await[..], [Ok(1)]));
    }
    for name in ["a", "b"] {
        let create = Work::Create(Box::new(session(name)), Vec::new());
        assert!(matches!(done(&mut writer, vec![create], 0).await[..], [Ok(1)]));
    }
    let mut next = 1;
    for lost in [0, 1, 2, TRIES, TRIES + 1, TRIES + 2] {
        // Two works of one session come in one commit, so that the first is behind the last seq.
        let works = vec![
            append(&a, next, next + 1),
            append(&b, next, next + 3),
            append(&a, next + 2, next + 3),
        ];
        let answers = done(&mut writer, works, lost).await;
        let wanted = [next + 1, next + 3, next + 3];
        for (answer, wanted) in answers.into_iter().zip(wanted) {
            assert_eq!(answer.unwrap(), wanted, "{lost} lost");
        }
        next += 4;
    }
    assert_eq!(count(&mut writer).await, 2 + 2 * 24, "every row is there once");
    let removed = done(&mut writer, vec![Work::Remove(lease(&b))], 1).await;
    assert!(matches!(removed[..], [Ok(0)]), "{removed:?}");
    assert_eq!(count(&mut writer).await, 2 + 24);
}

#[tokio::test]
async fn other_rows_are_refused_at_a_second_attempt_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&folder).await;
    let a = id("a");
    let create = || Work::Create(Box::new(session("a")), vec![inline_row(row(1))]);
    assert!(matches!(done(&mut writer, vec![create()], 0).await[..], [Ok(1)]));
    assert!(matches!(done(&mut writer, vec![append(&a, 2, 3)], 0).await[..], [Ok(3)]));
    let mut other_frame = row(3);
    other_frame.frame = other_frame.frame.next();
    let others = [
        vec![row(2), row_with(3, "{\"text\":\"another\"}")],
        vec![row(2), other_frame],
        vec![row(3), row(4)],
        vec![row(3), row(2)],
        vec![row(5)],
    ];
    for rows in others {
        let shown = format!("{rows:?}");
        let rows = rows.into_iter().map(inline_row).collect();
        let works = [Work::Append(lease(&a), rows, None)];
        let answers = writer.try_commit(&works, Attempt::Again).await.unwrap();
        assert!(matches!(answers[..], [Err(StoreError::Fault(_))]), "{shown}: {answers:?}");
    }
    let again = writer.try_commit(&[append(&a, 2, 3)], Attempt::Again).await.unwrap();
    assert!(matches!(again[..], [Ok(3)]), "{again:?}");
    // The first attempt knows of no lost answer.
    let twice = writer.try_commit(&[append(&a, 2, 3)], Attempt::First).await.unwrap();
    assert!(matches!(twice[..], [Err(StoreError::Fault(_))]), "{twice:?}");
    // By now the session has more rows than it was created with: it is not the same creation.
    let exists = writer.try_commit(&[create()], Attempt::Again).await.unwrap();
    assert!(matches!(exists[..], [Err(StoreError::Exists(_))]), "{exists:?}");
    let work = Work::Truncate(lease(&a), Seq(3));
    assert!(matches!(done(&mut writer, vec![work], 1).await[..], [Ok(3)]));
}

#[tokio::test]
async fn a_letter_whose_answer_was_lost_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&folder).await;
    let a = id("a");
    let create = Work::Create(Box::new(session("a")), Vec::new());
    assert!(matches!(done(&mut writer, vec![create], 0).await[..], [Ok(1)]));
    let letter = || Letter { id: "one".to_owned(), body: "{}".to_owned() };
    let works = vec![Work::Post(a.clone(), letter()), append(&a, 1, 2)];
    let answers = done(&mut writer, works, TRIES).await;
    assert!(matches!(answers[..], [Ok(_), Ok(2)]), "{answers:?}");
    let sql = "SELECT count(*) FROM letters";
    let letters: i64 = sqlx::query_scalar(sql).fetch_one(&mut writer.connection).await.unwrap();
    assert_eq!((letters, count(&mut writer).await), (1, 2));
    let dropped = done(&mut writer, vec![Work::DropLetter(lease(&a), "one".to_owned())], 1).await;
    assert!(matches!(dropped[..], [Ok(_)]), "{dropped:?}");
    let letters: i64 = sqlx::query_scalar(sql).fetch_one(&mut writer.connection).await.unwrap();
    assert_eq!(letters, 0);
}
