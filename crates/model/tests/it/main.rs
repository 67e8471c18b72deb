//! The whole crate against real sockets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod lent;
mod local;
mod provider;
mod quirks;
mod server;
mod structured;
