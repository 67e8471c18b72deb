//! A small door behind the gate and the listener, and clients that speak bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod access;
mod bodies;
mod client;
mod connections;
mod door;
mod gate;
mod streams;
