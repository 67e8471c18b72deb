//! P2: the reported status is the true wait status.

use agent::wire::{Ended, Status};

use crate::client::Client;

fn plain(status: Status) -> Ended {
    Ended { status, leftovers: 0, killed: false, survivors: 0 }
}

#[test]
fn p2_true_statuses_are_reported() {
    let mut client = Client::start();
    let cases = [
        ("exit 0", Status::Code(0)),
        ("exit 7", Status::Code(7)),
        ("exit 255", Status::Code(255)),
        ("kill -SEGV $$", Status::Signal(11)),
        ("kill -KILL $$", Status::Signal(9)),
        ("kill -PIPE $$", Status::Signal(13)),
        ("kill -TERM $$", Status::Signal(15)),
        // The exit code 143 of a shell is not the same as death by SIGTERM.
        ("sh -c 'kill -TERM $$'; exit $?", Status::Code(143)),
        ("no-such-program-here 2>/dev/null", Status::Code(127)),
    ];
    for (script, status) in cases {
        let (_, _, ended) = client.run(script);
        assert_eq!(ended, plain(status), "{script}");
    }
}

#[test]
fn both_streams_arrive_whole() {
    let mut client = Client::start();
    let (out, err, ended) = client.run("echo out; echo err >&2; printf tail; exit 3");
    assert_eq!((out.as_str(), err.as_str()), ("out\ntail", "err\n"));
    assert_eq!(ended, plain(Status::Code(3)));
}

#[test]
fn a_command_starts_clean() {
    let mut client = Client::start();
    let script = "grep -E '^(SigBlk|SigIgn)' /proc/self/status; ls -l /proc/self/fd | wc -l; \
        readlink /proc/self/fd/0; env; : < /dev/tty";
    let (out, err, _) = client.run(&format!("exec 2>&1; {script}"));
    let lines: Vec<&str> = out.lines().collect();
    let mask = |line: &str| u64::from_str_radix(line.rsplit_once('\t').unwrap().1, 16).unwrap();
    // Signals 32 and 33 are the C library's own, which leaves them ignored in what it spawns.
    let ignored = mask(lines[1]) & !0x1_8000_0000;
    assert_eq!((mask(lines[0]), ignored), (0, 0), "expected clean signals, got {out}");
    // A head line, the three standard descriptors, and the folder that `ls` reads.
    assert_eq!(lines[2], "5", "expected no inherited descriptor, got {out}");
    assert_eq!(lines[3], "/dev/null");
    assert!(out.contains("LC_ALL=C") && !out.contains("CARGO"), "foreign environment in {out}");
    assert!(out.contains("/dev/tty: No such device"), "expected no terminal, got {out}");
    assert_eq!(err, "");
}

#[test]
fn a_command_leads_a_session_of_its_own() {
    let mut client = Client::start();
    let (out, _, _) = client.run("ps -o pid=,pgid=,sid= -p $$");
    let ids: Vec<&str> = out.split_ascii_whitespace().collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "got {out}");
}

#[test]
fn many_commands_run_at_once() {
    let mut client = Client::start();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    // No command ends before the last one runs: one after the other would never come to an end.
    let ids: Vec<u32> = (0..8)
        .map(|number| {
            let script = format!(
                "touch {0}.{number}; while [ ! -e {0} ]; do sleep 0.01; done; exit {number}",
                gate.display()
            );
            client.bash(&script).0
        })
        .collect();
    crate::client::wait_until(
        crate::client::PATIENCE,
        || std::fs::read_dir(folder.path()).unwrap().count() == 8,
        || "fewer than 8 running".to_owned(),
    );
    std::fs::write(&gate, "").unwrap();
    for (number, id) in (0..).zip(ids) {
        let (_, _, last) = client.finish(id);
        assert_eq!(last, agent::wire::Reply::Ended(plain(Status::Code(number))));
    }
}
