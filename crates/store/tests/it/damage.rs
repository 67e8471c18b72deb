//! Damaged files: the store opens all the same, and what can be read is there.

use std::fs;
use std::sync::Arc;

use driver_api::{Letter, Snapshot, Store};
use protocol::{Seq, SessionId};
use store::sqlite::SqliteStore;
use testkit::store_suite::{id, row_with, rows, session};

use crate::Folder;

/// Sessions of the sound file and rows of each.
const SESSIONS: u64 = 6;
const ROWS: u64 = 40;

/// A seeded stream of numbers, so that every run sees the same damage.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

/// Makes a sound, closed database.
async fn sound() -> Folder {
    let folder = Folder::new();
    let store = folder.open().await;
    for number in 0..SESSIONS {
        let lease = store.create(session(&number.to_string())).await.unwrap();
        store.append(&lease, rows(1, ROWS), None).await.unwrap();
        let snapshot = Snapshot { seq: Seq(ROWS), version: 1, bytes: vec![7; 100] };
        store.put_snapshot(&lease, snapshot).await.unwrap();
    }
    store.close().await.unwrap();
    folder
}

/// Puts another content in the place of a closed database and opens it.
async fn open_with(folder: &Folder, bytes: &[u8]) -> Arc<SqliteStore> {
    for name in folder.names("sessions.db") {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    fs::write(folder.database(), bytes).unwrap();
    folder.open().await
}

/// Checks that a store works, and that whatever it shows of the sound file is right. Returns how
/// many rows it shows.
async fn check(store: &SqliteStore, context: &str) -> u64 {
    let mut found = 0;
    let list = store.list(Default::default()).await;
    for listed in list.unwrap_or_default() {
        let read = store.read(&listed.id, Seq(1), 1000).await.unwrap_or_default();
        assert_eq!(read, rows(1, read.len() as u64), "{context}: {listed:?}");
        if let Ok(Some(snapshot)) = store.snapshot(&listed.id).await {
            assert_eq!(snapshot.bytes, [7; 100], "{context}");
        }
        found += read.len() as u64;
    }
    found
}

/// Opens once more, as the next start would, and goes on with every session.
async fn go_on(folder: &Folder, context: &str) -> u64 {
    let store = folder.open().await;
    let found = check(&store, context).await;
    for listed in store.list(Default::default()).await.unwrap() {
        let lease = store.claim(&listed.id).await.unwrap();
        let kept = store.read(&listed.id, Seq(1), 1000).await.unwrap().len() as u64;
        store.truncate(&lease, Seq(kept)).await.unwrap();
        let appended = store.append(&lease, rows(kept + 1, kept + 1), None).await;
        assert_eq!(appended.unwrap().last_seq, Seq(kept + 1), "{context}: {listed:?}");
    }
    let lease = store.create(session("new")).await.unwrap();
    store.append(&lease, rows(1, 3), None).await.unwrap();
    assert_eq!(store.read(&id("new"), Seq(1), 10).await.unwrap(), rows(1, 3), "{context}");
    store.close().await.unwrap();
    found
}

#[tokio::test]
async fn an_empty_file_is_a_new_store_with_a_notice() {
    let folder = sound().await;
    fs::write(folder.database(), "").unwrap();
    let store = folder.open().await;
    assert_eq!(store.notices().len(), 1);
    assert!(store.notices()[0].contains("empty"), "{:?}", store.notices());
    store.close().await.unwrap();
    assert_eq!(go_on(&folder, "empty").await, 0);
}

#[tokio::test]
async fn a_sound_file_opens_without_a_notice() {
    let folder = sound().await;
    let store = folder.open().await;
    assert!(store.notices().is_empty());
    assert_eq!(check(&store, "sound").await, SESSIONS * ROWS);
}

#[tokio::test]
async fn a_file_cut_at_any_length_opens_with_what_was_before_the_cut() {
    let folder = sound().await;
    let bytes = fs::read(folder.database()).unwrap();
    let mut lengths: Vec<usize> = (0..bytes.len()).step_by(4096).collect();
    lengths.extend([1, 15, 99, 100, 511, 4095, 4097, 5000, bytes.len() - 1]);
    let mut best = 0;
    for length in lengths {
        let store = open_with(&folder, &bytes[..length]).await;
        let found = check(&store, &format!("cut at {length}")).await;
        // An empty file has its own notice, and a cut within the last page is for the sums to find.
        let repairs = store.notices().iter().filter(|notice| notice.contains("damaged")).count();
        let is_repaired = length > 1 && length <= bytes.len() - 4096;
        assert!(repairs == usize::from(is_repaired) || length > 1, "cut at {length}: {repairs}");
        assert!(repairs == 1 || !is_repaired, "cut at {length}: {repairs}");
        best = best.max(found);
        store.close().await.unwrap();
        go_on(&folder, &format!("cut at {length}")).await;
        let kept = folder.names("sessions.db-damaged-");
        assert_eq!(kept.len(), repairs, "cut at {length}: {kept:?}");
        for name in kept {
            let kept = fs::read(folder.path().join(name)).unwrap();
            assert_eq!(kept, bytes[..length], "the damaged file is kept as it was found");
        }
    }
    assert!(best >= ROWS, "a late cut leaves most: {best}");
}

#[tokio::test]
async fn a_flipped_bit_anywhere_leaves_a_store_that_works() {
    let folder = sound().await;
    let bytes = fs::read(folder.database()).unwrap();
    let mut numbers = Numbers(0x5EED_0001);
    let mut total = 0;
    let flips = 60;
    for flip in 0..flips {
        let mut bytes = bytes.clone();
        // Half of them in the first page, which holds the header and the schema.
        let place = numbers.below(if flip % 2 == 0 { 4096 } else { bytes.len() });
        bytes[place] ^= 1 << numbers.below(8);
        let context = format!("a bit at {place}");
        let store = open_with(&folder, &bytes).await;
        check(&store, &context).await;
        store.close().await.unwrap();
        // What was damaged beyond use was noted, and the next start repairs it.
        total += go_on(&folder, &context).await;
    }
    let all = flips * SESSIONS * ROWS;
    assert!(total * 100 >= all * 85, "{total} of {all} rows were readable");
}

#[tokio::test]
async fn a_flipped_bit_in_a_body_ends_the_log_before_it() {
    let folder = sound().await;
    let bytes = fs::read(folder.database()).unwrap();
    let wanted = b"event number 23\"";
    let places = (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(wanted));
    let mut hits = 0;
    for place in places {
        let mut bytes = bytes.clone();
        bytes[place + 3] ^= 0x04;
        let store = open_with(&folder, &bytes).await;
        assert!(store.notices().is_empty(), "the file itself is sound");
        let mut lengths = Vec::new();
        for number in 0..SESSIONS {
            let name = id(&number.to_string());
            let read = store.read(&name, Seq(1), 1000).await.unwrap();
            assert_eq!(store.get(&name).await.unwrap().last_seq, Seq(ROWS), "the loss shows");
            lengths.push(read.len() as u64);
        }
        lengths.sort_unstable();
        // Space that is no longer used may hold the text as well.
        if lengths != [ROWS; 6] {
            assert_eq!(lengths, [22, ROWS, ROWS, ROWS, ROWS, ROWS]);
            hits += 1;
        }
        store.close().await.unwrap();
        go_on(&folder, "a body").await;
    }
    assert_eq!(hits, SESSIONS);
}

#[tokio::test]
async fn an_overwritten_header_costs_nothing() {
    let folder = sound().await;
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[..4096].fill(0xAA);
    let store = open_with(&folder, &bytes).await;
    assert_eq!(check(&store, "header").await, SESSIONS * ROWS);
    assert!(store.notices()[0].contains("no event is known to be lost"), "{:?}", store.notices());
}

#[tokio::test]
async fn a_log_without_its_facts_comes_back_under_a_new_id() {
    let folder = sound().await;
    let mut bytes = fs::read(folder.database()).unwrap();
    // The table of sessions is the page with the first session's id and folder side by side.
    let wanted = b"ses-0/work";
    let at = (0..bytes.len()).find(|at| bytes[*at..].starts_with(wanted)).unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    let store = open_with(&folder, &bytes).await;
    // The page is met by the first list at the latest, and the next start repairs.
    let _met = store.list(Default::default()).await;
    store.close().await.unwrap();
    assert_eq!(go_on(&folder, "facts").await, SESSIONS * ROWS);
    let store = folder.open().await;
    let first = SessionId::new(protocol::encode_id(1));
    let found = store.get(&first).await.unwrap();
    assert!(found.head.title.unwrap().contains("recovered"));
}

#[tokio::test]
async fn a_missing_or_garbage_wal_opens() {
    let garbage: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0].wrapping_mul(31)).collect();
    for wal in [&b""[..], b"garbage", &garbage] {
        let folder = sound().await;
        fs::write(folder.path().join("sessions.db-wal"), wal).unwrap();
        fs::write(folder.path().join("sessions.db-shm"), wal).unwrap();
        let store = folder.open().await;
        assert!(store.notices().is_empty());
        assert_eq!(check(&store, "wal").await, SESSIONS * ROWS);
        store.close().await.unwrap();
        go_on(&folder, "wal").await;
    }
}

#[tokio::test]
async fn a_lost_database_is_read_out_of_its_wal() {
    let source = Folder::new();
    let store = source.open().await;
    let lease = store.create(session("0")).await.unwrap();
    store.append(&lease, rows(1, ROWS), None).await.unwrap();
    // As if the power had gone: the WAL was not folded in, and the database was emptied.
    let folder = Folder::new();
    let wal = source.path().join("sessions.db-wal");
    fs::copy(wal, folder.path().join("sessions.db-wal")).unwrap();
    fs::write(folder.database(), "").unwrap();
    let opened = folder.open().await;
    assert_eq!(check(&opened, "wal alone").await, ROWS);
    assert_eq!(opened.notices().len(), 1);
    opened.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_interrupted_repair_is_finished_by_the_next_start() {
    let folder = sound().await;
    let sound = fs::read(folder.database()).unwrap();
    // The crash came after the new file was complete and before anything was moved.
    fs::write(folder.path().join("sessions.db-ready"), &sound).unwrap();
    fs::write(folder.path().join("sessions.db-wal"), "of the damaged file").unwrap();
    fs::write(folder.database(), "damaged").unwrap();
    let store = folder.open().await;
    assert_eq!(check(&store, "interrupted").await, SESSIONS * ROWS);
    assert_eq!(store.notices().len(), 1);
    assert_eq!(folder.names("sessions.db-damaged-").len(), 2, "the file and its WAL");
    assert!(folder.names("sessions.db-ready").is_empty());
}

#[tokio::test]
async fn a_damaged_file_in_use_by_another_process_is_left_where_it_is() {
    let folder = sound().await;
    let first = folder.open().await;
    first.claim(&id("0")).await.unwrap();
    let mut bytes = fs::read(folder.database()).unwrap();
    let wanted = b"event number 23\"";
    let place = (0..bytes.len()).find(|at| bytes[*at..].starts_with(wanted)).unwrap();
    let page = place / 4096 * 4096;
    bytes[page..page + 4096].fill(0xAA);
    fs::write(folder.database(), &bytes).unwrap();
    // What a process leaves that met the damage.
    fs::write(folder.path().join("sessions.db-damaged"), "").unwrap();
    let error = store::sqlite::open(folder.options()).await.unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    assert!(folder.names("sessions.db-damaged-").is_empty(), "nothing was moved away");
    first.close().await.unwrap();
    let second = folder.open().await;
    assert_eq!(second.notices().len(), 1);
    assert_eq!(folder.names("sessions.db-damaged").len(), 1, "the file, and no note");
}

/// Makes a database with letters, as a new file or as one that was of the first version once.
async fn with_letters(is_migrated: bool) -> Folder {
    let folder = sound().await;
    if is_migrated {
        let sql = "DROP TABLE letters; DROP INDEX events_of_usage; DROP INDEX sessions_busy; \
            UPDATE schema_version SET version = 1; PRAGMA user_version = 1; \
            INSERT INTO snapshots VALUES (99, 1, 1, 1, zeroblob(50000))";
        crate::files::change(&folder.database(), sql.to_owned()).await;
    }
    let store = folder.open().await;
    for session in ["1", "4"] {
        for name in ["first", "second"] {
            store.post(&id(session), letter(name)).await.unwrap();
        }
    }
    store.close().await.unwrap();
    folder
}

fn letter(name: &str) -> Letter {
    Letter { id: name.to_owned(), body: format!("{{\"of\":\"{name}\"}}") }
}

/// Returns how many letters there are, each whole, at most two in one session.
async fn letters(store: &SqliteStore) -> usize {
    let mut found = 0;
    for session in ["1", "4"] {
        let lease = store.claim(&id(session)).await.unwrap();
        let letters = store.letters(&lease).await.unwrap();
        assert!(letters.iter().all(|it| *it == letter("first") || *it == letter("second")));
        assert!(letters.len() <= 2);
        found += letters.len();
    }
    found
}

#[tokio::test]
async fn letters_survive_a_repair() {
    for is_migrated in [false, true] {
        let folder = with_letters(is_migrated).await;
        let mut bytes = fs::read(folder.database()).unwrap();
        // The root of the tree of snapshots: nothing but snapshots is lost.
        let wanted = [7; 100];
        let place = (0..bytes.len()).rfind(|at| bytes[*at..].starts_with(&wanted)).unwrap();
        let page = place / 4096 * 4096;
        bytes[page..page + 4096].fill(0xAA);
        let store = open_with(&folder, &bytes).await;
        let _met = store.snapshot(&id("0")).await;
        store.close().await.unwrap();
        let store = folder.open().await;
        assert_eq!(store.notices().len(), 1, "migrated: {is_migrated}");
        assert_eq!(letters(&store).await, 4, "migrated: {is_migrated}");
        assert_eq!(check(&store, "letters").await, SESSIONS * ROWS);
        // The box goes on where it was.
        store.post(&id("1"), letter("third")).await.unwrap();
        let lease = store.claim(&id("1")).await.unwrap();
        let ids = store.letters(&lease).await.unwrap().into_iter().map(|it| it.id);
        assert_eq!(ids.collect::<Vec<_>>(), ["first", "second", "third"]);
    }
}

#[tokio::test]
async fn a_lost_header_costs_the_letters_of_a_migrated_file_at_most() {
    for (is_migrated, wanted) in [(false, 4), (true, 0)] {
        let folder = with_letters(is_migrated).await;
        let mut bytes = fs::read(folder.database()).unwrap();
        bytes[..4096].fill(0xAA);
        let store = open_with(&folder, &bytes).await;
        assert_eq!(check(&store, "header").await, SESSIONS * ROWS);
        assert!(letters(&store).await >= wanted);
        store.close().await.unwrap();
        go_on(&folder, "header").await;
    }
}

#[tokio::test]
async fn large_bodies_survive_a_repair() {
    let folder = Folder::new();
    let store = folder.open().await;
    let lease = store.create(session("0")).await.unwrap();
    let large = vec![row_with(1, "x".repeat(2 << 20)), row_with(2, "small")];
    store.append(&lease, large.clone(), None).await.unwrap();
    store.close().await.unwrap();
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[..100].fill(0);
    fs::write(folder.database(), &bytes).unwrap();
    let store = folder.open().await;
    assert_eq!(store.notices().len(), 1);
    assert_eq!(store.read(&id("0"), Seq(1), 10).await.unwrap(), large);
    // The file still goes with its last row.
    let lease = store.claim(&id("0")).await.unwrap();
    store.remove(&lease).await.unwrap();
    let folders = fs::read_dir(folder.path().join("blobs")).unwrap();
    let files = folders.map(|entry| fs::read_dir(entry.unwrap().path()).unwrap().count());
    assert_eq!(files.sum::<usize>(), 0);
}
