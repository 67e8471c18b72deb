//! The door on a runtime that runs nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the functions that tests share are tests too"
)]

mod bad_input;
mod house;
mod interactions;
mod lent;
mod official_client;
mod prompts;
mod sessions;
