//! Prints the store's figures: `cargo run --release -p store --example append_bench [FOLDER]`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a measurement, not a part of the product"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use driver_api::{LogRow, NewSession, SessionHead, Snapshot, Store};
use futures_util::future::join_all;
use protocol::{EventKind, FrameId, Seq, SessionId, Timestamp};
use store::Options;
use store::sqlite::SqliteStore;

const BODY: usize = 500;

fn rows(first: u64, count: u64) -> Vec<LogRow> {
    let row = |seq: u64| LogRow {
        seq: Seq(seq),
        frame: FrameId(seq * 3),
        at: Timestamp(1_796_000_000_000 + seq.cast_signed()),
        kind: EventKind::AssistantMessage,
        body: format!("{{\"text\":\"{seq:08}{}\"}}", "e".repeat(BODY - 19)),
    };
    (first..first + count).map(row).collect()
}

fn session(name: &str) -> NewSession {
    NewSession {
        id: SessionId::new(name),
        cwd: "/work".to_owned(),
        at: Timestamp(1_796_000_000_000),
        head: SessionHead { model: "scripted/demo".to_owned(), ..SessionHead::default() },
        rows: Vec::new(),
    }
}

async fn open(folder: &Path) -> Arc<SqliteStore> {
    let options = Options {
        path: folder.join("sessions.db"),
        blobs: folder.join("blobs"),
        run: folder.join("run"),
    };
    store::sqlite::open(options).await.unwrap()
}

/// Milliseconds since.
fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn show(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("{what:<44} p50 {:>7.3} ms  p99 {:>7.3} ms", at(50), at(99));
}

fn sync_floor(folder: &Path) {
    let file = File::create(folder.join("floor")).unwrap();
    file.write_all_at(&vec![1; 4 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let times = (0..100).map(|n| {
        file.write_all_at(&[2; 12_288], n * 12_288).unwrap();
        let start = Instant::now();
        file.sync_data().unwrap();
        ms(start)
    });
    show("floor: fdatasync of 12 KiB", times.collect());
}

async fn single(folder: &Path) {
    let start = Instant::now();
    let store = open(folder).await;
    println!("{:<44} {:>11.3} ms", "open of a new store", ms(start));
    let start = Instant::now();
    let lease = store.create(session("single")).await.unwrap();
    println!("{:<44} {:>11.3} ms", "first create", ms(start));
    let usage = |mut rows: Vec<LogRow>| {
        rows.iter_mut().take(1).for_each(|row| row.kind = EventKind::Usage);
        rows
    };
    for (what, count, is_usage) in [
        ("append of 4 rows of 500 B", 4, false),
        ("append of 4 rows, one of them of usage", 4, true),
        ("append of 1 row", 1, false),
    ] {
        let mut next = store.get(&lease.session).await.unwrap().last_seq.0 + 1;
        let mut times = Vec::new();
        for _ in 0..400 {
            let batch = rows(next, count);
            let batch = if is_usage { usage(batch) } else { batch };
            next += count;
            let start = Instant::now();
            store.append(&lease, batch, None).await.unwrap();
            times.push(ms(start));
        }
        show(what, times);
    }
    let start = Instant::now();
    let found = store.rows_of(EventKind::Usage, Timestamp(0), 1000).await.unwrap().len();
    println!("{:<44} {:>11.3} ms ({found} rows)", "usage of all sessions", ms(start));
    let mut times = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        store.claim(&lease.session).await.unwrap();
        times.push(ms(start));
    }
    show("claim (not synced)", times);
    let start = Instant::now();
    store.close().await.unwrap();
    println!("{:<44} {:>11.3} ms", "close", ms(start));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..10 {
        let start = Instant::now();
        let store = open(folder).await;
        times[0].push(ms(start));
        let start = Instant::now();
        let lease = store.claim(&lease.session).await.unwrap();
        store.release(&lease).await.unwrap();
        times[1].push(ms(start));
        let start = Instant::now();
        store.close().await.unwrap();
        times[2].push(ms(start));
    }
    let [opens, claims, closes] = times;
    show("open of an existing store", opens);
    show("first claim and release after it", claims);
    show("close", closes);
}

async fn many(folder: &Path) {
    let store = open(folder).await;
    let names: Vec<String> = (0..64).map(|n| format!("many-{n}")).collect();
    let leases = join_all(names.iter().map(|name| store.create(session(name)))).await;
    let start = Instant::now();
    let work = leases.into_iter().map(|lease| {
        let store = Arc::clone(&store);
        async move {
            let lease = lease.unwrap();
            for n in 0..100 {
                store.append(&lease, rows(n * 4 + 1, 4), None).await.unwrap();
            }
        }
    });
    join_all(work).await;
    let seconds = start.elapsed().as_secs_f64();
    println!("{:<44} {:>9.0} appends/s", "64 sessions, 4 rows each time", 6400.0 / seconds);
    store.close().await.unwrap();
    let size = std::fs::metadata(folder.join("sessions.db")).unwrap().len() as f64;
    let events = 6400.0 * 4.0;
    let json = events * BODY as f64;
    println!(
        "{:<44} {:>11.1} B ({:.3} of body)",
        "  per event on disk",
        size / events,
        size / json
    );
}

async fn replay(folder: &Path) {
    let store = open(folder).await;
    let name = SessionId::new("long");
    let lease = store.create(session("long")).await.unwrap();
    for n in 0..20 {
        store.append(&lease, rows(n * 500 + 1, 500), None).await.unwrap();
    }
    let snapshot = Snapshot { seq: Seq(9_900), version: 1, bytes: vec![5; 20_000] };
    store.put_snapshot(&lease, snapshot).await.unwrap();
    store.close().await.unwrap();
    let size = std::fs::metadata(folder.join("sessions.db")).unwrap().len() as f64;
    println!("{:<44} {:>11.1} B", "one session, per event on disk", size / 1e4);
    for _ in 0..2 {
        let start = Instant::now();
        let store = open(folder).await;
        let opened = ms(start);
        let lease = store.claim(&name).await.unwrap();
        let claimed = ms(start);
        let snapshot = store.snapshot(&name).await.unwrap().unwrap();
        let tail = store.read(&name, snapshot.seq.next(), 1000).await.unwrap();
        println!(
            "{:<44} {:>11.3} ms (open {opened:.3}, claim {:.3}, snapshot and {} rows {:.3})",
            "open of a session of 10,000 events",
            ms(start),
            claimed - opened,
            tail.len(),
            ms(start) - claimed
        );
        store.release(&lease).await.unwrap();
        store.close().await.unwrap();
    }
    let store = open(folder).await;
    for page in [500, 1000, 2000, 5000] {
        let start = Instant::now();
        let mut read = 0;
        for _ in 0..5 {
            let mut next = 1;
            while next <= 10_000 {
                let rows = store.read(&name, Seq(next), page).await.unwrap();
                next += rows.len() as u64;
                read += rows.len();
            }
        }
        let rate = read as f64 / start.elapsed().as_secs_f64();
        println!("{:<44} {rate:>9.0} events/s", format!("replay in pages of {page}"));
    }
    store.close().await.unwrap();
}

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(root).unwrap();
    sync_floor(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    runtime.block_on(single(&place("single")));
    runtime.block_on(many(&place("many")));
    runtime.block_on(replay(&place("replay")));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("{line}");
    }
}
