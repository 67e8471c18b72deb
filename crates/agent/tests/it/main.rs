//! The agent as its own program, driven over a socket.
#![allow(clippy::disallowed_methods, reason = "tests start the program under test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod client;
mod cost;
mod launch;
mod neuron;
mod output;
mod reuse;
mod status;
mod trees;
