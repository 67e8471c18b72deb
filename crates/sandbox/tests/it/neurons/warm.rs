//! Neurons that are ready before anybody asks for them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver_api::{NeuronDriver, NeuronError, NeuronInfo, NeuronSpec, Neurons, Writes};
use protocol::NeuronId;
use sandbox::EgressGate;
use testkit::workspace_suite::bash;

use super::egress::{Gate, KNOCK, reaching};
use super::{Land, is_alive, options, spec};
use crate::place::PATIENCE;

const HOME: &str = "NARTHEX_TEST_WARM";

fn apart(id: &str) -> NeuronSpec {
    spec(NeuronDriver::Namespace, id)
}

/// A process that keeps this many ready.
fn keeper(land: &Land, warm: usize) -> Arc<dyn Neurons> {
    let mut options = options(&land.home());
    options.warm = warm;
    sandbox::neurons(options)
}

/// The first processes and the users of those that are ready.
fn ready(home: &Path) -> Vec<(u32, Option<u64>)> {
    let Ok(entries) = std::fs::read_dir(home.join("neurons")) else { return Vec::new() };
    let folders =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(".warm-"));
    let states = folders.filter_map(|folder| {
        let text = std::fs::read_to_string(folder.path().join("state.json")).ok()?;
        let state: serde_json::Value = serde_json::from_str(&text).ok()?;
        let pid = u32::try_from(state["process"]["pid"].as_u64()?).ok()?;
        Some((pid, state["uid"].as_u64()))
    });
    let mut all: Vec<_> = states.collect();
    all.sort_unstable();
    all
}

async fn wait_for_ready(land: &Land, count: usize) -> Vec<(u32, Option<u64>)> {
    let since = Instant::now();
    loop {
        let ready = ready(&land.home());
        if ready.len() == count {
            return ready;
        }
        assert!(since.elapsed() < PATIENCE, "expected {count} ready, got {ready:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn is_of(info: &NeuronInfo, ready: &[(u32, Option<u64>)]) -> bool {
    ready.iter().any(|(pid, _)| Some(*pid) == info.pid)
}

async fn says(neurons: &dyn Neurons, id: &str, script: &str) -> String {
    let ran = bash(&*neurons.workspace(&NeuronId::new(id), None).await.unwrap(), script).await;
    ran.out + &ran.err
}

#[tokio::test]
async fn one_that_is_ready_becomes_the_one_that_is_asked_for() {
    let land = Land::new();
    let neurons = keeper(&land, 2);
    assert_eq!(neurons.list().await.unwrap(), []);
    assert_eq!(land.processes(), 0, "none is made before one was asked for");
    let first = neurons.create(apart("first")).await.unwrap();
    let before = wait_for_ready(&land, 2).await;
    assert!(!is_of(&first, &before));
    let listed = neurons.list().await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&first), "nobody sees what waits");
    let mut wanted = apart("second");
    wanted.env = vec![("OWN".into(), "value".into())];
    let second = neurons.create(wanted).await.unwrap();
    assert!(is_of(&second, &before), "expected one of {before:?}, got {second:?}");
    assert_eq!((second.isolation, second.workspace), (first.isolation, first.workspace));
    assert!(second.created_at >= first.created_at, "it is as old as it was asked for");
    let script = "echo $NARTHEX_NEURON $OWN $(ls ~ /tmp . | wc -w); pwd; echo x > ~/kept; id -un";
    // Two folders more have their names shown, none has anything in it.
    let said = says(&*neurons, "second", script).await;
    assert_eq!(said, "second value 3\n/workspace\nneuron\n");
    assert_eq!(says(&*neurons, "first", "ls ~").await, "");
    // Another one takes its place, with a user that nobody else has.
    let after = wait_for_ready(&land, 2).await;
    assert_eq!(before.iter().filter(|(pid, _)| after.iter().any(|(it, _)| it == pid)).count(), 1);
    let mut users: Vec<_> = after.iter().chain(&before).filter_map(|(_, user)| *user).collect();
    users.sort_unstable();
    users.dedup();
    assert!(users.is_empty() || users.len() == 3, "{before:?} and {after:?}");
    // It is like any other: another process takes it over, forks it, destroys it.
    neurons.close().await;
    assert_eq!(ready(&land.home()), []);
    let next = keeper(&land, 0);
    assert_eq!(says(&*next, "second", "cat ~/kept; echo $OWN").await, "x\nvalue\n");
    next.fork(&NeuronId::new("second"), NeuronId::new("third")).await.unwrap();
    assert_eq!(says(&*next, "third", "cat ~/kept").await, "x\n");
    next.destroy(&NeuronId::new("second")).await.unwrap();
    assert!(!is_alive(second.pid.unwrap()) && !land.of("second").exists());
}

#[tokio::test]
async fn whoever_asks_for_something_else_is_not_given_one() {
    let land = Land::new();
    let neurons = keeper(&land, 1);
    neurons.create(apart("first")).await.unwrap();
    let before = wait_for_ready(&land, 1).await;
    let folder = land.project("project");
    let limited = |id: &str| {
        let mut wanted = apart(id);
        wanted.limits.pids = Some(100);
        wanted
    };
    let over = NeuronSpec { folder: Some(folder), writes: Writes::Overlay, ..apart("over") };
    for wanted in [limited("limited"), over, spec(NeuronDriver::Host, "host")] {
        let made = neurons.create(wanted).await.unwrap();
        assert!(!is_of(&made, &before), "{made:?}");
    }
    let forked = neurons.fork(&NeuronId::new("first"), NeuronId::new("fork")).await.unwrap();
    assert!(!is_of(&forked, &before), "its files are those of another one");
    assert_eq!(ready(&land.home()), before);
    // One that died meanwhile is nobody's neuron.
    crate::place::kill(before[0].0);
    crate::place::wait_for("its end", || !is_alive(before[0].0)).await;
    let made = neurons.create(apart("last")).await.unwrap();
    assert!(!is_of(&made, &before));
    assert_eq!(says(&*neurons, "last", "echo alive").await, "alive\n");
    wait_for_ready(&land, 1).await;
    neurons.close().await;
}

#[tokio::test]
async fn a_way_out_opens_when_one_is_given_away() {
    let land = Land::new();
    let gate = Gate::new("word\n");
    let mut options = options(&land.home());
    options.warm = 1;
    options.usual_egress = reaching("any").egress;
    options.egress = Some(Arc::clone(&gate) as Arc<dyn EgressGate>);
    let neurons = sandbox::neurons(options);
    neurons.create(reaching("first")).await.unwrap();
    let before = wait_for_ready(&land, 1).await;
    assert_eq!(gate.count(), 1, "nothing can be reached by one that waits");
    // One that reaches nothing is not made of one that could.
    let closed = neurons.create(apart("closed")).await.unwrap();
    assert!(!is_of(&closed, &before));
    let made = neurons.create(reaching("second")).await.unwrap();
    assert!(is_of(&made, &before));
    let opened = gate.opened.lock().unwrap()[1].clone();
    assert_eq!((opened.neuron.as_str(), &opened.egress), ("second", &reaching("x").egress));
    assert_eq!(says(&*neurons, "second", KNOCK).await, "word\n");
    let script = "echo $SHOWN_KEY; cat /run/narthex/ca.pem";
    assert_eq!(says(&*neurons, "second", script).await, "placeholder\ncertificate\n");
    neurons.destroy(&NeuronId::new("second")).await.unwrap();
    assert_eq!(gate.open_now(), 1);
    neurons.close().await;
}

#[tokio::test]
async fn those_that_wait_are_beside_the_ceiling_and_not_over_it() {
    let land = Land::new();
    let mut options = options(&land.home());
    (options.warm, options.neurons_max) = (2, 2);
    let neurons = sandbox::neurons(options);
    neurons.create(apart("a")).await.unwrap();
    wait_for_ready(&land, 2).await;
    neurons.create(apart("b")).await.unwrap();
    let before = wait_for_ready(&land, 2).await;
    let full = neurons.create(apart("c")).await;
    assert!(matches!(full, Err(NeuronError::Capacity(_))), "got {full:?}");
    assert_eq!(ready(&land.home()), before, "what is refused uses none up");
    neurons.destroy(&NeuronId::new("a")).await.unwrap();
    neurons.create(apart("c")).await.unwrap();
    neurons.close().await;
}

#[tokio::test]
async fn what_nobody_asked_for_ends_with_whoever_made_it() {
    let land = Land::new();
    let neurons = keeper(&land, 3);
    neurons.create(apart("first")).await.unwrap();
    // Whether or not all of them are ready.
    neurons.close().await;
    assert_eq!((ready(&land.home()).len(), land.leftovers()), (0, Vec::new()));
    neurons.destroy(&NeuronId::new("first")).await.unwrap();
    assert_eq!(land.processes(), 0);
    // After its end it makes none.
    neurons.create(apart("second")).await.unwrap();
    neurons.destroy(&NeuronId::new("second")).await.unwrap();
    assert!(land.leftovers().is_empty());
    // One that is only dropped.
    let neurons = keeper(&land, 2);
    neurons.create(apart("first")).await.unwrap();
    wait_for_ready(&land, 2).await;
    drop(neurons);
    let since = Instant::now();
    while !land.leftovers().is_empty() {
        assert!(since.elapsed() < PATIENCE, "left: {:?}", land.leftovers());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    land.destroy("first").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_given_away_to_somebody_who_left_is_ended() {
    let land = Land::new();
    let neurons = keeper(&land, 1);
    neurons.create(apart("first")).await.unwrap();
    for delay_us in [0, 100, 300, 500, 1_000, 2_000, 4_000] {
        wait_for_ready(&land, 1).await;
        let creating = neurons.create(apart("given-up"));
        let made = tokio::time::timeout(Duration::from_micros(delay_us), creating).await;
        if made.is_ok() {
            neurons.destroy(&NeuronId::new("given-up")).await.unwrap();
        }
        let since = Instant::now();
        while land.of("given-up").exists() {
            assert!(since.elapsed() < PATIENCE, "expected it to be taken back");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    neurons.close().await;
    crate::place::wait_for("nothing to be left", || land.leftovers().is_empty()).await;
    let left: Vec<_> = neurons.list().await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!((left, land.leftovers()), (vec![NeuronId::new("first")], Vec::new()));
}

/// Does nothing by itself: the test below executes it in a process of its own and kills that.
#[tokio::test]
async fn be_the_keeper_that_is_killed() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    let mut options = options(home);
    options.warm = 2;
    let neurons = sandbox::neurons(options);
    loop {
        neurons.create(apart("crash")).await.unwrap();
        std::fs::write(home.with_file_name("begun"), "").unwrap();
        neurons.destroy(&NeuronId::new("crash")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kills the keeper at moments that are spread over what it does.
#[tokio::test]
async fn what_a_killed_process_had_ready_is_ended_by_the_next_one() {
    let land = Land::new();
    for round in 0..10_u32 {
        let mut keeper = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "neurons::warm::be_the_keeper_that_is_killed"])
            .env(HOME, land.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = land.home().with_file_name("begun");
        let since = Instant::now();
        while !begun.exists() {
            assert!(since.elapsed() < PATIENCE, "expected a first neuron");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 6_100)).await;
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        std::fs::remove_file(&begun).unwrap();
        // A launcher that it had just forked has its locks until it is executed.
        let since = Instant::now();
        loop {
            let listed = land.neurons.list().await.unwrap();
            for neuron in listed {
                let ended = land.neurons.destroy(&neuron.id).await;
                assert!(matches!(ended, Ok(()) | Err(NeuronError::NotFound(_))), "got {ended:?}");
            }
            if land.leftovers().is_empty() && land.processes() == 0 {
                break;
            }
            let left = (land.leftovers(), land.processes());
            assert!(since.elapsed() < PATIENCE, "left: {left:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    land.create(NeuronDriver::Namespace, "crash").await;
}
