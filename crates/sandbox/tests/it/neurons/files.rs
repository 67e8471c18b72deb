//! The workspace of a neuron keeps the contract, as any other.

use driver_api::NeuronDriver;
use testkit::workspace_suite;

use super::{BOTH, Land};

#[tokio::test]
async fn a_host_neuron_keeps_the_contract_of_files() {
    let land = Land::new();
    land.create(NeuronDriver::Host, "files").await;
    workspace_suite::files(&*land.workspace("files").await).await;
}

#[tokio::test]
async fn a_host_neuron_keeps_the_contract_of_processes() {
    let land = Land::new();
    land.create(NeuronDriver::Host, "commands").await;
    workspace_suite::processes(&land.workspace("commands").await).await;
}

#[tokio::test]
async fn a_neuron_that_is_kept_apart_keeps_the_contract_of_files() {
    let land = Land::new();
    land.create(NeuronDriver::Namespace, "files").await;
    workspace_suite::files(&*land.workspace("files").await).await;
}

#[tokio::test]
async fn a_neuron_that_is_kept_apart_keeps_the_contract_of_processes() {
    let land = Land::new();
    land.create(NeuronDriver::Namespace, "commands").await;
    workspace_suite::processes(&land.workspace("commands").await).await;
}

#[tokio::test]
async fn a_file_service_that_was_killed_is_met_again() {
    let land = Land::new();
    land.create(NeuronDriver::Host, "again").await;
    let workspace = land.workspace("again").await;
    let file = workspace.locate("file").await.unwrap();
    workspace.write(&file, b"text").await.unwrap();
    // Every connection has a process below the first one; all but the agent's are of files.
    let first = land.info("again").await.unwrap().pid.unwrap();
    let killed = kill_file_services(first);
    assert!(killed > 0, "expected a file service below {first}");
    let contents = workspace.read(&file, 100).await.unwrap();
    assert_eq!(contents.bytes, b"text");
    kill_file_services(first);
    workspace.remove(&file).await.unwrap();
}

fn kill_file_services(first: u32) -> usize {
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        if name.trim() == "narthex-files" && crate::place::parent(pid) == first {
            crate::place::kill(pid);
            killed += 1;
        }
    }
    killed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once_are_all_answered() {
    let land = Land::new();
    land.create(NeuronDriver::Host, "many").await;
    let workspace = land.workspace("many").await;
    let all = (0..40).map(|number| {
        let workspace = &workspace;
        async move {
            let file = workspace.locate(&format!("file-{number}")).await.unwrap();
            let text = vec![b'a'; number * 10_000];
            workspace.write(&file, &text).await.unwrap();
            assert!(workspace.read(&file, 1 << 20).await.unwrap().bytes == text, "{number}");
        }
    });
    futures_util::future::join_all(all).await;
}

/// X1: what the file tools see is what commands see, links and refusals included.
#[tokio::test]
async fn files_and_commands_of_a_neuron_are_of_one_place() {
    for driver in BOTH {
        let land = Land::new();
        land.create(driver, "one").await;
        let workspace = land.workspace("one").await;
        let file = workspace.locate("by-tool").await.unwrap();
        workspace.write(&file, b"tool\n").await.unwrap();
        let script = "cat by-tool; echo shell > by-shell; ln -s by-shell link; rm by-tool";
        assert_eq!(land.says("one", script).await, "tool\n");
        assert_eq!(workspace.locate("by-tool").await.unwrap().stat, None);
        let link = workspace.locate("link").await.unwrap();
        assert_eq!(link.real, workspace.cwd().join("by-shell"));
        assert_eq!(workspace.read(&link, 100).await.unwrap().bytes, b"shell\n");
        if driver == NeuronDriver::Namespace {
            // What is not there for one is not there for the other.
            assert_eq!(land.says("one", "[ -e /etc/shadow ] || echo gone").await, "gone\n");
            let secret = workspace.locate("/etc/shadow").await;
            assert!(secret.as_ref().is_ok_and(|file| file.stat.is_none()), "got {secret:?}");
        }
    }
}
