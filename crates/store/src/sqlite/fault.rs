//! What SQLite's errors mean here.

use std::fs::File;
use std::path::{Path, PathBuf};

use driver_api::{Fault, StoreError};

/// Primary result codes of SQLite.
const ERROR: i32 = 1;
const BUSY: i32 = 5;
const CORRUPT: i32 = 11;
const NOT_A_DATABASE: i32 = 26;
/// The file ended before the page that was asked for.
const SHORT_READ: i32 = 522;

/// Makes a fault that says what was tried.
pub(super) fn fault(
    what: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Fault(Fault::with(what, source))
}

/// Returns SQLite's extended result code.
fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Tells whether another connection held a lock for longer than the busy timeout.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == BUSY)
}

/// Tells whether the file is damaged. Every statement is fixed and right for every file of ours,
/// so that an unknown table or column is damage too.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| {
        matches!(code & 0xff, ERROR | CORRUPT | NOT_A_DATABASE) || code == SHORT_READ
    })
}

/// Remembers across restarts that the file was seen to be damaged, so that the next opening
/// checks it whole. A check at every start would read the whole file.
#[derive(Debug)]
pub(super) struct Damage {
    marker: PathBuf,
}

impl Damage {
    /// Names the marker beside the database.
    pub(super) fn new(database: &Path) -> Self {
        Self { marker: super::beside(database, "-damaged") }
    }

    /// Leaves the marker when an error means damage.
    pub(super) fn note(&self, error: &sqlx::Error) {
        if is_damage(error) {
            tracing::error!(%error, "the database is damaged; the next start repairs it");
            if let Err(error) = File::create(&self.marker) {
                tracing::error!(%error, "cannot leave a note for the next start");
            }
        }
    }

    /// Tells whether the marker was left.
    pub(super) fn is_noted(&self) -> bool {
        self.marker.exists()
    }

    /// Removes the marker.
    pub(super) fn clear(&self) {
        // Not there is what is wanted.
        let _removed = std::fs::remove_file(&self.marker);
    }
}
