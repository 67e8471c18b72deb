//! The schema: numbered files, applied in order.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use driver_api::{Clock, Fault, StoreError, SystemClock};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Row};

use super::fault::{fault, is_damage};
use super::{beside, connect};

/// The schema of this program.
pub(super) const SCHEMA: Schema =
    Schema { migrations: &[SESSIONS_AND_EVENTS, LETTERS_AND_USAGE, BUSY_SESSIONS] };
const SESSIONS_AND_EVENTS: &str =
    include_str!("../../migrations/sqlite/0001_sessions_and_events.sql");
const LETTERS_AND_USAGE: &str = include_str!("../../migrations/sqlite/0002_letters_and_usage.sql");
const BUSY_SESSIONS: &str = include_str!("../../migrations/sqlite/0003_busy_sessions.sql");

/// How long an opening waits for another process that migrates or repairs.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// How often it looks.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// How the file looks at its opening.
pub(super) enum State {
    /// Of this program's version.
    Current,
    /// Empty or older.
    Old(i64),
    /// Not to be read as it stands.
    Damaged(String),
}

/// Every migration, in order. A file is never changed once it was released; the version of a
/// database is the number of files that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    migrations: &'static [&'static str],
}

impl Schema {
    /// Returns the version that this program writes.
    pub(super) fn version(self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }

    /// Looks at a file, reading three pages.
    ///
    /// # Errors
    /// A file of a newer program is refused; so is one that the system does not let us read.
    pub(super) async fn inspect(
        self,
        connection: &mut SqliteConnection,
        path: &Path,
    ) -> Result<State, StoreError> {
        let version = self.version();
        match look(connection).await {
            Ok((found, inner)) if found > version && inner == Some(found) => {
                Err(StoreError::Fault(Fault::new(format!(
                    "open {}: its schema has version {found}, this program knows up to {version}; \
                     use the newer program that wrote it",
                    path.display(),
                ))))
            }
            Ok((0, None)) => Ok(State::Old(0)),
            Ok((found, inner)) if inner != Some(found) => Ok(State::Damaged(format!(
                "its header says version {found}, its contents {inner:?}"
            ))),
            Ok((found, _)) if found < version => Ok(State::Old(found)),
            Ok(_) => Ok(State::Current),
            Err(error) if is_damage(&error) => Ok(State::Damaged(error.to_string())),
            Err(error) => Err(fault(format!("open {}", path.display()), error)),
        }
    }

    /// Brings a file to this program's version, alone among processes. A copy of what was there is
    /// kept beside it.
    ///
    /// # Errors
    /// A failed migration changes nothing.
    pub(super) async fn migrate(
        self,
        connection: &mut SqliteConnection,
        path: &Path,
    ) -> Result<(), StoreError> {
        let what = || format!("migrate {}", path.display());
        let _lock = lock(path).await?;
        // Another process may have been faster.
        let State::Old(found) = self.inspect(connection, path).await? else { return Ok(()) };
        if found > 0 {
            let stamp = SystemClock::default().now().0;
            let copy = beside(path, &format!("-version{found}-{stamp}"));
            tracing::info!(copy = %copy.display(), "keeps a copy of the database and migrates it");
            let name = copy.to_string_lossy().into_owned();
            let copied = sqlx::query("VACUUM INTO ?").bind(name).execute(&mut *connection).await;
            copied.map_err(|error| fault(what(), error))?;
        }
        self.apply(connection, found).await.map_err(|error| fault(what(), error))
    }

    /// Applies what comes after version `found`, in one transaction.
    pub(super) async fn apply(
        self,
        connection: &mut SqliteConnection,
        found: i64,
    ) -> sqlx::Result<()> {
        let done = usize::try_from(found).unwrap_or(usize::MAX);
        let pending = self.migrations.get(done..).unwrap_or_default().join("\n");
        let version = self.version();
        if found == 0 {
            sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
        }
        let script = format!(
            "BEGIN EXCLUSIVE;\n{pending}\nUPDATE schema_version SET version = {version};\n\
             PRAGMA user_version = {version};\nCOMMIT",
        );
        let applied = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *connection).await;
        if let Err(error) = applied {
            // The first error is the one to tell; without a transaction there is nothing to undo.
            let _undone = sqlx::raw_sql("ROLLBACK").execute(connection).await;
            return Err(error);
        }
        Ok(())
    }
}

/// Reads the version of the header and, but for an empty file, that of the contents.
async fn look(connection: &mut SqliteConnection) -> sqlx::Result<(i64, Option<i64>)> {
    let sql = "SELECT (SELECT user_version FROM pragma_user_version), \
               (SELECT count(*) FROM sqlite_schema WHERE name = 'schema_version')";
    let row = sqlx::raw_sql(sql).fetch_one(&mut *connection).await?;
    let (found, has_contents): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if has_contents == 0 {
        return Ok((found, None));
    }
    let sql = "SELECT version FROM schema_version; SELECT 1 FROM sessions LIMIT 1";
    let rows = sqlx::raw_sql(sql).fetch_all(connection).await?;
    let inner = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok((found, inner))
}

/// A table, index or view: its name, its first page and its text.
pub(super) type Item = (String, i64, Option<String>);

/// Returns what a file holds, in the order of creation.
pub(super) async fn items(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Item>> {
    let sql = "SELECT name, rootpage, sql FROM sqlite_schema ORDER BY rowid";
    sqlx::query_as(sql).fetch_all(connection).await
}

/// Returns what a new file holds.
pub(super) async fn wanted_items() -> sqlx::Result<Vec<Item>> {
    items_of(SCHEMA).await
}

async fn items_of(schema: Schema) -> sqlx::Result<Vec<Item>> {
    let mut connection = connect::writer(Path::new(":memory:")).await?;
    schema.apply(&mut connection, 0).await?;
    items(&mut connection).await
}

/// Tells whether a file holds what a new one does. Where a later migration put its first pages
/// depends on the size of the file that it met, so that only those of the first are compared.
pub(super) async fn is_as_wanted(found: &[Item], wanted: &[Item]) -> sqlx::Result<bool> {
    let first = SCHEMA.migrations.get(..1).unwrap_or_default();
    let fixed = items_of(Schema { migrations: first }).await?.len();
    let is_same = |(index, (found, wanted)): (usize, (&Item, &Item))| {
        (&found.0, &found.2) == (&wanted.0, &wanted.2) && (index >= fixed || found.1 == wanted.1)
    };
    Ok(found.len() == wanted.len() && found.iter().zip(wanted).enumerate().all(is_same))
}

/// Takes the lock under which files are migrated, repaired and moved.
pub(super) async fn lock(path: &Path) -> Result<File, StoreError> {
    let lock = beside(path, "-lock");
    let what = || format!("lock {}", lock.display());
    // Whoever can open it can hold it.
    let file = File::options().create(true).append(true).mode(0o600).open(&lock);
    let file = file.map_err(|error| fault(what(), error))?;
    let clock = SystemClock::default();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if clock.elapsed() < LOCK_WAIT => {
                clock.sleep(LOCK_POLL).await;
            }
            Err(error) => return Err(fault(what(), error)),
        }
    }
}

#[cfg(test)]
mod tests;
