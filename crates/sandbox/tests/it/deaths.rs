//! P1: whoever dies, nothing of a command survives, and what can be told is told.

use std::process::{Command, Stdio};
use std::time::Duration;

use driver_api::{ExitStatus, Output, WorkspaceError};
use testkit::workspace_suite::{bash, start};

use crate::place::{Place, alive, kill, mark, parent, tree, wait_for};

/// Names the mark for the process that [`p1_trees_end_when_narthex_is_killed`] starts.
const MARK: &str = "NARTHEX_TEST_MARK";

async fn pid_of(output: &mut tokio::sync::mpsc::Receiver<Output>) -> u32 {
    let Some(Output::Stdout(line)) = output.recv().await else { panic!("expected a pid") };
    std::str::from_utf8(&line).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn p1_trees_end_when_the_agent_is_killed_and_commands_run_again() {
    let place = Place::new();
    let mark = mark(1);
    let (mut process, _output) = start(&*place.workspace, &tree(&mark)).await;
    wait_for("a tree", || alive(&mark) == 6).await;
    kill(place.agent.pid().await.unwrap());
    let end = process.wait().await;
    assert!(matches!(end, Err(WorkspaceError::Fault(_))), "got {end:?}");
    wait_for("no survivor", || alive(&mark) == 0).await;
    let next = bash(&*place.workspace, "echo again").await;
    assert_eq!((next.out.as_str(), next.exit.status), ("again\n", ExitStatus::Code(0)));
}

#[tokio::test]
async fn p1_a_tree_ends_when_its_minder_is_killed() {
    let place = Place::new();
    let mark = mark(2);
    let script = format!("echo $$; {}", tree(&mark));
    let (mut process, mut output) = start(&*place.workspace, &script).await;
    let pid = pid_of(&mut output).await;
    wait_for("a tree", || alive(&mark) == 6).await;
    kill(parent(pid));
    let end = process.wait().await;
    assert_eq!(alive(&mark), 0, "expected no survivor when the fault is reported");
    assert!(matches!(end, Err(WorkspaceError::Fault(_))), "got {end:?}");
}

#[tokio::test]
async fn p1_closing_the_agent_ends_every_tree() {
    let place = Place::new();
    let mark = mark(3);
    let (mut process, _output) = start(&*place.workspace, &tree(&mark)).await;
    wait_for("a tree", || alive(&mark) == 6).await;
    place.agent.close().await;
    assert_eq!(alive(&mark), 0, "expected no survivor when the agent is closed");
    let end = process.wait().await;
    assert!(matches!(end, Err(WorkspaceError::Fault(_))), "got {end:?}");
    let (sender, _output) = tokio::sync::mpsc::channel(1);
    let spawn = driver_api::Spawn {
        argv: vec!["true".to_owned()],
        cwd: place.cwd().to_owned(),
        env: Vec::new(),
        stdin: Vec::new(),
    };
    let refused = place.workspace.spawn(spawn, sender).await;
    assert!(matches!(refused, Err(WorkspaceError::Fault(_))), "got {refused:?}");
}

#[tokio::test]
async fn dropping_every_handle_ends_the_agent() {
    let place = Place::new();
    bash(&*place.workspace, "true").await;
    let pid = place.agent.pid().await.unwrap();
    drop(place);
    wait_for("no agent", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
}

#[tokio::test]
async fn a_spawn_that_is_given_up_leaves_nothing() {
    let place = Place::new();
    let mark = mark(4);
    let script = tree(&mark);
    for delay in [0, 1, 2, 3, 5, 8] {
        let started = start(&*place.workspace, &script);
        let given_up = tokio::time::timeout(Duration::from_millis(delay), started).await;
        drop(given_up);
    }
    bash(&*place.workspace, "true").await;
    wait_for("no survivor", || alive(&mark) == 0).await;
}

#[tokio::test]
async fn the_agent_starts_ahead_and_once() {
    let place = Place::new();
    assert_eq!(place.agent.pid().await, None);
    place.agent.prestart();
    place.agent.prestart();
    bash(&*place.workspace, "true").await;
    let first = place.agent.pid().await.unwrap();
    bash(&*place.workspace, "true").await;
    assert_eq!(place.agent.pid().await, Some(first));
}

#[tokio::test]
async fn a_program_that_is_no_agent_is_a_fault() {
    for command in [vec!["/no/such/agent".into()], vec!["true".into()], vec!["cat".into()], vec![]]
    {
        let agent = sandbox::Agent::new(sandbox::AgentOptions { command });
        let options = sandbox::HostOptions { cwd: "/".into(), ..Default::default() };
        let workspace = sandbox::host(options, agent).unwrap();
        let (sender, _output) = tokio::sync::mpsc::channel(1);
        let spawn = driver_api::Spawn {
            argv: vec!["true".to_owned()],
            cwd: "/".into(),
            env: Vec::new(),
            stdin: Vec::new(),
        };
        let refused = workspace.spawn(spawn, sender).await;
        assert!(matches!(refused, Err(WorkspaceError::Fault(_))), "got {refused:?}");
    }
}

#[tokio::test]
async fn p1_trees_end_when_narthex_is_killed() {
    let mark = mark(5);
    let mut narthex = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deaths::be_the_narthex_that_is_killed"])
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("a tree", || alive(&mark) == 6).await;
    narthex.kill().unwrap();
    narthex.wait().unwrap();
    wait_for("no survivor", || alive(&mark) == 0).await;
}

/// Does nothing by itself: the test above executes it in a process of its own and kills that.
#[tokio::test]
async fn be_the_narthex_that_is_killed() {
    let Some(mark) = std::env::var_os(MARK) else { return };
    let place = Place::new();
    // The process is killed, so nothing removes this folder but ourselves, now.
    std::fs::remove_dir_all(place.folder.path()).unwrap();
    let script = tree(mark.to_str().unwrap());
    let (sender, _output) = tokio::sync::mpsc::channel(1);
    let spawn = driver_api::Spawn {
        argv: vec!["bash".to_owned(), "-c".to_owned(), script],
        cwd: "/".into(),
        env: Vec::new(),
        stdin: Vec::new(),
    };
    let mut process = place.workspace.spawn(spawn, sender).await.unwrap();
    process.wait().await.unwrap();
}
