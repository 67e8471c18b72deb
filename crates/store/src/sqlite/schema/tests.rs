//! Migrations keep what was there, or change nothing.

use std::fs;

use sqlx::Connection;

use super::*;

const FIRST: &str = SESSIONS_AND_EVENTS;
const SECOND: &str = "ALTER TABLE sessions ADD COLUMN colour TEXT;";
const BROKEN: &str = "ALTER TABLE sessions ADD COLUMN colour TEXT; ALTER TABLE none ADD COLUMN x;";

const ONE: Schema = Schema { migrations: &[FIRST] };
const NEXT: Schema = Schema { migrations: &[FIRST, SECOND] };
const BAD: Schema = Schema { migrations: &[FIRST, BROKEN] };

async fn of_version_one(path: &Path) -> SqliteConnection {
    let mut connection = connect::writer(path).await.unwrap();
    ONE.migrate(&mut connection, path).await.unwrap();
    let sql = "INSERT INTO events VALUES (1, 1, 1, 1, 1, 'kept')";
    sqlx::query(sql).execute(&mut connection).await.unwrap();
    connection
}

async fn body(connection: &mut SqliteConnection) -> String {
    sqlx::query_scalar("SELECT body FROM events").fetch_one(connection).await.unwrap()
}

fn copies(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("-version1-")).collect()
}

#[tokio::test]
async fn an_older_database_is_copied_and_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut connection = of_version_one(&path).await;
    assert!(copies(folder.path()).is_empty(), "a new file needs no copy");
    assert!(matches!(NEXT.inspect(&mut connection, &path).await, Ok(State::Old(1))));
    NEXT.migrate(&mut connection, &path).await.unwrap();
    assert!(matches!(NEXT.inspect(&mut connection, &path).await, Ok(State::Current)));
    assert_eq!(body(&mut connection).await, "kept");
    let Ok([copy]) = <[_; 1]>::try_from(copies(folder.path())) else { panic!("one copy") };
    let mut copy = connect::writer(&copy).await.unwrap();
    assert!(matches!(ONE.inspect(&mut copy, &path).await, Ok(State::Current)));
    assert_eq!(body(&mut copy).await, "kept");
    copy.close().await.unwrap();
    // The older program says what is wrong.
    let Err(refused) = ONE.inspect(&mut connection, &path).await else { panic!("refused") };
    let refused = refused.to_string();
    assert!(refused.contains("version 2") && refused.contains("up to 1"), "{refused}");
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_migration_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut connection = of_version_one(&path).await;
    assert!(BAD.migrate(&mut connection, &path).await.is_err());
    assert!(matches!(ONE.inspect(&mut connection, &path).await, Ok(State::Current)));
    assert_eq!(body(&mut connection).await, "kept");
    NEXT.migrate(&mut connection, &path).await.unwrap();
    connection.close().await.unwrap();
}

/// Two rows of usage, one with its body in a file, and one of another kind, as the first version
/// wrote them.
const OLD_ROWS: &str = "INSERT INTO sessions VALUES \
    (1, 'ses-a', '/', NULL, 'm', 'ask', 'idle', 0, 0.0, 1, 1, 3, 1, NULL, NULL); \
    INSERT INTO events VALUES (68719476738, 13, 7, 1, 1, '{}'), \
    (68719476739, 141, 8, 1, 1, 'sha256:'), (68719476740, 14, 9, 1, 1, '{}')";

#[tokio::test]
async fn the_second_version_finds_the_usage_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut connection = of_version_one(&path).await;
    sqlx::raw_sql(OLD_ROWS).execute(&mut connection).await.unwrap();
    assert!(matches!(SCHEMA.inspect(&mut connection, &path).await, Ok(State::Old(1))));
    SCHEMA.migrate(&mut connection, &path).await.unwrap();
    assert!(matches!(SCHEMA.inspect(&mut connection, &path).await, Ok(State::Current)));
    let sql = "SELECT id & 0xFFFFFFFFF FROM events INDEXED BY events_of_usage \
        WHERE kind IN (13, 141) ORDER BY at";
    let found: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
    assert_eq!(found, [2, 3]);
    let letters: i64 = sqlx::query_scalar("SELECT count(*) FROM letters")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(letters, 0);
    connection.close().await.unwrap();
}

/// The plan names the index: a list of the busy reads nothing of the others.
#[tokio::test]
async fn the_third_version_finds_the_busy_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut connection = of_version_one(&path).await;
    sqlx::raw_sql(OLD_ROWS).execute(&mut connection).await.unwrap();
    let busy = "INSERT INTO sessions VALUES \
        (2, 'ses-b', '/', NULL, 'm', 'ask', 'waiting', 0, 0.0, 1, 1, 3, 1, NULL, NULL)";
    sqlx::raw_sql(busy).execute(&mut connection).await.unwrap();
    SCHEMA.migrate(&mut connection, &path).await.unwrap();
    let sql = "SELECT id FROM sessions INDEXED BY sessions_busy WHERE state <> 'idle'";
    let found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
    assert_eq!(found, ["ses-b"]);
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_migrated_database_is_as_wanted_and_a_changed_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut connection = of_version_one(&path).await;
    // Enough rows that the second version's tables come to stand elsewhere than in a new file.
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) \
        INSERT INTO events SELECT i + 100, 1, 1, 1, 1, hex(zeroblob(500)) FROM n";
    sqlx::raw_sql(many).execute(&mut connection).await.unwrap();
    SCHEMA.migrate(&mut connection, &path).await.unwrap();
    let (found, wanted) = (items(&mut connection).await.unwrap(), wanted_items().await.unwrap());
    assert_ne!(found, wanted);
    assert!(is_as_wanted(&found, &wanted).await.unwrap());
    let mut moved = found.clone();
    moved[1].1 += 1;
    assert!(!is_as_wanted(&moved, &wanted).await.unwrap(), "a page of the first version");
    let mut renamed = found.clone();
    renamed.last_mut().unwrap().0.push('x');
    assert!(!is_as_wanted(&renamed, &wanted).await.unwrap());
    assert!(!is_as_wanted(&found[..3], &wanted).await.unwrap());
    connection.close().await.unwrap();
}
