//! Measures captures of a tree of many files: the first, unchanged ones, one edit, a fresh
//! process, and taking back.
//!
//! `cargo run --release -p checkpoint --example capture_bench -- [files]`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement prints, and ends where something is not as it should be"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use checkpoint::{Keeper, Options};
use driver_api::{ChangeSet, Checkpoints, Restore};
use protocol::SessionId;

const ROUNDS: usize = 51;
/// Longer than a file must have been left alone before its look is trusted.
const SETTLE: Duration = Duration::from_millis(2_500);

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(measure(count));
}

async fn measure(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("root");
    fill(&root, count);
    let options = Options::new(folder.path().join("kept"));
    let keeper = Keeper::open(options.clone());
    let session = SessionId::new("ses_bench");
    let roots = [root.clone()];
    let capture = async |keeper: &Keeper, session: &SessionId| {
        let start = Instant::now();
        let captured = keeper.capture(session, &roots).await.unwrap();
        (captured.tree, start.elapsed())
    };
    std::thread::sleep(SETTLE);
    let (before, first) = capture(&keeper, &session).await;
    println!("{count} files");
    println!("first capture             {first:>10.1?}");
    let cpu = cpu_ticks();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(capture(&keeper, &session).await.1);
    }
    print("unchanged", times);
    // On a busy machine this says more than the time on the wall.
    let ms = (cpu_ticks() - cpu) * 10 / ROUNDS as u64;
    println!("{:<25} about {ms} ms of processor time each", "");
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(capture(&Keeper::open(options.clone()), &session).await.1);
    }
    print("unchanged, fresh process", times);
    let mut times = Vec::new();
    for number in 0..ROUNDS {
        let session = SessionId::new(format!("ses_{number}"));
        times.push(capture(&keeper, &session).await.1);
    }
    print("unchanged, new session", times);
    let mut times = Vec::new();
    let mut after = before.clone();
    for number in 0..ROUNDS {
        std::fs::write(root.join("00/00/0.rs"), format!("edit {number}")).unwrap();
        let (tree, time) = capture(&keeper, &session).await;
        times.push(time);
        after = tree;
    }
    print("one edit", times);
    let sets = vec![ChangeSet { before, after: Some(after) }];
    let restore = Restore { session, roots: roots.to_vec(), sets, is_forced: false, is_dry: false };
    let start = Instant::now();
    let restored = keeper.restore(restore).await.unwrap();
    println!("taking back {:>4} paths     {:>10.1?}", restored.changed.len(), start.elapsed());
}

/// User and system time of this process in hundredths of a second.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn fill(root: &Path, count: usize) {
    for number in 0..count {
        let folder = root.join(format!("{:02}/{:02}", number % 20, number / 20 % 25));
        std::fs::create_dir_all(&folder).unwrap();
        let line = format!("let value_{number} = compute({number}, {});\n", number * 7919 % 1_000);
        std::fs::write(folder.join(format!("{number}.rs")), line.repeat(60)).unwrap();
    }
    std::fs::write(root.join(".gitignore"), "target/\n*.log\n/build\n!keep.log\n").unwrap();
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{what:<25} p50 {:>8.1?}  p90 {:>8.1?}", at(50), at(90));
}
