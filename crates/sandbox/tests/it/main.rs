//! The host workspace with a real agent: this binary itself, executed again.
#![allow(clippy::disallowed_methods, reason = "tests start and end processes of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod deaths;
mod files;
mod neurons;
mod output;
mod place;
mod races;
mod suite;

agent::embed!();
