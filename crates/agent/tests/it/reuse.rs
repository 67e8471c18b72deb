//! A minder whose command ended well takes another one, and nothing of the first one shows in the
//! second.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::wire::{Ended, Reply, Request, Spawn, Status, Step};
use rustix::process::Signal;

use crate::client::{Client, SOON, Tree, bash, children, command, parent, signal, wait_until};

/// How many minders may wait, as the agent has it.
const IDLE_MAX: usize = 8;

const PLAIN: Ended = Ended { status: Status::Code(0), leftovers: 0, killed: false, survivors: 0 };

fn minder_of_next(client: &mut Client) -> u32 {
    let (out, _, ended) = client.run("echo $PPID");
    assert_eq!(ended, PLAIN);
    out.trim().parse().unwrap()
}

fn is_alive(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

fn open_files(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = entries.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_hundred_commands_need_two_minders() {
    let mut client = Client::start();
    let minders: BTreeSet<u32> = (0..100).map(|_| minder_of_next(&mut client)).collect();
    assert!(minders.len() <= 2, "expected few minders, got {minders:?}");
    assert_eq!(children(client.agent.id()).len(), 2);
}

#[test]
fn a_command_that_cannot_start_does_not_cost_its_minder() {
    let mut client = Client::start();
    let minder = minder_of_next(&mut client);
    for _ in 0..5 {
        let id = client.spawn(command(&["/no/such/program"]));
        let failed = Reply::Failed { step: Step::Program, errno: 2 };
        assert_eq!(client.next(id), failed);
        let id = client.spawn(Spawn { cwd: b"/no/such/folder".to_vec(), ..bash("true") });
        assert_eq!(client.next(id), Reply::Failed { step: Step::Folder, errno: 2 });
        assert_eq!(minder_of_next(&mut client), minder);
    }
}

#[test]
fn no_more_than_a_few_minders_wait() {
    let mut client = Client::start();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", gate.display());
    let ids: Vec<u32> = (0..IDLE_MAX + 4).map(|_| client.bash(&wait).0).collect();
    std::fs::write(&gate, "").unwrap();
    for id in ids {
        assert_eq!(client.finish(id).2, Reply::Ended(PLAIN));
    }
    let minders = || children(client.agent.id());
    wait_until(SOON, || minders().len() == IDLE_MAX, || format!("{:?}", minders()));
}

#[test]
fn output_never_comes_from_another_command() {
    let mut client = Client::start();
    for round in 0..20 {
        // Some at once, some long, some that fail: each has its own text on both streams.
        let ids: Vec<(u32, String)> = (0..6)
            .map(|number| {
                let mark = format!("{round}.{number}");
                let count = 1 + number * 2_000;
                let print = format!("for ((i = 0; i < {count}; i++)); do echo {mark}; done");
                (client.spawn(bash(&format!("{print}; echo {mark} >&2"))), mark)
            })
            .collect();
        for (number, (id, mark)) in ids.into_iter().enumerate() {
            let (out, err, last) = client.finish(id);
            let expected = format!("{mark}\n");
            assert_eq!(String::from_utf8(out).unwrap(), expected.repeat(1 + number * 2_000));
            assert_eq!(String::from_utf8(err).unwrap(), expected);
            assert_eq!(last, Reply::Ended(PLAIN));
        }
    }
}

#[test]
fn a_stranger_with_an_old_pipe_reaches_no_later_command() {
    let mut client = Client::start();
    let (id, pid) = client.bash("sleep 0.3; echo first");
    let minder = parent(pid);
    let held = std::fs::OpenOptions::new().append(true).open(format!("/proc/{pid}/fd/1")).unwrap();
    assert_eq!(client.finish(id).0, b"first\n");

    let (id, pid) = client.bash("sleep 0.3; echo second");
    assert_eq!(parent(pid), minder);
    let written = std::io::Write::write_all(&mut &held, b"stray\n");
    assert!(written.is_err(), "expected the old pipe to be closed");
    assert_eq!(client.finish(id).0, b"second\n");
}

#[test]
fn a_late_kill_does_nothing() {
    let mut client = Client::start();
    for round in 0..60_u64 {
        let old = client.spawn(bash("true"));
        // From before its end to after it: the minder may get the kill while it is idle.
        std::thread::sleep(Duration::from_micros(round * 100));
        client.kill(old, Duration::ZERO);
        let (_, _, last) = client.finish(old);
        assert!(matches!(last, Reply::Ended(_)), "got {last:?}");
        client.kill(old, Duration::ZERO);
        let id = client.spawn(bash("sleep 0.02; echo whole"));
        client.kill(old, Duration::ZERO);
        client.ask(old, &Request::Credit { bytes: 1 });
        let (out, _, last) = client.finish(id);
        assert_eq!((out.as_slice(), last), (b"whole\n".as_slice(), Reply::Ended(PLAIN)));
    }
}

#[test]
fn p1_a_reused_minder_ends_a_stubborn_tree() {
    let mut client = Client::start();
    for _ in 0..3 {
        let minder = minder_of_next(&mut client);
        let tree = Tree::new();
        let (id, pid) = client.bash(&tree.script());
        assert_eq!(parent(pid), minder);
        tree.wait_up(6);
        client.kill(id, Duration::from_millis(100));
        let (_, _, last) = client.finish(id);
        tree.assert_gone("when the end is reported");
        assert!(matches!(last, Reply::Ended(end) if end.killed && end.survivors == 0), "{last:?}");
        // It had to kill: it is not used again.
        wait_until(SOON, || !is_alive(minder), || format!("minder {minder} alive"));
    }
}

#[test]
fn p1_the_trees_of_reused_minders_end_with_the_agent() {
    let mut client = Client::start();
    let minder = minder_of_next(&mut client);
    let tree = Tree::new();
    let (_, pid) = client.bash(&tree.script());
    assert_eq!(parent(pid), minder);
    tree.wait_up(6);
    client.agent.kill().unwrap();
    tree.wait_gone(SOON);
}

#[test]
fn p1_a_tree_ends_when_its_reused_minder_is_killed() {
    let mut client = Client::start();
    let minder = minder_of_next(&mut client);
    let tree = Tree::new();
    let (id, pid) = client.bash(&tree.script());
    assert_eq!(parent(pid), minder);
    tree.wait_up(6);
    signal(minder, Signal::KILL);
    assert_eq!(client.finish(id).2, Reply::Lost);
    tree.assert_gone("when the loss is reported");
    assert_ne!(minder_of_next(&mut client), minder);
}

#[test]
fn leftovers_retire_the_minder() {
    let mut client = Client::start();
    let tree = Tree::new();
    let script = format!("setsid {} >/dev/null 2>&1 & sleep 0.05; echo $PPID", tree.sleep(1));
    let (out, _, ended) = client.run(&script);
    let minder: u32 = out.trim().parse().unwrap();
    assert_eq!(ended, Ended { leftovers: 1, ..PLAIN });
    tree.assert_gone("when the end is reported");
    wait_until(SOON, || !is_alive(minder), || format!("minder {minder} alive"));
    assert_ne!(minder_of_next(&mut client), minder);
}

#[test]
fn idle_minders_leave_with_the_agent() {
    let mut client = Client::start();
    let ids: Vec<u32> = (0..4).map(|_| client.bash("sleep 0.1").0).collect();
    for id in ids {
        client.finish(id);
    }
    let minders = children(client.agent.id());
    assert!(minders.len() >= 4, "expected them to wait, got {minders:?}");
    client.agent.kill().unwrap();
    let alive = || minders.iter().copied().filter(|pid| is_alive(*pid)).collect::<Vec<_>>();
    wait_until(SOON, || alive().is_empty(), || format!("{:?}", alive()));
}

#[test]
fn nothing_of_a_command_shows_in_the_next() {
    let mut client = Client::start();
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().as_os_str().as_encoded_bytes().to_vec();
    let minder = minder_of_next(&mut client);
    let files = open_files(minder);
    for round in 0..20 {
        let mut first = bash("umask 077; ulimit -n 17; cd /usr; export LEAK=2; trap '' TERM HUP");
        first.cwd.clone_from(&cwd);
        first.env.push(format!("SECRET={round}").into_bytes());
        let id = client.spawn(first);
        assert_eq!(client.finish(id).2, Reply::Ended(PLAIN));
        // The folder can be removed or unmounted as soon as the end is reported.
        let at = std::fs::read_link(format!("/proc/{minder}/cwd")).unwrap();
        assert_eq!(at, std::path::Path::new("/"));

        let script = "pwd; umask; ulimit -n; grep SigIgn /proc/self/status; env | sort";
        let mut second = bash(script);
        second.cwd = b"/tmp".to_vec();
        let id = client.spawn(second);
        let out = String::from_utf8(client.finish(id).0).unwrap();
        let mut fresh = Client::start();
        let mut same = bash(script);
        same.cwd = b"/tmp".to_vec();
        let id = fresh.spawn(same);
        assert_eq!(out, String::from_utf8(fresh.finish(id).0).unwrap());
        assert!(out.starts_with("/tmp\n") && !out.contains("SECRET") && !out.contains("LEAK"));
    }
    assert_eq!(open_files(minder).len(), files.len(), "expected {files:?}");
    assert_eq!(minder_of_next(&mut client), minder);
}
