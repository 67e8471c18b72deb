//! What a cut removes is kept beside the database, one JSON object a line, so that nothing that
//! can still be read is lost without a trace.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use driver_api::{Clock, StoreError, SystemClock};
use futures_util::TryStreamExt;
use protocol::SessionId;
use serde_json::{Map, Value, json};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::Shared;
use crate::blob::{BlobHash, Blobs, hex};
use crate::kind::KindCode;
use crate::row::{SEQ_MAX, event_id};
use crate::sqlite::beside;
use crate::sqlite::fault::{fault, is_damage};
use crate::sqlite::salvage::sync_parent;

/// The most that is kept of one cut, in bytes. A log of usual length fits many times, and a disk
/// that is nearly full is not filled by what is damaged anyway.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Characters of a session's id in the name of the file. Our ids are shorter.
const NAME_LEN_MAX: usize = 64;
/// Hex digits of the hash that tells ids apart that are no plain names.
const HASH_LEN: usize = 16;
/// How the names of the files end.
const ENDING: &str = ".jsonl";

/// Where a log is cut.
pub(super) struct Place<'p> {
    pub(super) session: &'p SessionId,
    pub(super) key: i64,
    /// The last seq that stays.
    pub(super) after: i64,
}

/// Writes down every row after a place that can still be read, durably. The outer error is the
/// database's and breaks the transaction; after the inner one nothing may be removed.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    shared: &Shared,
    place: &Place<'_>,
) -> sqlx::Result<Result<(), StoreError>> {
    let mut kept = Kept::new(shared, place.session);
    let path = kept.path.display().to_string();
    let failed = |error| Ok(Err(fault(format!("keep what is cut in {path}"), error)));
    let sql = "SELECT id, kind, at, frame, CAST(body AS BLOB) FROM events \
        WHERE id BETWEEN ? AND ? ORDER BY id";
    let mut rows = sqlx::query(sql)
        .bind(event_id(place.key, place.after + 1))
        .bind(event_id(place.key, SEQ_MAX))
        .fetch(connection);
    loop {
        match rows.try_next().await {
            Ok(Some(row)) => match kept.add(&row, &shared.blobs) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    kept.discard();
                    return failed(error);
                }
            },
            Ok(None) => break,
            Err(error) if is_damage(&error) => {
                tracing::error!(session = %place.session, %error, "some of a cut is unreadable");
                break;
            }
            Err(error) => {
                drop(rows);
                kept.discard();
                return Err(error);
            }
        }
    }
    match kept.finish() {
        Ok(0) => Ok(Ok(())),
        Ok(count) => {
            let (session, after) = (place.session, place.after);
            tracing::error!(%session, after, count, path, "a damaged log was cut; this is kept");
            Ok(Ok(()))
        }
        Err(error) => failed(error),
    }
}

/// Removes the files of every cut of a session, with which it goes.
///
/// # Errors
/// When one is there and cannot be removed.
pub(super) fn forget(shared: &Shared, session: &SessionId) -> Result<(), StoreError> {
    let start = beside(&shared.path, &format!("-cut-{}-", name(session)));
    let what = || format!("remove what was cut of {session}");
    let Some((folder, start)) = start.parent().zip(start.file_name()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).map_err(|error| fault(what(), error))?;
    for entry in entries {
        let entry = entry.map_err(|error| fault(what(), error))?;
        let file = entry.file_name();
        let instant = file
            .as_bytes()
            .strip_prefix(start.as_bytes())
            .and_then(|rest| rest.strip_suffix(ENDING.as_bytes()));
        // The name of another session may begin with that of this one.
        if instant.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit)) {
            fs::remove_file(entry.path()).map_err(|error| fault(what(), error))?;
        }
    }
    Ok(())
}

/// Returns the name of a session in the names of its files. An id that is no plain name is told
/// from its like by a piece of its hash.
fn name(session: &SessionId) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let id = session.as_str();
    if id.len() <= NAME_LEN_MAX && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let plain = |c| if is_plain(c) { c } else { '_' };
    let hash: String = BlobHash::of(id.as_bytes()).as_str().chars().take(HASH_LEN).collect();
    id.chars().take(NAME_LEN_MAX).map(plain).chain(['-']).collect::<String>() + &hash
}

/// The file; it is there from its first row on.
struct Kept {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: u64,
    count: u64,
}

impl Kept {
    fn new(shared: &Shared, session: &SessionId) -> Self {
        let now = SystemClock::default().now().0;
        let path = beside(&shared.path, &format!("-cut-{}-{now}{ENDING}", name(session)));
        Self { path, file: None, bytes: 0, count: 0 }
    }

    /// Adds a row. Tells whether there is room for more.
    fn add(&mut self, row: &SqliteRow, blobs: &Blobs) -> io::Result<bool> {
        let mut text = line(row, blobs)?;
        text.push('\n');
        let length = text.len() as u64;
        let is_full = self.bytes + length > KEPT_BYTES_MAX;
        if is_full {
            let path = self.path.display();
            tracing::error!(%path, "a cut is over {KEPT_BYTES_MAX} bytes; its end is not kept");
            text = json!({ "omittedFromSeq": seq(row) }).to_string() + "\n";
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(
                File::options().append(true).create(true).mode(0o600).open(&self.path)?,
            )),
        };
        file.write_all(text.as_bytes())?;
        self.bytes += length;
        self.count += u64::from(!is_full);
        Ok(!is_full)
    }

    /// Makes the file durable. Returns how many rows it holds.
    fn finish(self) -> io::Result<u64> {
        let Some(file) = self.file else { return Ok(0) };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        sync_parent(&self.path)?;
        Ok(self.count)
    }

    /// Removes a file that is not whole: the rows are still in the database.
    fn discard(self) {
        if self.file.is_some() {
            // The first error is the one to tell.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

fn number(row: &SqliteRow, index: usize) -> i64 {
    row.try_get(index).unwrap_or_default()
}

fn seq(row: &SqliteRow) -> i64 {
    number(row, 0) & SEQ_MAX
}

/// Writes a row of `id, kind, at, frame, body` as it stands, whole or not. A large body is written
/// out, because its file goes with the row.
///
/// # Errors
/// When the file of a large body is there and cannot be read.
fn line(row: &SqliteRow, blobs: &Blobs) -> io::Result<String> {
    let mut fields = Map::new();
    fields.insert("seq".to_owned(), json!(seq(row)));
    fields.insert("kind".to_owned(), json!(number(row, 1)));
    fields.insert("at".to_owned(), json!(number(row, 2)));
    fields.insert("frame".to_owned(), json!(number(row, 3)));
    let body: Vec<u8> = row.try_get(4).unwrap_or_default();
    let (name, text) = match String::from_utf8(body) {
        Ok(text) => ("body", text),
        Err(error) => ("bodyHex", hex(error.as_bytes())),
    };
    let is_in_file = KindCode::from_stored(number(row, 1)).is_some_and(KindCode::is_in_file);
    let hash = is_in_file.then(|| BlobHash::from_reference(&text)).flatten();
    let contents = hash.map(|hash| blobs.read(&hash)).transpose()?.flatten();
    fields.insert(name.to_owned(), Value::String(text));
    if let Some(contents) = contents {
        fields.insert("contents".to_owned(), Value::String(contents));
    }
    Ok(Value::Object(fields).to_string())
}
