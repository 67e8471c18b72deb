//! Letters for the owner of a session.

use driver_api::{Fault, LETTERS_MAX, Letter, StoreError};
use protocol::SessionId;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::transaction::Answer;
use crate::row::letter_sum;

/// Puts a letter into the box of a session of that key. The same letter once more changes nothing:
/// an earlier attempt whose answer was lost may have left it.
pub(super) async fn post(
    connection: &mut SqliteConnection,
    (session, key): (&SessionId, i64),
    letter: &Letter,
) -> sqlx::Result<Answer> {
    let refused = |why: String| {
        Ok(Err(StoreError::Fault(Fault::new(format!(
            "post letter {} to {session}: {why}",
            letter.id
        )))))
    };
    let sql = "SELECT (SELECT count(*) FROM letters WHERE session = ?1), \
        (SELECT body FROM letters WHERE session = ?1 AND id = ?2)";
    let found = sqlx::query(sql).bind(key).bind(&letter.id).fetch_one(&mut *connection).await?;
    let body: Option<String> = found.try_get(1)?;
    match body {
        Some(body) if body == letter.body => return Ok(Ok(0)),
        Some(_) => return refused("another of that id waits already".to_owned()),
        None => {}
    }
    let waiting = usize::try_from(found.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
    if waiting >= LETTERS_MAX {
        return refused(format!("{waiting} wait already, and no more may"));
    }
    sqlx::query("INSERT INTO letters (session, id, sum, body) VALUES (?, ?, ?, ?)")
        .bind(key)
        .bind(&letter.id)
        .bind(letter_sum(key, &letter.id, &letter.body))
        .bind(&letter.body)
        .execute(connection)
        .await?;
    Ok(Ok(0))
}
