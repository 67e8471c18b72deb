//! R3 for the agent: output in any amount takes a constant memory, and a reader that waits makes
//! the command wait.

use std::time::{Duration, Instant};

use agent::wire::{FRAME_COST, Reply, Request, Status, WINDOW};

use crate::client::{Client, PATIENCE, SOON, Tree};

fn resident_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn r3_output_of_any_length_takes_constant_memory() {
    const BYTES: u64 = 256 << 20;
    let mut client = Client::start();
    let script = format!("yes | head -c {BYTES}");
    let (id, _) = client.bash(&script);
    let expected = b"y\n".repeat(64 << 10);
    let mut seen = 0;
    let ended = loop {
        match client.next(id) {
            Reply::Output { bytes, .. } => {
                let start = usize::from(seen % 2 == 1);
                assert!(bytes == expected[start..start + bytes.len()], "damage after {seen} bytes");
                seen += bytes.len() as u64;
                let bytes = u32::try_from(bytes.len()).unwrap() + FRAME_COST;
                client.ask(id, &Request::Credit { bytes });
            }
            Reply::Ended(ended) => break ended,
            other => panic!("expected output, got {other:?}"),
        }
    };
    assert_eq!((seen, ended.status), (BYTES, Status::Code(0)));
    let peak = resident_kib(client.agent.id());
    assert!(peak < 16 << 10, "expected a few MiB at most, got {peak} KiB");
}

#[test]
fn a_reader_that_waits_makes_the_command_wait() {
    let mut client = Client::start();
    let tree = Tree::new();
    let script = format!("yes & {}", tree.sleep(1));
    let (id, _) = client.bash(&script);
    let mut taken = 0;
    client.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 4096];
    // Without credit the stream falls silent after at most one window.
    while let Ok(count @ 1..) = std::io::Read::read(&mut client.stream, &mut buffer) {
        taken += count;
        assert!(taken <= WINDOW as usize * 2, "expected silence after a window, got {taken} bytes");
    }
    assert!(taken >= WINDOW as usize / 2, "expected about a window, got {taken} bytes");
    // A kill needs no credit, and neither does the end of the tree.
    client.kill(id, Duration::ZERO);
    tree.wait_gone(SOON);
}

#[test]
fn one_command_that_waits_does_not_hold_up_another() {
    let mut client = Client::start();
    let (flood, _) = client.bash("yes");
    let (out, _, ended) = client.run("echo through");
    assert_eq!((out.as_str(), ended.status), ("through\n", Status::Code(0)));
    client.kill(flood, Duration::ZERO);
    let (_, _, last) = client.finish(flood);
    assert!(matches!(last, Reply::Ended(ended) if ended.killed), "got {last:?}");
}

#[test]
fn what_a_filter_at_the_end_writes_is_not_lost() {
    let mut client = Client::start();
    // The shell does not wait for the filter, whose last words come after the shell's end.
    let (out, _, ended) = client.run("seq 1 20000 > >(sleep 0.02; cat; echo done)");
    assert_eq!(out.lines().count(), 20_001);
    assert!(out.ends_with("20000\ndone\n"));
    assert_eq!(ended.leftovers, 0);
}

#[test]
fn a_pipe_in_a_strangers_hand_does_not_hold_up_the_end() {
    let mut client = Client::start();
    let (id, pid) = client.bash("sleep 0.3; echo end");
    // This test opens the command's output itself and keeps it.
    let path = format!("/proc/{pid}/fd/1");
    let held = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    let since = Instant::now();
    let (out, _, last) = client.finish(id);
    assert_eq!(out, b"end\n");
    assert!(matches!(last, Reply::Ended(_)), "got {last:?}");
    assert!(since.elapsed() < PATIENCE);
    drop(held);
}

#[test]
fn a_command_that_closes_its_output_goes_on() {
    let mut client = Client::start();
    let (out, err, ended) = client.run("echo a; exec >&- 2>&-; sleep 0.05; exit 5");
    assert_eq!((out.as_str(), err.as_str(), ended.status), ("a\n", "", Status::Code(5)));
}
