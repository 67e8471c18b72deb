//! What lies on the disk: bodies, versions, the WAL, sizes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use driver_api::{Letter, LogRow, Snapshot, Store, StoreError};
use protocol::{EventKind, Seq, Timestamp};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection, Row};
use testkit::store_suite::{id, row_with, rows, session};

use crate::Folder;

/// Changes a database that nobody has open.
pub(crate) async fn change(database: &Path, sql: String) {
    let options = SqliteConnectOptions::new().filename(database);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Reads one number of a database that nobody has open.
async fn number(database: &Path, sql: &'static str) -> i64 {
    let options = SqliteConnectOptions::new().filename(database);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let row = sqlx::raw_sql(sql).fetch_one(&mut connection).await.unwrap();
    let number = row.try_get(0).unwrap();
    connection.close().await.unwrap();
    number
}

/// Returns every file of the folder of bodies.
fn blobs(folder: &Folder) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.path().join("blobs")).unwrap() {
        let entry = entry.unwrap();
        found.extend(fs::read_dir(entry.path()).unwrap().map(|file| file.unwrap().path()));
    }
    found
}

#[tokio::test]
async fn a_large_body_lies_in_a_file_that_goes_with_its_last_row() {
    let folder = Folder::new();
    let store = folder.open().await;
    let (a, b) =
        (store.create(session("a")).await.unwrap(), store.create(session("b")).await.unwrap());
    let large = "x".repeat((1 << 20) + 1);
    store.append(&a, vec![row_with(1, "y".repeat(1 << 20))], None).await.unwrap();
    assert!(!folder.path().join("blobs").exists(), "1 MiB still fits the row");
    store.append(&a, vec![row_with(2, large.clone())], None).await.unwrap();
    store.append(&b, vec![row_with(1, large.clone())], None).await.unwrap();
    assert_eq!(blobs(&folder).len(), 1, "equal bodies share a file");
    store.remove(&a).await.unwrap();
    assert_eq!(blobs(&folder).len(), 1, "the other session needs it");
    store.truncate(&b, Seq(0)).await.unwrap();
    assert_eq!(blobs(&folder).len(), 0);
}

#[tokio::test]
async fn a_missing_or_changed_file_ends_the_log_before_its_row() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    let mut written = rows(1, 5);
    written[2].body = "x".repeat(2 << 20);
    store.append(&lease, written.clone(), None).await.unwrap();
    let file = blobs(&folder).pop().unwrap();
    fs::write(&file, "something else").unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), written[..2]);
    fs::remove_file(&file).unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), written[..2]);
    assert_eq!(store.read(&id("a"), Seq(4), 100).await.unwrap(), written[3..]);
    // The same body again mends it.
    let other = store.create(session("b")).await.unwrap();
    store.append(&other, vec![row_with(1, written[2].body.clone())], None).await.unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), written);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_and_no_end() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    let mut written = rows(1, 5);
    written[2].body = "x".repeat(2 << 20);
    store.append(&lease, written.clone(), None).await.unwrap();
    let file = blobs(&folder).pop().unwrap();
    // The system refuses to read a folder, whoever asks.
    let away = folder.path().join("away");
    fs::rename(&file, &away).unwrap();
    fs::create_dir(&file).unwrap();
    let failed = store.read(&id("a"), Seq(1), 100).await;
    let Err(StoreError::Fault(error)) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("event 3"), "{error}");
    let failed = store.truncate(&lease, Seq(1)).await;
    assert!(matches!(failed, Err(StoreError::Fault(_))), "{failed:?}");
    assert!(folder.names("sessions.db-cut").is_empty());
    fs::remove_dir(&file).unwrap();
    fs::rename(&away, &file).unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), written);
}

/// Gives the third event of the only session another kind, with the right sum for it.
async fn change_kind(folder: &Folder, kind: u8) {
    let row = &rows(3, 3)[0];
    let event = 1_i64 << 36 | 3;
    let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
    let mut digest = crc.digest();
    digest.update(&event.to_le_bytes());
    digest.update(&[kind]);
    digest.update(&row.at.0.to_le_bytes());
    digest.update(&row.frame.0.to_le_bytes());
    digest.update(row.body.as_bytes());
    let sum = i64::from(digest.finalize().cast_signed());
    let sql = format!("UPDATE events SET kind = {kind}, sum = {sum} WHERE id = {event}");
    change(&folder.database(), sql).await;
}

#[tokio::test]
async fn an_event_of_a_newer_program_is_an_error_and_no_end() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    store.append(&lease, rows(1, 5), None).await.unwrap();
    store.close().await.unwrap();
    change_kind(&folder, 99).await;
    // A repair takes it along too.
    for step in ["as it was written", "after a repair"] {
        let store = folder.open().await;
        assert_eq!(store.read(&id("a"), Seq(1), 2).await.unwrap(), rows(1, 2), "{step}");
        let failed = store.read(&id("a"), Seq(1), 100).await;
        let Err(StoreError::Fault(error)) = failed else { panic!("{step}: {failed:?}") };
        let error = error.to_string();
        assert!(error.contains("newer program") && error.contains("99"), "{step}: {error}");
        assert_eq!(store.read(&id("a"), Seq(4), 100).await.unwrap(), rows(4, 5), "{step}");
        store.close().await.unwrap();
        let mut bytes = fs::read(folder.database()).unwrap();
        bytes[..100].fill(0);
        fs::write(folder.database(), &bytes).unwrap();
    }
}

#[tokio::test]
async fn a_cut_keeps_what_it_removes() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    let mut written = rows(1, 6);
    written[4].body = "x".repeat(2 << 20);
    store.append(&lease, written.clone(), None).await.unwrap();
    store.close().await.unwrap();
    // The third is damaged: a body that no sum fits. What comes after it is whole.
    let sql = format!("UPDATE events SET body = 'damaged' WHERE id = {}", 1_i64 << 36 | 3);
    change(&folder.database(), sql).await;
    let store = folder.open().await;
    let lease = store.claim(&id("a")).await.unwrap();
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), written[..2]);
    store.truncate(&lease, Seq(2)).await.unwrap();
    let kept = folder.names("sessions.db-cut-ses-a-");
    assert!(kept.len() == 1 && kept[0].ends_with(".jsonl"), "{kept:?}");
    let path = folder.path().join(&kept[0]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    written[2].body = "damaged".to_owned();
    for (line, row) in lines.iter().zip(&written[2..]) {
        assert_eq!(line["seq"], row.seq.0);
        assert_eq!(line["at"], row.at.0);
        assert_eq!(line["frame"], row.frame.0);
        let body = line.get("contents").unwrap_or(&line["body"]);
        assert!(body == row.body.as_str(), "the body of {}", row.seq.0);
    }
    assert_eq!(blobs(&folder).len(), 0, "the large body is in the kept lines alone");
    // A cut of nothing keeps nothing, and the session goes on.
    store.truncate(&lease, Seq(2)).await.unwrap();
    store.append(&lease, rows(3, 3), None).await.unwrap();
    assert_eq!(folder.names("sessions.db-cut-").len(), 1);
}

#[tokio::test]
async fn what_was_cut_goes_with_its_session() {
    let folder = Folder::new();
    let store = folder.open().await;
    // Names that begin with one another, and ids that look alike as names of files.
    let names = ["a", "a-1", "a/b", "a_b"];
    for name in names {
        let lease = store.create(session(name)).await.unwrap();
        store.append(&lease, rows(1, 3), None).await.unwrap();
        store.truncate(&lease, Seq(1)).await.unwrap();
    }
    let left = || folder.names("sessions.db-cut-");
    assert_eq!(left().len(), names.len(), "{:?}", left());
    for (name, after) in names.iter().zip([3, 2, 1, 0]) {
        let lease = store.claim(&id(name)).await.unwrap();
        store.remove(&lease).await.unwrap();
        assert_eq!(left().len(), after, "after {name}: {:?}", left());
    }
}

#[tokio::test]
async fn a_session_whose_cut_cannot_be_removed_stays() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    store.append(&lease, rows(1, 3), None).await.unwrap();
    // The system removes no folder as it does a file, whoever asks.
    let stuck = folder.path().join("sessions.db-cut-ses-a-1796000000000.jsonl");
    fs::create_dir(&stuck).unwrap();
    let refused = store.remove(&lease).await;
    assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    assert_eq!(store.read(&id("a"), Seq(1), 10).await.unwrap(), rows(1, 3));
    fs::remove_dir(&stuck).unwrap();
    store.remove(&lease).await.unwrap();
}

#[tokio::test]
async fn a_damaged_row_hides_no_usage_of_others() {
    let folder = Folder::new();
    let store = folder.open().await;
    let usage = |seq| LogRow { kind: EventKind::Usage, ..rows(seq, seq).remove(0) };
    for name in ["a", "b"] {
        let lease = store.create(session(name)).await.unwrap();
        store.append(&lease, (1..=4).map(usage).collect(), None).await.unwrap();
    }
    store.close().await.unwrap();
    let sql = format!("UPDATE events SET body = 'damaged' WHERE id = {}", 1_i64 << 36 | 2);
    change(&folder.database(), sql).await;
    let store = folder.open().await;
    let seqs = |limit| {
        let store = store.clone();
        async move {
            let found = store.rows_of(EventKind::Usage, Timestamp(0), limit).await.unwrap();
            found.into_iter().map(|(_, row)| row.seq.0).collect::<Vec<_>>()
        }
    };
    assert_eq!(seqs(100).await, [1, 1, 2, 3, 3, 4, 4]);
    // A row that is left out does not count against the limit.
    assert_eq!(seqs(4).await, [1, 1, 2, 3]);
    assert_eq!(seqs(2).await, [1, 1]);
}

#[tokio::test]
async fn a_damaged_letter_is_left_out() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.create(session("a")).await.unwrap();
    let letter = |name: &str| Letter { id: name.to_owned(), body: "{\"allow\":false}".to_owned() };
    for name in ["one", "two"] {
        store.post(&id("a"), letter(name)).await.unwrap();
    }
    store.close().await.unwrap();
    let sql = "UPDATE letters SET body = '{\"allow\":true}' WHERE id = 'one'".to_owned();
    change(&folder.database(), sql).await;
    let store = folder.open().await;
    let lease = store.claim(&id("a")).await.unwrap();
    assert_eq!(store.letters(&lease).await.unwrap(), [letter("two")]);
}

#[tokio::test]
async fn a_cut_keeps_no_more_than_its_limit() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    for seq in 1..=70 {
        store.append(&lease, vec![row_with(seq, "x".repeat(1 << 20))], None).await.unwrap();
    }
    store.truncate(&lease, Seq(0)).await.unwrap();
    let kept = folder.path().join(&folder.names("sessions.db-cut-")[0]);
    let size = fs::metadata(&kept).unwrap().len();
    assert!((63 << 20..=(64 << 20) + 100).contains(&size), "{size}");
    let text = fs::read_to_string(&kept).unwrap();
    assert_eq!(text.lines().count(), 64);
    assert_eq!(text.lines().last(), Some("{\"omittedFromSeq\":64}"));
    assert_eq!(store.read(&id("a"), Seq(1), 100).await.unwrap(), []);
}

#[tokio::test]
async fn a_newer_database_is_refused_with_both_versions() {
    let folder = Folder::new();
    folder.open().await.close().await.unwrap();
    change(
        &folder.database(),
        "UPDATE schema_version SET version = 99; PRAGMA user_version = 99".to_owned(),
    )
    .await;
    let before = fs::read(folder.database()).unwrap();
    let error = store::sqlite::open(folder.options()).await.unwrap_err().to_string();
    assert!(error.contains("99") && error.contains("up to 3"), "{error}");
    assert_eq!(fs::read(folder.database()).unwrap(), before, "it is left as it was");
}

#[tokio::test]
async fn a_close_leaves_one_file() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    store.append(&lease, rows(1, 500), None).await.unwrap();
    store.get(&id("a")).await.unwrap();
    assert_eq!(folder.names("sessions.db-wal").len(), 1);
    store.close().await.unwrap();
    assert_eq!(folder.names("sessions.db"), ["sessions.db", "sessions.db-lock"]);
    assert_eq!(number(&folder.database(), "SELECT count(*) FROM log").await, 500);
    assert_eq!(number(&folder.database(), "PRAGMA user_version").await, 3);
}

#[tokio::test]
async fn the_wal_stays_small_and_the_log_compact() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    let body = format!("{{\"text\":\"{}\"}}", "z".repeat(500));
    let mut next = 1;
    for _ in 0..100 {
        let batch: Vec<_> = (next..next + 400).map(|seq| row_with(seq, body.clone())).collect();
        next += 400;
        store.append(&lease, batch, None).await.unwrap();
    }
    let wal = fs::metadata(folder.path().join("sessions.db-wal")).unwrap().len();
    assert!(wal < 16 << 20, "{wal} bytes of WAL after 20 MiB of rows");
    store.close().await.unwrap();
    let database = fs::metadata(folder.database()).unwrap().len();
    let json = body.len() as u64 * (next - 1);
    assert!(database * 10 <= json * 13, "{database} bytes for {json} of JSON");
}

#[tokio::test]
async fn a_snapshot_that_is_too_large_is_refused() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("a")).await.unwrap();
    let snapshot = Snapshot { seq: Seq(0), version: 1, bytes: vec![0; (16 << 20) + 1] };
    assert!(matches!(store.put_snapshot(&lease, snapshot).await, Err(StoreError::Fault(_))));
}

#[tokio::test]
async fn a_folder_that_cannot_be_a_database_is_a_clear_fault() {
    let folder = Folder::new();
    fs::create_dir(folder.database()).unwrap();
    let error = store::sqlite::open(folder.options()).await.unwrap_err().to_string();
    assert!(error.contains("sessions.db"), "{error}");
    assert!(folder.database().is_dir());
}

/// A log is its owner's alone, also in a folder that everybody may enter.
#[tokio::test]
async fn the_files_of_a_store_are_private() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.database(), "").unwrap();
    fs::set_permissions(folder.database(), fs::Permissions::from_mode(0o644)).unwrap();
    let store = folder.open().await;
    store.create(session("a")).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        let mut name = folder.database().into_os_string();
        name.push(ending);
        let mode = fs::metadata(&name).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name:?}: {mode:o}");
    }
}

/// A probe that wrote nothing would call a full disk ready.
#[tokio::test]
async fn a_probe_reaches_the_disk_each_time() {
    let folder = Folder::new();
    let store = folder.open().await;
    let wal = || fs::metadata(format!("{}-wal", folder.database().display())).unwrap().len();
    for _ in 0..3 {
        let before = wal();
        store.probe().await.unwrap();
        assert!(wal() > before, "{before}");
    }
}
