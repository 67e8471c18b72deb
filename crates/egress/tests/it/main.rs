//! The door of a neuron against clients that mean harm, servers that break, and names that lie.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod credential;
mod house;
mod limits;
mod logs;
mod places;
mod plain;
mod tunnel;
mod web_socket;
