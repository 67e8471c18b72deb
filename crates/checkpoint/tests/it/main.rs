//! The keeper against real folders, a real shell, and a real death.
#![allow(clippy::disallowed_methods, reason = "tests start and end processes of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod deaths;
mod hostile;
mod keeping;
mod left_out;
mod own_data;
mod random;
mod shell;

use checkpoint::{Keeper, Limits, Options};

#[tokio::test]
async fn the_keeper_keeps_the_contract() {
    let (keeper, _home) = keeper(Limits::default());
    testkit::checkpoint_suite::run(&keeper).await;
}

/// A keeper with a folder of its own.
fn keeper(limits: Limits) -> (Keeper, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let options = Options { limits, ..Options::new(home.path().join("kept")) };
    (Keeper::open(options), home)
}
