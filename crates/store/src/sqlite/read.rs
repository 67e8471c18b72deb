//! What readers ask.

use driver_api::{
    Fault, Lease, Letter, ListFilter, LogRow, Owner, SessionHead, SessionRow, SessionState,
    Snapshot, StoreError,
};
use futures_util::TryStreamExt;
use protocol::{EventKind, FrameId, Mode, Seq, SessionId, Timestamp};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};

use super::fault::{fault, is_damage};
use super::writer::Shared;
use crate::blob::{BlobHash, Blobs};
use crate::kind::KindCode;
use crate::ownership::Ownership;
use crate::row::{SEQ_BITS, SEQ_MAX, letter_sum, row_sum, snapshot_sum};

/// How many sessions a list has where the filter does not say.
const LIST_LEN: usize = 100;
/// How many it may have.
const LIST_LEN_MAX: usize = 1000;

/// Rows of a session from a seq on. A range of ids, so that SQLite walks the tree and sorts
/// nothing.
const READ: &str = "SELECT id, kind, at, frame, sum, body FROM events WHERE \
    id BETWEEN ((SELECT key FROM sessions WHERE id = ?1) << 36) + ?2 \
    AND ((SELECT key FROM sessions WHERE id = ?1) << 36) + 68719476735 ORDER BY id LIMIT ?3";

/// Rows of one kind of all sessions. The first names the condition of the index
/// `events_of_usage` word for word, and says that it is used or the statement fails; the second
/// reads the whole table.
const USAGE_OF_ALL: &str = "SELECT e.id, e.kind, e.at, e.frame, e.sum, e.body, s.id \
    FROM events AS e INDEXED BY events_of_usage CROSS JOIN sessions AS s ON s.key = e.id >> 36 \
    WHERE e.kind IN (13, 141) AND e.at >= ?1 AND (e.at, e.id) > (?1, ?2) \
    ORDER BY e.at, e.id LIMIT ?3";
const KIND_OF_ALL: &str = "SELECT e.id, e.kind, e.at, e.frame, e.sum, e.body, s.id \
    FROM events AS e CROSS JOIN sessions AS s ON s.key = e.id >> 36 \
    WHERE e.kind IN (?4, ?5) AND (e.at, e.id) > (?1, ?2) ORDER BY e.at, e.id LIMIT ?3";
/// The letters of a session with what its lease is compared with; one row without a letter where
/// none waits.
const LETTERS: &str = "SELECT l.id, l.sum, l.body, s.key, s.generation, s.owner_instance \
    FROM sessions AS s LEFT JOIN letters AS l ON l.session = s.key WHERE s.id = ? ORDER BY l.key";

/// The columns that [`session_row`] reads.
macro_rules! session_columns {
    () => {
        "SELECT id, cwd, title, model, mode, state, prompts, cost_usd, created_at, updated_at, \
         last_seq, owner_instance, owner_pid FROM sessions "
    };
}

/// A page of sessions. Those that were touched at one instant follow each other by their keys; one
/// that is gone has none, and all of its instant count as listed.
macro_rules! list_of {
    ($which:literal) => {
        concat!(
            session_columns!(),
            $which,
            " (updated_at, key) < (?1, coalesce((SELECT key FROM sessions WHERE id = ?3), 0)) \
             ORDER BY updated_at DESC, key DESC LIMIT ?2"
        )
    };
}

/// Readers of one store.
pub(super) struct Readers<'s> {
    pub(super) pool: &'s SqlitePool,
    pub(super) shared: &'s Shared,
}

impl Readers<'_> {
    pub(super) async fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        let failed = |error| self.failed(session, error);
        let mut connection = self.pool.acquire().await.map_err(failed)?;
        let first = from.0.clamp(1, SEQ_MAX.cast_unsigned());
        let of = (READ, session.as_str());
        let finish = |event| with_body(known(event)?, &self.shared.blobs);
        let (rows, damage) = read_rows(&mut connection, of, (first, limit), finish).await;
        match damage {
            Some(Damaged::Failed(error)) => return Err(failed(error)),
            Some(Damaged::Refused(error)) => return Err(fault(format!("read {session}"), error)),
            Some(Damaged::File(error)) => self.shared.damage.note(&error),
            Some(Damaged::Row(why)) => {
                let after = rows.last().map_or(first - 1, |row| row.seq.0);
                tracing::error!(%session, after, why, "the log is damaged");
            }
            None => {}
        }
        if rows.is_empty() {
            let sql = "SELECT 1 FROM sessions WHERE id = ?";
            let found = sqlx::query(sql).bind(session.as_str()).fetch_optional(&mut *connection);
            if found.await.map_err(failed)?.is_none() {
                return Err(StoreError::NotFound(session.clone()));
            }
        }
        Ok(rows)
    }

    pub(super) async fn snapshot(
        &self,
        session: &SessionId,
    ) -> Result<Option<Snapshot>, StoreError> {
        let sql = "SELECT s.key, n.seq, n.version, n.sum, n.bytes FROM sessions s \
            LEFT JOIN snapshots n ON n.session = s.key WHERE s.id = ?";
        let failed = |error| self.failed(session, error);
        let found = sqlx::query(sql).bind(session.as_str()).fetch_optional(self.pool).await;
        let Some(row) = found.map_err(failed)? else {
            return Err(StoreError::NotFound(session.clone()));
        };
        let is_there = row.try_get::<Option<i64>, _>(1).is_ok_and(|seq| seq.is_some());
        let snapshot = decode_snapshot(&row);
        if is_there && snapshot.is_none() {
            tracing::warn!(%session, "the snapshot is damaged; the log is folded whole");
        }
        Ok(snapshot)
    }

    pub(super) async fn get(&self, session: &SessionId) -> Result<SessionRow, StoreError> {
        let sql = concat!(session_columns!(), "WHERE id = ?");
        let found = sqlx::query(sql).bind(session.as_str()).fetch_optional(self.pool).await;
        let row = found.map_err(|error| self.failed(session, error))?;
        row.and_then(|row| session_row(&row, &self.shared.ownership))
            .ok_or_else(|| StoreError::NotFound(session.clone()))
    }

    pub(super) async fn list(&self, filter: ListFilter) -> Result<Vec<SessionRow>, StoreError> {
        let sql = match (filter.is_busy, filter.cwd.is_some()) {
            (false, false) => list_of!("WHERE"),
            (false, true) => list_of!("WHERE cwd = ?4 AND"),
            (true, false) => list_of!("INDEXED BY sessions_busy WHERE state <> 'idle' AND"),
            (true, true) => {
                list_of!("INDEXED BY sessions_busy WHERE state <> 'idle' AND cwd = ?4 AND")
            }
        };
        let (before, last) = match filter.before {
            Some((before, last)) => (before.0, last.as_str().to_owned()),
            None => (i64::MAX, String::new()),
        };
        let limit = if filter.limit == 0 { LIST_LEN } else { filter.limit.min(LIST_LEN_MAX) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let query = sqlx::query(sql).bind(before).bind(limit).bind(last);
        let query = match filter.cwd {
            Some(cwd) => query.bind(cwd),
            None => query,
        };
        let rows = query.fetch_all(self.pool).await.map_err(|error| {
            self.shared.damage.note(&error);
            fault("list sessions", error)
        })?;
        Ok(rows.iter().filter_map(|row| session_row(row, &self.shared.ownership)).collect())
    }

    /// Reads rows of one kind over all sessions. A damaged one is left out: it says nothing of the
    /// others.
    pub(super) async fn rows_of(
        &self,
        kind: EventKind,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionId, LogRow)>, StoreError> {
        let what = || format!("read {} of all sessions", kind.as_str());
        let failed = |error| {
            self.shared.damage.note(&error);
            fault(what(), error)
        };
        let mut rows = Vec::new();
        let mut after = (since.0, i64::MIN);
        // One page, and another for as many as were left out.
        while rows.len() < limit {
            let wanted = limit - rows.len();
            let page = page_of(self.pool, kind, after, wanted).await.map_err(failed)?;
            let is_last = page.len() < wanted;
            for row in &page {
                let (id, at): (i64, i64) =
                    (row.try_get(0).map_err(failed)?, row.try_get(2).map_err(failed)?);
                after = (at, id);
                let session = text(row, 6);
                let event = decode_row(row).map_err(Damaged::Row);
                match event.and_then(|event| with_body(known(event)?, &self.shared.blobs)) {
                    Ok(event) => rows.push((SessionId::new(session), event)),
                    Err(Damaged::Refused(error)) => return Err(fault(what(), error)),
                    Err(Damaged::File(error) | Damaged::Failed(error)) => {
                        return Err(failed(error));
                    }
                    Err(Damaged::Row(why)) => {
                        tracing::error!(session, why, "a row is damaged and left out");
                    }
                }
            }
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    pub(super) async fn letters(&self, lease: &Lease) -> Result<Vec<Letter>, StoreError> {
        let session = &lease.session;
        let failed = |error| self.failed(session, error);
        let found = sqlx::query(LETTERS).bind(session.as_str()).fetch_all(self.pool).await;
        let rows = found.map_err(failed)?;
        let Some(first) = rows.first() else {
            return Err(StoreError::NotFound(session.clone()));
        };
        let generation = first.try_get::<i64, _>(4).map_err(failed)?.cast_unsigned();
        let owner: Option<String> = first.try_get(5).map_err(failed)?;
        let is_mine = owner.as_deref() == Some(self.shared.ownership.me().instance.as_str());
        if !is_mine || generation != lease.generation {
            return Err(StoreError::Stale(session.clone()));
        }
        let mut letters = Vec::with_capacity(rows.len());
        for row in &rows {
            let key: i64 = row.try_get(3).map_err(failed)?;
            let is_there = row.try_get::<Option<i64>, _>(1).is_ok_and(|sum| sum.is_some());
            let letter = decode_letter(row, key);
            if is_there && letter.is_none() {
                tracing::error!(%session, "a letter is damaged and left out");
            }
            letters.extend(letter);
        }
        Ok(letters)
    }

    fn failed(&self, session: &SessionId, error: sqlx::Error) -> StoreError {
        self.shared.damage.note(&error);
        fault(format!("read {session}"), error)
    }
}

/// Reads rows of one kind over all sessions that come after an instant and an id.
async fn page_of(
    pool: &SqlitePool,
    kind: EventKind,
    (at, id): (i64, i64),
    limit: usize,
) -> sqlx::Result<Vec<SqliteRow>> {
    let is_usage = kind == EventKind::Usage;
    let query = sqlx::query(if is_usage { USAGE_OF_ALL } else { KIND_OF_ALL });
    let query = query.bind(at).bind(id).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    if is_usage {
        return query.fetch_all(pool).await;
    }
    let [inline, in_file] = [false, true].map(|in_file| KindCode::new(kind, in_file).get());
    query.bind(i64::from(inline)).bind(i64::from(in_file)).fetch_all(pool).await
}

/// Why reading a log ended early.
pub(super) enum Damaged {
    /// A row is not what was written.
    Row(&'static str),
    /// SQLite found the file damaged.
    File(sqlx::Error),
    /// Nothing is known to be damaged, but the file cannot be read.
    Failed(sqlx::Error),
    /// A row is whole, but this program or the system cannot make an event of it now.
    Refused(Fault),
}

/// A row as it stands in the table: its kind may be unknown, and a large body is still the name
/// of its file.
pub(super) struct StoredEvent {
    pub(super) seq: Seq,
    pub(super) frame: FrameId,
    pub(super) at: Timestamp,
    pub(super) kind: KindCode,
    pub(super) body: String,
}

/// Reads rows of `of` by `sql` from seq `first` on, as far as they are whole and without a gap,
/// and hands each to `finish`.
pub(super) async fn read_rows<T>(
    connection: &mut SqliteConnection,
    (sql, of): (&'static str, &str),
    (first, limit): (u64, usize),
    finish: impl Fn(StoredEvent) -> Result<T, Damaged>,
) -> (Vec<T>, Option<Damaged>) {
    let mut rows = Vec::new();
    let mut stream = sqlx::query(sql)
        .bind(of)
        .bind(first.cast_signed())
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch(connection);
    loop {
        let event = match stream.try_next().await {
            Ok(Some(row)) => decode_row(&row),
            Ok(None) => return (rows, None),
            Err(error) if is_damage(&error) => return (rows, Some(Damaged::File(error))),
            Err(error) => return (rows, Some(Damaged::Failed(error))),
        };
        let row = match event {
            Ok(event) if event.seq.0 == first + rows.len() as u64 => finish(event),
            Ok(_) => Err(Damaged::Row("rows are missing")),
            Err(why) => Err(Damaged::Row(why)),
        };
        match row {
            Ok(row) => rows.push(row),
            Err(damaged) => return (rows, Some(damaged)),
        }
    }
}

/// Decodes a row of `id, kind, at, frame, sum, body`, or says what is wrong with it.
fn decode_row(row: &SqliteRow) -> Result<StoredEvent, &'static str> {
    let number = |index| row.try_get::<i64, usize>(index).map_err(|_| "a number is missing");
    let (id, at, frame) = (number(0)?, number(2)?, FrameId(number(3)?.cast_unsigned()));
    let kind = KindCode::from_stored(number(1)?).ok_or("its kind is no kind's number")?;
    let body: String = row.try_get(5).map_err(|_| "its body is no text")?;
    if row_sum(id, kind, at, frame, &body) != number(4)? {
        return Err("its sum is wrong");
    }
    let seq = Seq((id & SEQ_MAX).cast_unsigned());
    Ok(StoredEvent { seq, frame, at: Timestamp(at), kind, body })
}

/// Finds the kind of a row. One that is whole and of an unknown kind is no damage: a newer program
/// wrote it, and nobody may take the log for ended there.
fn known(event: StoredEvent) -> Result<(LogRow, KindCode), Damaged> {
    let StoredEvent { seq, frame, at, kind: code, body } = event;
    let Some(kind) = code.kind() else {
        let (seq, code) = (seq.0, code.get());
        return Err(Damaged::Refused(Fault::new(format!(
            "event {seq} is of kind {code}: it was written by a newer program; use that one"
        ))));
    };
    Ok((LogRow { seq, frame, at, kind, body }, code))
}

/// Puts a large body in the place of the name of its file. Only a file that is gone or changed is
/// damage; one that cannot be read just now (no descriptor free, no right, a disk in trouble) may
/// be whole.
fn with_body((mut row, code): (LogRow, KindCode), blobs: &Blobs) -> Result<LogRow, Damaged> {
    if code.is_in_file() {
        let hash = BlobHash::from_reference(&row.body).ok_or(Damaged::Row("it names no file"))?;
        let body = blobs.read(&hash).map_err(|error| {
            let what = format!("read the file {} of event {}", hash.as_str(), row.seq.0);
            Damaged::Refused(Fault::with(what, error))
        })?;
        row.body = body.ok_or_else(|| {
            tracing::error!(file = hash.as_str(), "a large body is gone or has changed");
            Damaged::Row("its file is missing or damaged")
        })?;
    }
    Ok(row)
}

/// Decodes `key, seq, version, sum, bytes`; a damaged snapshot is none.
pub(super) fn decode_snapshot(row: &SqliteRow) -> Option<Snapshot> {
    let (key, seq, version): (i64, i64, i64) =
        (row.try_get(0).ok()?, row.try_get(1).ok()?, row.try_get(2).ok()?);
    let bytes: Vec<u8> = row.try_get(4).ok()?;
    if snapshot_sum(key, seq, version, &bytes) != row.try_get::<i64, _>(3).ok()? {
        return None;
    }
    Some(Snapshot { seq: Seq(seq.cast_unsigned()), version: u32::try_from(version).ok()?, bytes })
}

/// Decodes `id, sum, body` of a letter for the session `key`; a damaged letter is none.
pub(super) fn decode_letter(row: &SqliteRow, key: i64) -> Option<Letter> {
    let (id, body): (String, String) = (row.try_get(0).ok()?, row.try_get(2).ok()?);
    let sum: i64 = row.try_get(1).ok()?;
    (letter_sum(key, &id, &body) == sum).then_some(Letter { id, body })
}

fn text(row: &SqliteRow, index: usize) -> String {
    row.try_get(index).unwrap_or_default()
}

/// Decodes a session. A damaged fact is shown as its default rather than hiding the session; only
/// one without an id is left out.
pub(super) fn session_row(row: &SqliteRow, ownership: &Ownership) -> Option<SessionRow> {
    let id: String = row.try_get(0).ok()?;
    let text = |index| text(row, index);
    let number = |index| row.try_get::<i64, usize>(index).unwrap_or_default();
    let owner = row.try_get::<Option<String>, _>(11).ok().flatten();
    let owner = owner
        .filter(|instance| ownership.is_alive(instance))
        .map(|instance| Owner { instance, pid: u32::try_from(number(12)).unwrap_or_default() });
    let states = [SessionState::Idle, SessionState::Running, SessionState::Waiting];
    let state = text(5);
    Some(SessionRow {
        id: SessionId::new(id),
        cwd: text(1),
        head: SessionHead {
            title: row.try_get(2).unwrap_or_default(),
            model: text(3),
            mode: text(4).parse::<Mode>().unwrap_or_default(),
            state: states.into_iter().find(|s| s.as_str() == state).unwrap_or_default(),
            prompts: number(6).cast_unsigned(),
            cost_usd: row.try_get(7).unwrap_or_default(),
        },
        created_at: Timestamp(number(8)),
        updated_at: Timestamp(number(9)),
        last_seq: Seq(number(10).cast_unsigned()),
        owner,
    })
}

// The number in the text of READ is the one of the constants.
const _: () = assert!(SEQ_BITS == 36 && SEQ_MAX == 68_719_476_735);
