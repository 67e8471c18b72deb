//! Reads a damaged file session by session and writes what is whole into a new one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use driver_api::LETTERS_MAX;
use futures_util::TryStreamExt;
use protocol::{EventKind, encode_id};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Row};

use super::{copy_with_wal, is_empty};
use crate::blob::BlobHash;
use crate::kind::KindCode;
use crate::row::{KEY_MAX, SEQ_BITS, SEQ_MAX, StoredRow, event_id, letter_sum};
use crate::sqlite::read::{StoredEvent, decode_letter, decode_snapshot, read_rows};
use crate::sqlite::writer::Batch;
use crate::sqlite::{connect, schema};

/// The page size of every file of ours.
const PAGE: usize = 4096;
/// Where the header keeps the number of pages.
const PAGE_COUNT: std::ops::Range<usize> = 28..32;
/// Keys that are tried beside those that were found. A session behind a damaged inner page is
/// found only by asking for it.
const KEYS_TRIED: i64 = 1_000_000;
/// Rows that are read and written at once.
const PAGE_ROWS: usize = 1000;

/// Rows of a session by its key, without looking at the table of sessions.
const READ: &str = "SELECT id, kind, at, frame, sum, body FROM events WHERE \
    id BETWEEN (CAST(?1 AS INTEGER) << 36) + ?2 AND (CAST(?1 AS INTEGER) << 36) + 68719476735 \
    ORDER BY id LIMIT ?3";
/// A session's facts in the order in which they are written again.
const SESSION: &str = "SELECT id, cwd, title, model, mode, state, prompts, cost_usd, created_at, \
    updated_at, last_seq, generation FROM sessions WHERE key = ?";

/// What was carried over.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) sessions: u64,
    pub(super) events: u64,
    /// Events that the sessions' facts speak of and that could not be read.
    pub(super) events_lost: u64,
}

/// Carries over everything that is whole, in one transaction.
pub(super) async fn carry_over(
    (damaged, source, new): (&Path, &Path, &Path),
    target: &mut SqliteConnection,
) -> sqlx::Result<Carried> {
    let mut carried = Carried::default();
    let Some((mut source, keys)) = open_source((damaged, source, new), target).await? else {
        return Ok(carried);
    };
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *target).await?;
    for key in keys {
        carry_session(&mut source, target, key, &mut carried).await?;
    }
    sqlx::raw_sql("COMMIT").execute(target).await?;
    // The copy is thrown away.
    let _closed = source.close().await;
    Ok(carried)
}

/// Opens a copy of the damaged file and finds the keys of its sessions. The first page holds the
/// header and the schema, and is the same in every new file of ours; where it is not as in the new
/// file, it is replaced by that one, unless more can be found without.
async fn open_source(
    (damaged, source, new): (&Path, &Path, &Path),
    target: &mut SqliteConnection,
) -> sqlx::Result<Option<(SqliteConnection, Vec<i64>)>> {
    let wanted = schema::items(target).await?;
    let mut found = Vec::new();
    // SQLite would remove the WAL of an empty file.
    if !is_empty(damaged) {
        copy_with_wal(damaged, source)?;
        if let Ok(mut connection) = connect::salvage(source).await {
            let is_sound = match schema::items(&mut connection).await {
                Ok(items) => schema::is_as_wanted(&items, &wanted).await?,
                Err(_) => false,
            };
            found = keys(&mut connection).await;
            if is_sound {
                return Ok(Some((connection, found)));
            }
            let _closed = connection.close().await;
        }
    }
    copy_with_wal(damaged, source)?;
    replace_first_page(source, new)?;
    if let Ok(mut connection) = connect::salvage(source).await {
        let keys = keys(&mut connection).await;
        if keys.len() >= found.len() {
            return Ok(Some((connection, keys)));
        }
        let _closed = connection.close().await;
    }
    copy_with_wal(damaged, source)?;
    Ok(connect::salvage(source).await.ok().map(|connection| (connection, found)))
}

fn replace_first_page(source: &Path, new: &Path) -> io::Result<()> {
    let mut page = fs::read(new)?;
    page.truncate(PAGE);
    let mut bytes = fs::read(source)?;
    let pages = u32::try_from(bytes.len().div_ceil(PAGE).max(1)).unwrap_or(u32::MAX);
    bytes.resize(bytes.len().next_multiple_of(PAGE).max(PAGE), 0);
    if let Some(count) = page.get_mut(PAGE_COUNT) {
        count.copy_from_slice(&pages.to_be_bytes());
    }
    if let Some(first) = bytes.get_mut(..page.len()) {
        first.copy_from_slice(&page);
    }
    fs::write(source, bytes)
}

/// Returns the keys of every session that may be there.
async fn keys(source: &mut SqliteConnection) -> Vec<i64> {
    let mut keys = BTreeSet::new();
    for (sql, mut at) in [
        ("SELECT key FROM sessions WHERE key > ? ORDER BY key LIMIT 1000", i64::MIN),
        ("SELECT key FROM sessions WHERE key < ? ORDER BY key DESC LIMIT 1000", i64::MAX),
    ] {
        while let Ok(page) = sqlx::query_scalar(sql).bind(at).fetch_all(&mut *source).await {
            let Some(last) = page.last() else { break };
            at = *last;
            keys.extend(page);
        }
    }
    // From one session's rows to the next one's, from both ends.
    let mut at = 0;
    let sql = "SELECT id FROM events WHERE id >= ? ORDER BY id LIMIT 1";
    while let Ok(Some(id)) =
        sqlx::query_scalar::<_, i64>(sql).bind(at).fetch_optional(&mut *source).await
    {
        let key = id >> SEQ_BITS;
        keys.insert(key);
        let Some(next) = (key < KEY_MAX).then(|| event_id(key + 1, 0)) else { break };
        at = next;
    }
    let mut at = i64::MAX;
    let sql = "SELECT id FROM events WHERE id < ? ORDER BY id DESC LIMIT 1";
    while let Ok(Some(id)) =
        sqlx::query_scalar::<_, i64>(sql).bind(at).fetch_optional(&mut *source).await
    {
        keys.insert(id >> SEQ_BITS);
        at = event_id(id >> SEQ_BITS, 0);
    }
    let last = keys.range(..=KEYS_TRIED).next_back().copied().unwrap_or(0);
    keys.extend(1..=last);
    keys.retain(|key| (1..=KEY_MAX).contains(key));
    keys.into_iter().collect()
}

async fn carry_session(
    source: &mut SqliteConnection,
    target: &mut SqliteConnection,
    key: i64,
    carried: &mut Carried,
) -> sqlx::Result<()> {
    let facts = sqlx::query(SESSION).bind(key).fetch_optional(&mut *source).await.ok().flatten();
    let mut batch = Batch::default();
    let (mut kept, mut first, mut last_at) = (0, None, 0);
    loop {
        let next = kept + 1;
        let (rows, damage) =
            read_rows(source, (READ, &key.to_string()), (next, PAGE_ROWS), Ok).await;
        let is_last = damage.is_some() || rows.len() < PAGE_ROWS;
        let rows: Vec<StoredRow> = rows.into_iter().map(stored).collect();
        kept += rows.len() as u64;
        last_at = rows.last().map_or(last_at, |row| row.at.0);
        first = first.or_else(|| rows.first().cloned());
        batch.add_rows(key, &rows);
        batch.flush(target, None).await?;
        if is_last {
            break;
        }
    }
    let found = facts.as_ref().map_or(0, |row| number(row, 10)).clamp(0, SEQ_MAX);
    if facts.is_none() && kept == 0 {
        return Ok(());
    }
    // The old count stays, so that the session itself reports what it lost when it is opened.
    let last_seq = found.max(kept.cast_signed());
    let mut is_written = false;
    if let Some(facts) = &facts {
        is_written = insert_session(target, key, facts, last_seq).await.is_ok();
    }
    if !is_written {
        insert_unknown(target, key, first.as_ref(), (last_at, last_seq)).await?;
    }
    carry_snapshot(source, target, key, kept).await?;
    carry_letters(source, target, key).await?;
    carried.sessions += 1;
    carried.events += kept;
    carried.events_lost += found.cast_unsigned().saturating_sub(kept);
    Ok(())
}

/// Writes a session's facts again; a damaged one becomes its default.
async fn insert_session(
    target: &mut SqliteConnection,
    key: i64,
    facts: &SqliteRow,
    last_seq: i64,
) -> sqlx::Result<()> {
    let id: String = facts.try_get(0)?;
    if id.is_empty() {
        return Err(sqlx::Error::RowNotFound);
    }
    let text = |index| facts.try_get::<String, usize>(index).unwrap_or_default();
    sqlx::query(INSERT)
        .bind(key)
        .bind(id)
        .bind(text(1))
        .bind(facts.try_get::<Option<String>, _>(2).unwrap_or_default())
        .bind(text(3))
        .bind(text(4))
        .bind(text(5))
        .bind(number(facts, 6))
        .bind(facts.try_get::<f64, _>(7).unwrap_or_default())
        .bind(number(facts, 8))
        .bind(number(facts, 9))
        .bind(last_seq)
        .bind(number(facts, 11).max(1))
        .execute(target)
        .await?;
    Ok(())
}

const INSERT: &str = "INSERT INTO sessions (key, id, cwd, title, model, mode, state, prompts, \
    cost_usd, created_at, updated_at, last_seq, generation) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Writes the facts of a session of which only the log is left; its id is made of its key.
async fn insert_unknown(
    target: &mut SqliteConnection,
    key: i64,
    first: Option<&StoredRow>,
    (last_at, last_seq): (i64, i64),
) -> sqlx::Result<()> {
    let start = first
        .filter(|row| row.kind == KindCode::new(EventKind::SessionStart, false))
        .and_then(|row| serde_json::from_str::<serde_json::Value>(&row.body).ok())
        .unwrap_or_default();
    let text = |name| start.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    sqlx::query(INSERT)
        .bind(key)
        .bind(encode_id(u128::from(key.cast_unsigned())))
        .bind(text("cwd"))
        .bind("recovered from a damaged database")
        .bind(text("model"))
        .bind("")
        .bind("")
        .bind(0)
        .bind(0.0)
        .bind(first.map_or(0, |row| row.at.0))
        .bind(last_at)
        .bind(last_seq)
        .bind(1)
        .execute(target)
        .await?;
    Ok(())
}

async fn carry_snapshot(
    source: &mut SqliteConnection,
    target: &mut SqliteConnection,
    key: i64,
    kept: u64,
) -> sqlx::Result<()> {
    let sql = "SELECT session, seq, version, sum, bytes FROM snapshots WHERE session = ?";
    let found = sqlx::query(sql).bind(key).fetch_optional(source).await.ok().flatten();
    let Some(row) = found else { return Ok(()) };
    if decode_snapshot(&row).is_some_and(|snapshot| snapshot.seq.0 <= kept) {
        sqlx::query("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)")
            .bind(key)
            .bind(number(&row, 1))
            .bind(number(&row, 2))
            .bind(number(&row, 3))
            .bind(row.try_get::<Vec<u8>, _>(4)?)
            .execute(target)
            .await?;
    }
    Ok(())
}

/// Carries over the letters that wait for a session and are whole. The table is read without its
/// index, which may be damaged alone.
async fn carry_letters(
    source: &mut SqliteConnection,
    target: &mut SqliteConnection,
    key: i64,
) -> sqlx::Result<()> {
    let sql = "SELECT id, sum, body FROM letters NOT INDEXED WHERE session = ? ORDER BY key";
    let mut letters = Vec::new();
    let mut found = sqlx::query(sql).bind(key).fetch(source);
    while let Ok(Some(row)) = found.try_next().await {
        letters.extend(decode_letter(&row, key));
    }
    drop(found);
    letters.truncate(LETTERS_MAX);
    for letter in letters {
        // Of two with one id, which only damage makes, the first is kept.
        sqlx::query("INSERT OR IGNORE INTO letters (session, id, sum, body) VALUES (?, ?, ?, ?)")
            .bind(key)
            .bind(&letter.id)
            .bind(letter_sum(key, &letter.id, &letter.body))
            .bind(&letter.body)
            .execute(&mut *target)
            .await?;
    }
    Ok(())
}

/// Makes a row ready to be written as it stood, also one of a kind that only a newer program
/// knows: a large body stays in its file.
fn stored(event: StoredEvent) -> StoredRow {
    let StoredEvent { seq, frame, at, kind, body } = event;
    let body: Arc<str> = body.into();
    let file = kind.is_in_file().then(|| BlobHash::from_reference(&body)).flatten();
    StoredRow { seq, frame, at, kind, file: file.map(|hash| (hash, Arc::clone(&body))), body }
}

fn number(row: &SqliteRow, index: usize) -> i64 {
    row.try_get(index).unwrap_or_default()
}
