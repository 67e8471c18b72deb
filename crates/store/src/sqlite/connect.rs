//! How connections are set up.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

/// How long one statement waits for another process's lock. A commit holds it for a few
/// milliseconds; a checkpoint of another process for some tens.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Readers beside the writer. A reader costs a thread and its cache, so there are few; each is
/// opened when it is first needed.
const READERS_MAX: u32 = 3;
/// How long a read waits for a free reader.
const READER_WAIT: Duration = Duration::from_secs(30);
/// Page caches in KiB (negative means KiB to SQLite). The log is written once and read in order,
/// so that a large cache would hold pages that nobody asks for again.
const WRITER_CACHE: &str = "-1024";
const READER_CACHE: &str = "-512";
/// Rows that a reader's thread may be ahead: few hand-overs between the threads, and at the usual
/// half KiB a row no more than 128 KiB.
const ROWS_AHEAD: usize = 256;
/// Prepared statements that the writer keeps: those of every usual size of an append.
const WRITER_STATEMENTS: usize = 64;

/// Settings that every connection shares.
///
/// `mmap_size` stays 0: a mapped file that is cut short kills the process instead of giving an
/// error. `page_size` stays 4,096, the block of the disk: a commit writes whole pages, and larger
/// ones would write more for a small append.
fn base(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(false)
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

/// Makes the file private to its owner, whatever the folder around it allows: a log holds what
/// people said and what their files say. SQLite gives its side files the same permissions.
///
/// # Errors
/// When the file can be neither made nor opened, or its owner is somebody else.
pub(super) fn keep_private(path: &Path) -> io::Result<()> {
    let file =
        OpenOptions::new().write(true).create(true).mode(0o600).truncate(false).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Opens the one connection that writes. Every commit is synced, and checkpoints are the writer's
/// own business, so that no append waits for one.
pub(super) async fn writer(path: &Path) -> sqlx::Result<SqliteConnection> {
    let options = base(path)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Full)
        .statement_cache_capacity(WRITER_STATEMENTS)
        .pragma("cache_size", WRITER_CACHE)
        .pragma("wal_autocheckpoint", "0")
        .thread_name(|_| "store-writer".to_owned());
    SqliteConnection::connect_with(&options).await
}

/// Opens a connection that reads whatever can be read of a damaged file, and the file may be
/// changed by it: it is given a copy.
pub(super) async fn salvage(path: &Path) -> sqlx::Result<SqliteConnection> {
    let options = base(path).pragma("writable_schema", "ON").pragma("cell_size_check", "ON");
    SqliteConnection::connect_with(&options).await
}

/// Prepares the readers; none is opened yet.
pub(super) fn readers(path: &Path) -> SqlitePool {
    let options = base(path)
        .row_buffer_size(ROWS_AHEAD)
        .pragma("cache_size", READER_CACHE)
        .pragma("query_only", "ON")
        .thread_name(|_| "store-reader".to_owned());
    PoolOptions::new()
        .max_connections(READERS_MAX)
        .acquire_timeout(READER_WAIT)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options)
}
