//! R3: output of any length takes constant memory on its whole way.

use driver_api::{ExitStatus, Output};
use testkit::workspace_suite::{bash, start};

use crate::place::Place;

const BYTES: usize = 256 << 20;

fn peak_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn r3_output_of_any_length_takes_constant_memory() {
    let place = Place::new();
    bash(&*place.workspace, "true").await;
    let before = peak_kib(std::process::id());
    let script = format!("yes | head -c {BYTES}");
    let (mut process, mut output) = start(&*place.workspace, &script).await;
    let mut seen = 0;
    while let Some(piece) = output.recv().await {
        match piece {
            Output::Stdout(bytes) => seen += bytes.len(),
            Output::Stderr(bytes) => panic!("expected nothing there, got {bytes:?}"),
        }
    }
    let exit = process.wait().await.unwrap();
    assert_eq!((seen, exit.status), (BYTES, ExitStatus::Code(0)));
    let agent = peak_kib(place.agent.pid().await.unwrap());
    // Other tests run in this process at the same time; none of them takes much either.
    let grown = peak_kib(std::process::id()).saturating_sub(before);
    assert!(agent < 32 << 10, "expected a small agent, got {agent} KiB");
    assert!(grown < 64 << 10, "expected constant memory, grew by {grown} KiB");
}

#[tokio::test]
async fn many_small_writes_arrive_whole() {
    let place = Place::new();
    // Each echo is a write of its own.
    let script = "for i in {1..20000}; do echo $i; done; for i in {1..2000}; do echo $i >&2; done";
    let ran = bash(&*place.workspace, script).await;
    assert_eq!(ran.out.lines().map(|line| line.parse::<u64>().unwrap()).sum::<u64>(), 200_010_000);
    assert_eq!(ran.err.lines().map(|line| line.parse::<u64>().unwrap()).sum::<u64>(), 2_001_000);
}
