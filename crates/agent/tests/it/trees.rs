//! P1: nothing of a command survives it, whoever dies.

use std::io::Write;
use std::time::Duration;

use agent::wire::{Reply, Request, Status};
use rustix::process::Signal;

use crate::client::{Client, SOON, Tree, bash, children, parent, signal, wait_until};

const GRACE: Duration = Duration::from_millis(300);

#[test]
fn p1_a_killed_tree_is_gone_when_its_end_is_reported() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (id, _) = client.bash(&tree.script());
    tree.wait_up(6);
    client.kill(id, GRACE);
    let (_, _, last) = client.finish(id);
    tree.assert_gone("when the end is reported");
    let Reply::Ended(ended) = last else { panic!("expected an end, got {last:?}") };
    assert_eq!((ended.status, ended.killed, ended.survivors), (Status::Signal(15), true, 0));
}

#[test]
fn p1_a_tree_killed_without_grace_is_gone() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (id, _) = client.bash(&tree.script());
    tree.wait_up(6);
    client.kill(id, Duration::ZERO);
    client.finish(id);
    tree.assert_gone("when the end is reported");
}

#[test]
fn p1_a_second_kill_shortens_the_grace_of_the_first() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (id, _) = client.bash(&tree.script());
    tree.wait_up(6);
    client.kill(id, Duration::from_secs(600));
    client.kill(id, Duration::ZERO);
    client.finish(id);
    tree.assert_gone("when the end is reported");
}

#[test]
fn p1_a_kill_that_comes_with_the_command_is_heard() {
    let mut client = Client::start();
    let tree = Tree::new();
    let mut frames = Vec::new();
    Request::Spawn(bash(&tree.script())).encode(7, &mut frames).unwrap();
    Request::Kill { grace_ms: 0 }.encode(7, &mut frames).unwrap();
    client.stream.write_all(&frames).unwrap();
    let (_, _, last) = client.finish(7);
    assert!(matches!(last, Reply::Ended(ended) if ended.killed), "got {last:?}");
    tree.assert_gone("when the end is reported");
}

#[test]
fn p1_what_a_command_leaves_behind_is_ended_and_counted() {
    let mut client = Client::start();
    let tree = Tree::new();
    let script = tree.script().replace("disown -a; sleep", "disown -a; false && sleep");
    let (out, _, ended) = client.run(&format!("{script}; sleep 0.3; echo bye; exit 6"));
    tree.assert_gone("when the end is reported");
    assert_eq!((out.as_str(), ended.status, ended.killed), ("bye\n", Status::Code(6), false));
    assert!(ended.leftovers >= 5, "expected the leftovers to be counted, got {ended:?}");
}

#[test]
fn p1_a_fork_bomb_comes_to_an_end() {
    let mut client = Client::start();
    let tree = Tree::new();
    // Every process goes on forking, ignores SIGTERM, and leaves its parent.
    let script = format!(
        "trap '' TERM; f() {{ while :; do (setsid {} & ) ; {}; done; }}; f & f & f & wait",
        tree.sleep(1),
        "sleep 0.02",
    );
    let (id, _) = client.bash(&script);
    tree.wait_up(20);
    client.kill(id, Duration::ZERO);
    let (_, _, last) = client.finish(id);
    tree.assert_gone("when the end is reported");
    assert!(matches!(last, Reply::Ended(ended) if ended.survivors == 0), "got {last:?}");
}

#[test]
fn p1_a_stopped_tree_can_be_ended() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (id, pid) = client.bash(&format!("trap 'exit 9' TERM; {} & wait", tree.sleep(1)));
    tree.wait_up(1);
    signal(pid, Signal::STOP);
    client.kill(id, Duration::from_secs(20));
    let (_, _, last) = client.finish(id);
    // The grace is long: it was woken and heard SIGTERM.
    assert!(matches!(last, Reply::Ended(end) if end.status == Status::Code(9)), "got {last:?}");
    tree.assert_gone("when the end is reported");
}

#[test]
fn p1_trees_end_when_the_stream_closes() {
    let mut client = Client::start();
    let trees: Vec<Tree> = (0..3).map(|_| Tree::new()).collect();
    for tree in &trees {
        client.bash(&tree.script());
    }
    trees.iter().for_each(|tree| tree.wait_up(6));
    let took = client.close();
    trees.iter().for_each(|tree| tree.assert_gone("after the exit of the agent"));
    assert!(took < SOON, "expected the agent to leave within a second or two, took {took:?}");
}

#[test]
fn p1_trees_end_when_the_agent_is_killed() {
    let mut client = Client::start();
    let tree = Tree::new();
    client.bash(&tree.script());
    tree.wait_up(6);
    client.agent.kill().unwrap();
    tree.wait_gone(SOON);
}

#[test]
fn p1_a_tree_ends_when_its_minder_is_killed() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (id, pid) = client.bash(&tree.script());
    tree.wait_up(6);
    signal(parent(pid), Signal::KILL);
    let (_, _, last) = client.finish(id);
    assert_eq!(last, Reply::Lost);
    tree.assert_gone("when the loss is reported");
    assert_eq!(client.run("exit 3").2.status, Status::Code(3));
}

#[test]
fn p1_the_death_of_one_minder_leaves_other_commands_alone() {
    let mut client = Client::start();
    let (lost, kept) = (Tree::new(), Tree::new());
    let (lost_id, lost_pid) = client.bash(&lost.script());
    let (kept_id, _) = client.bash(&kept.script());
    lost.wait_up(6);
    kept.wait_up(6);
    signal(parent(lost_pid), Signal::KILL);
    client.finish(lost_id);
    lost.assert_gone("when the loss is reported");
    assert_eq!(kept.alive().len(), 6);
    client.kill(kept_id, Duration::ZERO);
    client.finish(kept_id);
    kept.assert_gone("when the end is reported");
}

#[test]
fn killed_idle_minders_are_replaced() {
    let mut client = Client::start();
    for _ in 0..3 {
        let minders = || children(client.agent.id());
        let idle = minders();
        assert!(!idle.is_empty());
        for minder in &idle {
            signal(*minder, Signal::KILL);
        }
        let is_replaced = || matches!(minders().as_slice(), [one] if !idle.contains(one));
        wait_until(SOON, is_replaced, || format!("{:?}", minders()));
        assert_eq!(client.run("exit 3").2.status, Status::Code(3));
    }
}

#[test]
fn a_command_that_meets_an_idle_minder_just_killed_still_runs() {
    let mut client = Client::start();
    for _ in 0..20 {
        assert_eq!(client.run("exit 3").2.status, Status::Code(3));
        let idle = children(client.agent.id());
        for minder in &idle {
            signal(*minder, Signal::KILL);
        }
        let is_dead = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        };
        wait_until(SOON, || idle.iter().all(is_dead), || format!("{idle:?}"));
    }
}

#[test]
fn signals_of_a_terminal_do_not_reach_the_agent() {
    let mut client = Client::start();
    for sent in [Signal::INT, Signal::HUP, Signal::QUIT, Signal::TERM, Signal::TSTP] {
        signal(client.agent.id(), sent);
    }
    assert_eq!(client.run("exit 3").2.status, Status::Code(3));
}

#[test]
fn p1_when_agent_and_minder_die_together_the_next_agent_sweeps() {
    let mut client = Client::start();
    let tree = Tree::new();
    let (_, pid) = client.bash(&tree.script());
    tree.wait_up(6);
    let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    if !group.contains("narthex-agent-") {
        // Without a cgroup nobody can know of such a tree; the agent's document says so.
        return;
    }
    // Stopped first, so that neither notices the other's death.
    let minder = parent(pid);
    signal(minder, Signal::STOP);
    client.agent.kill().unwrap();
    client.agent.wait().unwrap();
    signal(minder, Signal::KILL);
    // From here on only an agent that starts knows of the tree (one of another test does too).
    let next = Client::start();
    tree.wait_gone(SOON);
    next.close();
}

#[test]
fn an_agent_leaves_no_cgroup() {
    let mut client = Client::start();
    let (out, _, _) =
        client.run("cat /proc/self/cgroup; awk '$3 == \"cgroup2\" {print $2}' /proc/mounts");
    let name = out.lines().find_map(|line| line.strip_prefix("0::"));
    let mount = out.lines().find(|line| line.starts_with("/sys/"));
    client.close();
    if let (Some(name), Some(mount)) = (name.filter(|name| name.contains("narthex-agent")), mount) {
        let path = format!("{mount}{name}");
        assert!(!std::path::Path::new(&path).exists(), "expected {path} to be removed");
    }
}
