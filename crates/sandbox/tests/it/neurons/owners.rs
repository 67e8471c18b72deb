//! Several processes with the same home.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use driver_api::{NeuronDriver, NeuronError, NeuronState};
use protocol::NeuronId;

use super::{BOTH, Land, is_alive, options, spec};
use crate::place::PATIENCE;

/// Where the other process finds its home, and which driver it is to use.
const HOME: &str = "NARTHEX_TEST_NEURONS";
const DRIVER: &str = "NARTHEX_TEST_DRIVER";

/// Another process that made a neuron, `theirs`, and owns it.
struct Other(Child);

impl Other {
    async fn start(land: &Land, driver: NeuronDriver) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "neurons::owners::be_another_process"])
            .env(HOME, land.home())
            .env(DRIVER, driver.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let other = Self(child);
        let since = Instant::now();
        while !land.home().with_file_name("says").exists() {
            assert!(since.elapsed() < PATIENCE, "expected another process to make a neuron");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Does nothing by itself: the tests here execute it in a process of its own. It makes a neuron,
/// and when its neuron is used up it writes down what its next command is told.
#[tokio::test]
async fn be_another_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    let driver =
        BOTH.into_iter().find(|driver| std::env::var(DRIVER).as_deref() == Ok(driver.as_str()));
    let neurons = sandbox::neurons(options(home));
    neurons.create(spec(driver.unwrap(), "theirs")).await.unwrap();
    let workspace = neurons.workspace(&NeuronId::new("theirs"), None).await.unwrap();
    testkit::workspace_suite::bash(&*workspace, "echo written > file").await;
    let says = home.with_file_name("says");
    std::fs::write(&says, "made").unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        match neurons.workspace(&NeuronId::new("theirs"), None).await {
            Ok(_) => {}
            Err(error) => {
                std::fs::write(&says, format!("{error:?}")).unwrap();
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

#[tokio::test]
async fn what_another_process_owns_is_its_own() {
    for driver in BOTH {
        let land = Land::new();
        let other = Other::start(&land, driver).await;
        let theirs = other.0.id();
        let id = NeuronId::new("theirs");
        let info = land.info("theirs").await.unwrap();
        assert_eq!((info.state, info.owner_pid), (NeuronState::Running, Some(theirs)));
        let refused = [
            land.neurons.create(spec(driver, "theirs")).await.err(),
            land.neurons.workspace(&id, None).await.err(),
            land.neurons.fork(&id, NeuronId::new("to")).await.err(),
        ];
        for refused in refused {
            assert!(
                matches!(refused, Some(NeuronError::OwnedElsewhere(_, pid)) if pid == theirs),
                "got {refused:?}"
            );
        }
        other.kill();
    }
}

#[tokio::test]
async fn a_neuron_outlives_its_owner_and_is_taken_over() {
    for driver in BOTH {
        let land = Land::new();
        let other = Other::start(&land, driver).await;
        let before = land.info("theirs").await.unwrap();
        other.kill();
        let after = land.info("theirs").await.unwrap();
        assert_eq!(
            (after.state, after.owner_pid, after.pid),
            (NeuronState::Running, None, before.pid)
        );
        assert_eq!(after.created_at, before.created_at);
        let taken = land.neurons.create(spec(driver, "theirs")).await;
        assert!(matches!(taken, Err(NeuronError::Exists(_))), "got {taken:?}");
        assert_eq!(land.says("theirs", "cat file").await, "written\n");
        // It is this process's now, and another one is told so.
        let next = sandbox::neurons(options(&land.home()));
        let refused = next.workspace(&NeuronId::new("theirs"), None).await;
        assert!(matches!(refused, Err(NeuronError::OwnedElsewhere(..))), "got {refused:?}");
        // Until this one lets go.
        land.neurons.close().await;
        next.workspace(&NeuronId::new("theirs"), None).await.unwrap();
    }
}

#[tokio::test]
async fn a_neuron_is_destroyed_from_another_process() {
    for driver in BOTH {
        let land = Land::new();
        let other = Other::start(&land, driver).await;
        let pid = land.info("theirs").await.unwrap().pid.unwrap();
        land.destroy("theirs").await.unwrap();
        assert!(!is_alive(pid) && !land.of("theirs").exists());
        let says = land.home().with_file_name("says");
        let since = Instant::now();
        let told = loop {
            let told = std::fs::read_to_string(&says).unwrap();
            if !told.is_empty() && told != "made" {
                break told;
            }
            assert!(since.elapsed() < PATIENCE, "expected the owner to notice");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        // It may be asked in the moment between the end of the process and that of the files.
        assert!(told.starts_with("NotFound") || told.starts_with("NotRunning"), "got {told}");
        other.kill();
    }
}

#[tokio::test]
async fn a_neuron_whose_state_is_lost_is_found_by_its_folder() {
    for driver in BOTH {
        let land = Land::new();
        let made = land.create(driver, "lost").await;
        land.says("lost", "echo kept > ~/file").await;
        land.neurons.close().await;
        std::fs::remove_file(land.of("lost").join("state.json")).unwrap();
        let found = land.info("lost").await.unwrap();
        assert_eq!((found.state, found.pid), (NeuronState::Running, made.pid));
        assert_eq!((found.driver, found.workspace), (None, None));
        let age_ms = (made.created_at.0 - found.created_at.0).abs();
        assert!(age_ms < 60_000, "made {:?}, found {:?}", made.created_at, found.created_at);
        assert_eq!(land.says("lost", "echo alive").await, "alive\n");
        crate::place::kill(made.pid.unwrap());
        super::wait_for_state(&land, "lost", NeuronState::Stopped).await;
        let stopped = land.info("lost").await.unwrap();
        assert_eq!((stopped.pid, stopped.created_at), (None, found.created_at));
        land.create(driver, "lost").await;
        assert_eq!(land.says("lost", "cat ~/file 2>/dev/null; echo new").await, "new\n");
    }
}

#[tokio::test]
async fn a_folder_that_was_left_is_a_neuron_that_stopped() {
    let land = Land::new();
    let folder = land.of("bare").join("layer/home");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("file"), "").unwrap();
    let bare = land.info("bare").await.unwrap();
    assert_eq!((bare.state, bare.driver, bare.pid), (NeuronState::Stopped, None, None));
    assert!(bare.created_at.0 > 1_600_000_000_000, "never the epoch: {bare:?}");
    assert_eq!(land.neurons.list().await.unwrap(), [bare]);
    let dead = land.neurons.workspace(&NeuronId::new("bare"), None).await;
    assert!(matches!(dead, Err(NeuronError::NotRunning(_))), "got {dead:?}");
    land.create(NeuronDriver::Host, "bare").await;
    assert!(!folder.join("file").exists(), "it was replaced");
}
