//! A damaged file: moved aside, and what can be read of it carried over into a new one.
//!
//! The order makes a crash at any point harmless. A copy is read, so that the damaged file stays
//! as it was found. The new file is complete and durable under the name `-ready` before the
//! damaged one is moved; a start that finds `-ready` only finishes the moves.

mod copy;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use driver_api::{Fault, StoreError};
use sqlx::Connection;

use super::fault::{fault, is_damage};
use super::schema::{SCHEMA, State};
use super::writer::Shared;
use super::{beside, connect, schema};
use crate::blob::sync_folder;
use copy::Carried;

/// What stands beside a database while it is in use, and goes where it goes.
const WAL: &str = "-wal";
const SHARED_MEMORY: &str = "-shm";

/// Does what must come before an ordinary opening: nothing, but for two or three looks at the
/// folder. Returns what a person should know.
pub(super) async fn before_open(shared: &Shared) -> Result<Vec<String>, StoreError> {
    let path = shared.path.as_path();
    if ready(path).exists() {
        let _lock = schema::lock(path).await?;
        let aside = finish(path).map_err(|error| fault(moving(path), error))?;
        return Ok(aside.iter().map(|aside| finished_notice(aside)).collect());
    }
    let is_empty = is_empty(path);
    if is_empty && has_wal(path) || shared.damage.is_noted() {
        return Ok(repair(shared).await?.into_iter().collect());
    }
    if is_empty && beside(path, "-lock").exists() {
        // Another process may be about to write the first page; then it holds the lock.
        let _lock = schema::lock(path).await?;
        if self::is_empty(path) {
            let notice = format!("the database {} was found empty", path.display());
            tracing::error!("{notice}");
            return Ok(vec![notice]);
        }
    }
    Ok(Vec::new())
}

/// Repairs the file if it is still damaged once no other process is at it. Returns the notice.
///
/// # Errors
/// A fault when another process uses the file: its appends would go to the file moved aside.
pub(super) async fn repair(shared: &Shared) -> Result<Option<String>, StoreError> {
    let path = shared.path.as_path();
    let _lock = schema::lock(path).await?;
    let what = || format!("repair {}", path.display());
    let Some(why) = diagnose(shared).await? else {
        shared.damage.clear();
        return Ok(None);
    };
    tracing::error!(path = %path.display(), why, "the database is damaged; it is being repaired");
    if shared.ownership.others_live().map_err(|error| fault(what(), error))? {
        return Err(StoreError::Fault(Fault::new(format!(
            "{}: it is damaged ({why}), and another process uses it; end that process first",
            what()
        ))));
    }
    let carried = build(shared).await?;
    let aside = finish(path).map_err(|error| fault(moving(path), error))?;
    shared.damage.clear();
    let notice = notice(&why, &carried, aside.as_deref());
    tracing::error!("{notice}");
    Ok(Some(notice))
}

/// Says what is wrong with the file, or nothing. Checks it whole only where damage was noted.
async fn diagnose(shared: &Shared) -> Result<Option<String>, StoreError> {
    let path = shared.path.as_path();
    // SQLite would remove the WAL of an empty file.
    if is_empty(path) && has_wal(path) {
        return Ok(Some("it is empty".to_owned()));
    }
    let mut connection = match connect::writer(path).await {
        Ok(connection) => connection,
        Err(error) if is_damage(&error) => return Ok(Some(error.to_string())),
        Err(error) => return Err(fault(format!("open {}", path.display()), error)),
    };
    if let State::Damaged(why) = SCHEMA.inspect(&mut connection, path).await? {
        return Ok(Some(why));
    }
    if !shared.damage.is_noted() {
        return Ok(None);
    }
    let checked = sqlx::query_scalar::<_, String>("PRAGMA quick_check(1)");
    let found = checked.fetch_one(&mut connection).await.unwrap_or_else(|error| error.to_string());
    if found != "ok" {
        return Ok(Some(found));
    }
    // The check does not compare the texts of the tables with anything.
    let compared = async {
        let found = schema::items(&mut connection).await?;
        let wanted = schema::wanted_items().await?;
        let is_there = |(name, _, text): &schema::Item| {
            found.iter().any(|(found, _, with)| found == name && with == text)
        };
        Ok::<_, sqlx::Error>(wanted.iter().all(is_there))
    };
    let is_as_wanted =
        compared.await.map_err(|error| fault(format!("check {}", path.display()), error))?;
    Ok((!is_as_wanted).then(|| "its schema has changed".to_owned()))
}

/// Builds the new file under the name `-ready`.
async fn build(shared: &Shared) -> Result<Carried, StoreError> {
    let path = shared.path.as_path();
    let what = |step: &str| format!("repair {}: {step}", path.display());
    let (new, source) = (beside(path, "-new"), beside(path, "-salvage"));
    // A crash may have left it half done.
    discard(&new);
    let mut target =
        connect::writer(&new).await.map_err(|error| fault(what("create a new file"), error))?;
    let made = async {
        SCHEMA.apply(&mut target, 0).await?;
        sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut target).await?;
        copy::carry_over((path, &source, &new), &mut target).await
    };
    let carried = made.await.map_err(|error| fault(what("carry rows over"), error))?;
    // The last connection folds the WAL in and removes it.
    target.close().await.map_err(|error| fault(what("finish the new file"), error))?;
    discard(&source);
    let placed = File::open(&new)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&new, ready(path)))
        .and_then(|()| sync_parent(path));
    placed.map_err(|error| fault(what("place the new file"), error))?;
    Ok(carried)
}

/// Moves the damaged file aside and the new one into its place. Returns where the damaged one is.
fn finish(path: &Path) -> io::Result<Option<PathBuf>> {
    let ready = ready(path);
    let made = match fs::metadata(&ready) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?.modified()?,
    };
    // The time of the new file, so that a second attempt after a crash uses the same name.
    let stamp = made.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let aside = beside(path, &format!("-damaged-{stamp}"));
    // The WAL goes first: left behind, it would be applied to the new file.
    rename_if_there(&beside(path, WAL), &beside(&aside, WAL))?;
    remove_if_there(&beside(path, SHARED_MEMORY))?;
    rename_if_there(path, &aside)?;
    sync_parent(path)?;
    fs::rename(&ready, path)?;
    sync_parent(path)?;
    Ok(Some(aside))
}

fn notice(why: &str, carried: &Carried, aside: Option<&Path>) -> String {
    let lost = match carried.events_lost {
        0 => "no event is known to be lost".to_owned(),
        1 => "1 event could not be read".to_owned(),
        count => format!("{count} events could not be read"),
    };
    let kept = aside.map_or_else(String::new, |aside| {
        format!("; the damaged file is kept as {}", aside.display())
    });
    format!(
        "the session database was damaged ({why}): {} and {} were carried over into a new one, \
         {lost}{kept}",
        stdx::plural(carried.sessions, "session"),
        stdx::plural(carried.events, "event"),
    )
}

fn finished_notice(aside: &Path) -> String {
    format!(
        "the session database was damaged and its repair is now finished; the damaged file is \
         kept as {}",
        aside.display()
    )
}

fn moving(path: &Path) -> String {
    format!("move the damaged {} aside", path.display())
}

fn ready(path: &Path) -> PathBuf {
    beside(path, "-ready")
}

/// Tells whether a file is there and empty. SQLite takes one byte for empty too.
fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() <= 1)
}

fn has_wal(path: &Path) -> bool {
    fs::metadata(beside(path, WAL)).is_ok_and(|meta| meta.len() > 0)
}

/// Copies a database with its WAL in the place of an older copy.
fn copy_with_wal(from: &Path, to: &Path) -> io::Result<()> {
    discard(to);
    fs::copy(from, to)?;
    if has_wal(from) {
        fs::copy(beside(from, WAL), beside(to, WAL))?;
    }
    Ok(())
}

/// Removes a file that only a repair uses, with what stands beside it.
fn discard(path: &Path) {
    for ending in ["", WAL, SHARED_MEMORY] {
        // Not there is what is wanted; what cannot be removed shows when it is written.
        let _removed = fs::remove_file(beside(path, ending));
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    ignore_missing(fs::rename(from, to))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_file(path))
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_folder(folder),
        _ => sync_folder(Path::new(".")),
    }
}
