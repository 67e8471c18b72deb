//! Rows and facts of one commit, gathered over sessions and written by few statements.

use driver_api::SessionHead;
use protocol::{SessionId, Timestamp};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe};

use crate::row::{StoredRow, event_id};

/// How many rows one statement writes. Powers of two, so that few statements serve every number
/// of rows and stay prepared.
const CHUNKS: [usize; 6] = [32, 16, 8, 4, 2, 1];
/// How many statements are sent to the connection's thread at once: each hand-over costs some ten
/// microseconds, and each different text a place among the prepared statements.
const SCRIPT_STATEMENTS: usize = 6;

/// What changes in a session's facts.
#[derive(Clone, Debug)]
struct Update {
    key: i64,
    last_seq: i64,
    at: Option<Timestamp>,
    head: Option<SessionHead>,
}

/// What a session's row must say for a transaction to go on.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) key: i64,
    pub(super) id: SessionId,
    pub(super) generation: u64,
    pub(super) last_seq: u64,
    pub(super) instance: String,
}

/// Everything that one commit still has to write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    guards: Vec<Guard>,
    rows: Vec<(i64, StoredRow)>,
    updates: Vec<Update>,
}

impl Batch {
    /// Makes a batch that begins its transaction itself and fails when a guard does not hold.
    pub(super) fn guarded(guards: Vec<Guard>) -> Self {
        Self { guards, ..Self::default() }
    }

    /// Adds rows of a session.
    pub(crate) fn add_rows(&mut self, key: i64, rows: &[StoredRow]) {
        self.rows.extend(rows.iter().map(|row| (key, row.clone())));
    }

    /// Adds a change of a session's facts; it is merged with an earlier one.
    pub(crate) fn update(
        &mut self,
        key: i64,
        last_seq: i64,
        at: Option<Timestamp>,
        head: Option<&SessionHead>,
    ) {
        if let Some(update) = self.updates.iter_mut().find(|update| update.key == key) {
            update.last_seq = last_seq;
            update.at = at.or(update.at);
            update.head = head.cloned().or(update.head.take());
        } else {
            self.updates.push(Update { key, last_seq, at, head: head.cloned() });
        }
    }

    /// Writes what waits, then `tail`, if any, as the last statement.
    pub(crate) async fn flush(
        &mut self,
        connection: &mut SqliteConnection,
        tail: Option<&'static str>,
    ) -> sqlx::Result<()> {
        let mut script = Script::default();
        let guards = std::mem::take(&mut self.guards);
        if !guards.is_empty() {
            script.add(connection, "BEGIN IMMEDIATE", &[(); 0], ("", 0)).await?;
        }
        for chunk in chunks(&guards) {
            script.add(connection, GUARD, chunk, (GUARD_END, 5)).await?;
            script.bind(i64::try_from(chunk.len()).unwrap_or(i64::MAX))?;
            for guard in chunk {
                script.bind_guard(guard)?;
            }
        }
        let rows = std::mem::take(&mut self.rows);
        for chunk in chunks(&rows) {
            script.add(connection, "INSERT INTO events VALUES ", chunk, ("", 6)).await?;
            for (key, row) in chunk {
                script.bind_row(*key, row)?;
            }
        }
        for (key, row) in &rows {
            if let Some((hash, _)) = &row.file {
                let id = event_id(*key, row.seq.0.cast_signed());
                script
                    .add(connection, "INSERT OR IGNORE INTO blobs VALUES ", &[()], ("", 2))
                    .await?;
                script.bind(hash.as_str())?;
                script.bind(id)?;
            }
        }
        let updates = std::mem::take(&mut self.updates);
        let (heads, others): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| update.head.is_some());
        for chunk in chunks(&heads) {
            script.add(connection, UPDATE_HEAD, chunk, (UPDATE_END, 9)).await?;
            for update in chunk {
                script.bind_update(update)?;
                script.bind_head(update.head.as_ref())?;
            }
        }
        for chunk in chunks(&others) {
            script.add(connection, UPDATE, chunk, (UPDATE_END, 3)).await?;
            for update in chunk {
                script.bind_update(update)?;
            }
        }
        if let Some(tail) = tail {
            script.add(connection, tail, &[(); 0], ("", 0)).await?;
        }
        script.run(connection).await
    }
}

/// Fails where the sessions are not as expected: SQLite has no other way to stop a script than an
/// error, and this number is the one that has no absolute value.
const GUARD: &str = "SELECT abs(iif(count(*) = ?, 0, -9223372036854775808)) FROM (VALUES ";
const GUARD_END: &str = ") AS v CROSS JOIN sessions AS s WHERE s.key = v.column1 \
    AND s.id = v.column2 AND s.generation = v.column3 AND s.last_seq = v.column4 \
    AND s.owner_instance = v.column5";

/// Changes sessions from a list of values; a null `at` leaves the old one. SQLite writes an index
/// anew for every update that names one of its columns, so that heads have a statement of their
/// own.
const UPDATE: &str = "UPDATE sessions SET \
    last_seq = v.column2, updated_at = coalesce(v.column3, updated_at) FROM (VALUES ";
const UPDATE_HEAD: &str = "UPDATE sessions SET \
    last_seq = v.column2, updated_at = coalesce(v.column3, updated_at), \
    title = v.column4, model = v.column5, mode = v.column6, state = v.column7, \
    prompts = v.column8, cost_usd = v.column9 FROM (VALUES ";
const UPDATE_END: &str = ") AS v WHERE sessions.key = v.column1";

/// Cuts a slice into pieces of the fixed sizes.
fn chunks<T>(mut rest: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = CHUNKS.into_iter().find(|size| *size <= rest.len())?;
        let (chunk, tail) = rest.split_at_checked(size)?;
        rest = tail;
        Some(chunk)
    })
}

/// Statements that go to the connection's thread together.
#[derive(Debug, Default)]
struct Script {
    sql: String,
    arguments: SqliteArguments,
    statements: usize,
}

impl Script {
    /// Adds `start`, one `(?, …)` of `columns` places per value, and `end`. Runs what was added
    /// before when it is enough.
    async fn add<T>(
        &mut self,
        connection: &mut SqliteConnection,
        start: &str,
        values: &[T],
        (end, columns): (&str, usize),
    ) -> sqlx::Result<()> {
        if self.statements == SCRIPT_STATEMENTS {
            std::mem::take(self).run(connection).await?;
        }
        if self.statements > 0 {
            self.sql.push(';');
        }
        self.sql.push_str(start);
        for index in 0..values.len() {
            self.sql.push_str(if index == 0 { "(?" } else { ",(?" });
            (1..columns).for_each(|_| self.sql.push_str(",?"));
            self.sql.push(')');
        }
        self.sql.push_str(end);
        self.statements += 1;
        Ok(())
    }

    fn bind<'v, T>(&mut self, value: T) -> sqlx::Result<()>
    where
        T: sqlx::Encode<'v, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        self.arguments.add(value).map_err(sqlx::Error::Encode)
    }

    fn bind_guard(&mut self, guard: &Guard) -> sqlx::Result<()> {
        self.bind(guard.key)?;
        self.bind(guard.id.as_str())?;
        self.bind(guard.generation.cast_signed())?;
        self.bind(guard.last_seq.cast_signed())?;
        self.bind(guard.instance.as_str())
    }

    fn bind_row(&mut self, key: i64, row: &StoredRow) -> sqlx::Result<()> {
        self.bind(event_id(key, row.seq.0.cast_signed()))?;
        self.bind(i64::from(row.kind.get()))?;
        self.bind(row.at.0)?;
        self.bind(row.frame.0.cast_signed())?;
        self.bind(row.sum(key))?;
        self.bind(row.body.clone())
    }

    fn bind_update(&mut self, update: &Update) -> sqlx::Result<()> {
        self.bind(update.key)?;
        self.bind(update.last_seq)?;
        self.bind(update.at.map(|at| at.0))
    }

    fn bind_head(&mut self, head: Option<&SessionHead>) -> sqlx::Result<()> {
        self.bind(head.and_then(|head| head.title.clone()))?;
        self.bind(head.map(|head| head.model.clone()))?;
        self.bind(head.map(|head| head.mode.as_str()))?;
        self.bind(head.map(|head| head.state.as_str()))?;
        self.bind(head.map(|head| head.prompts.cast_signed()))?;
        self.bind(head.map(|head| head.cost_usd))
    }

    async fn run(self, connection: &mut SqliteConnection) -> sqlx::Result<()> {
        if self.statements > 0 {
            let query = sqlx::query_with(AssertSqlSafe(self.sql), self.arguments);
            query.execute(connection).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_in_order() {
        for count in [0_usize, 1, 3, 32, 63, 100] {
            let all: Vec<usize> = (0..count).collect();
            let joined: Vec<usize> = chunks(&all).flatten().copied().collect();
            assert_eq!(joined, all);
        }
        let sizes: Vec<usize> = chunks(&[(); 75]).map(<[()]>::len).collect();
        assert_eq!(sizes, [32, 32, 8, 2, 1]);
    }
}
