//! Migrations keep what was there, or change nothing.

use std::fs;

use sqlx::Connection;

use super::*;

const FIRST: &str = include_str!("../../../migrations/sqlite/0001_sessions_and_events.sql");
const SECOND: &str = "ALTER TABLE sessions ADD COLUMN colour TEXT;";
const BROKEN: &str = "ALTER TABLE sessions ADD COLUMN colour TEXT; ALTER TABLE none ADD COLUMN x;";

const NEXT: Schema = Schema { migrations: &[FIRST, SECOND] };
const BAD: Schema = Schema { migrations: &[FIRST, BROKEN] };

async fn of_version_one(path: &Path) -> SqliteConnection {
    let mut connection = connect::writer(path).await.unwrap();
    SCHEMA.migrate(&mut connection, path).await.unwrap();
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
    assert!(matches!(SCHEMA.inspect(&mut copy, &path).await, Ok(State::Current)));
    assert_eq!(body(&mut copy).await, "kept");
    copy.close().await.unwrap();
    // The older program says what is wrong.
    let Err(refused) = SCHEMA.inspect(&mut connection, &path).await else { panic!("refused") };
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
    assert!(matches!(SCHEMA.inspect(&mut connection, &path).await, Ok(State::Current)));
    assert_eq!(body(&mut connection).await, "kept");
    NEXT.migrate(&mut connection, &path).await.unwrap();
    connection.close().await.unwrap();
}
