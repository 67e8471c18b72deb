//! Whether an earlier attempt, whose answer was lost, has written already what is to be written.

use driver_api::NewSession;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::row::{StoredRow, event_id};

/// Tells whether exactly these rows stand in the log of the session `key`. No rows always do.
pub(super) async fn has_rows(
    connection: &mut SqliteConnection,
    key: i64,
    rows: &[StoredRow],
) -> sqlx::Result<bool> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(true) };
    let sql = "SELECT id, kind, at, frame, sum, body FROM events WHERE id BETWEEN ? AND ? \
        ORDER BY id";
    let found = sqlx::query(sql)
        .bind(event_id(key, first.seq.0.cast_signed()))
        .bind(event_id(key, last.seq.0.cast_signed()))
        .fetch_all(connection)
        .await?;
    Ok(found.len() == rows.len() && found.iter().zip(rows).all(|(found, row)| is(found, key, row)))
}

/// Tells whether the session `key` is the one to be created.
pub(super) async fn has_session(
    connection: &mut SqliteConnection,
    key: i64,
    session: &NewSession,
) -> sqlx::Result<bool> {
    let sql = "SELECT 1 FROM sessions WHERE key = ? AND id = ? AND cwd = ? AND created_at = ?";
    let found = sqlx::query(sql)
        .bind(key)
        .bind(session.id.as_str())
        .bind(&session.cwd)
        .bind(session.at.0)
        .fetch_optional(connection)
        .await?;
    Ok(found.is_some())
}

fn is(found: &SqliteRow, key: i64, row: &StoredRow) -> bool {
    let wanted = [
        event_id(key, row.seq.0.cast_signed()),
        i64::from(row.kind.get()),
        row.at.0,
        row.frame.0.cast_signed(),
        row.sum(key),
    ];
    let numbers = (0_usize..).zip(wanted);
    let has_numbers =
        |(index, number)| found.try_get::<i64, usize>(index).is_ok_and(|it| it == number);
    numbers.into_iter().all(has_numbers)
        && found.try_get::<&str, _>(5).is_ok_and(|body| body == &*row.body)
}
