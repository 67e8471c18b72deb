//! The door with a runtime that runs nothing, and a host that a test plays.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "the functions that tests share are tests too"
)]

mod asking;
mod handshake;
mod house;
mod lending;
mod sessions;
