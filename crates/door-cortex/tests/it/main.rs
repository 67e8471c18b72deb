//! The door against a runtime and neurons that run nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the functions that tests share are tests too"
)]

mod approvals;
mod commands;
mod document;
mod events;
mod gate;
mod house;
mod neurons;
mod play;
mod rates;
mod runs;
mod sessions;
mod validation;
