//! X8 of namespaces: whoever creates or destroys a neuron is killed in the middle of it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use driver_api::{NeuronError, NeuronState};
use protocol::NeuronId;
use testkit::workspace_suite::bash;

use super::{BOTH, Land, options, spec};
use crate::place::PATIENCE;

const HOME: &str = "NARTHEX_TEST_CRASH";
const DRIVER: &str = "NARTHEX_TEST_DRIVER";

/// Does nothing by itself: the test below executes it in a process of its own and kills that.
#[tokio::test]
async fn be_the_creator_that_is_killed() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    let driver =
        BOTH.into_iter().find(|driver| std::env::var(DRIVER).as_deref() == Ok(driver.as_str()));
    let neurons = sandbox::neurons(options(home));
    loop {
        neurons.create(spec(driver.unwrap(), "crash")).await.unwrap();
        std::fs::write(home.with_file_name("begun"), "").unwrap();
        neurons.destroy(&NeuronId::new("crash")).await.unwrap();
    }
}

/// Kills the creator at moments that are spread over what creation and destruction take.
#[tokio::test]
async fn whatever_a_crash_leaves_is_whole_or_goes() {
    for driver in BOTH {
        let land = Land::new();
        for round in 0..12_u32 {
            let mut creator = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "neurons::crash::be_the_creator_that_is_killed"])
                .env(HOME, land.home())
                .env(DRIVER, driver.as_str())
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
            tokio::time::sleep(Duration::from_micros(u64::from(round) * 7_300)).await;
            creator.kill().unwrap();
            creator.wait().unwrap();
            std::fs::remove_file(&begun).unwrap();
            // A launcher that it had just forked has its locks until it is executed.
            let since = Instant::now();
            let listed = loop {
                let listed = land.neurons.list().await.unwrap();
                if listed.iter().all(|neuron| neuron.state != NeuronState::Starting) {
                    break listed;
                }
                assert!(since.elapsed() < PATIENCE, "nobody creates it any more");
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            match listed.as_slice() {
                [] => {}
                [neuron] => {
                    if neuron.state == NeuronState::Running {
                        match land.neurons.workspace(&neuron.id, None).await {
                            Ok(workspace) => {
                                let ran = bash(&*workspace, "echo whole").await;
                                assert_eq!(ran.out, "whole\n");
                            }
                            // It was about to die: its end was what was interrupted.
                            Err(NeuronError::NotRunning(_)) => {}
                            Err(other) => panic!("expected a whole neuron, got {other:?}"),
                        }
                    }
                    land.destroy("crash").await.unwrap();
                }
                more => panic!("expected one neuron at most, got {more:?}"),
            }
            let since = Instant::now();
            while land.processes() > 0 {
                assert!(since.elapsed() < PATIENCE, "a process is left");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(land.neurons.list().await.unwrap(), []);
            let left = land.leftovers();
            assert!(left.is_empty(), "left: {left:?}");
        }
        // And the name can be had again.
        land.create(driver, "crash").await;
    }
}

/// Each state that a crash between two steps of creation leaves on disk.
#[tokio::test]
async fn every_half_made_neuron_is_cleared_away() {
    for driver in BOTH {
        let land = Land::new();
        land.create(driver, "model").await;
        let neurons = land.home().join("neurons");
        let state = std::fs::read_to_string(land.of("model").join("state.json")).unwrap();
        land.destroy("model").await.unwrap();
        let starting = state.replace("\"created\"", "\"starting\"");
        assert_ne!(state, starting);
        let leave = |name: &str, text: Option<&str>, parts: &[&str]| {
            let folder = neurons.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            for part in parts {
                std::fs::create_dir_all(folder.join(part)).unwrap();
            }
            if let Some(text) = text {
                std::fs::write(folder.join("state.json"), text).unwrap();
            }
        };
        leave(".new-a", None, &[]);
        leave(".new-b", Some(&starting), &[]);
        leave(".new-c", Some(&starting), &["layer/home", "egress"]);
        leave("d", Some(&starting), &["layer/home/deep"]);
        leave(".old-e", Some(&state), &["layer/home"]);
        leave(".old-f", None, &["layer"]);
        // A lock file whose holder died is nobody's lock.
        std::fs::write(neurons.join(".locks/d"), "1\n").unwrap();
        assert_eq!(land.neurons.list().await.unwrap(), []);
        let left = land.leftovers();
        assert!(left.is_empty(), "left: {left:?}");
        // The same when another process creates a neuron first of all.
        leave(".new-a", Some(&starting), &["layer"]);
        leave("d", Some(&starting), &["layer"]);
        let next = sandbox::neurons(options(&land.home()));
        next.create(spec(driver, "e")).await.unwrap();
        assert!(!land.of("d").exists() && land.leftovers().is_empty());
    }
}
