//! The host workspace keeps the contract.

use sandbox::HostOptions;
use testkit::workspace_suite;

use crate::place::Place;

#[tokio::test]
async fn the_host_keeps_the_contract_of_files() {
    workspace_suite::files(&*Place::new().workspace).await;
}

#[tokio::test]
async fn the_host_keeps_the_contract_of_files_outside_of_its_first_root() {
    let place = Place::with(HostOptions { roots: vec!["other".into()], ..HostOptions::default() });
    workspace_suite::files(&*place.workspace).await;
}

#[tokio::test]
async fn p1_p2_the_host_keeps_the_contract_of_processes() {
    workspace_suite::processes(&Place::new().workspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_keeps_the_contract_on_many_threads() {
    workspace_suite::run(Place::new().workspace).await;
}
