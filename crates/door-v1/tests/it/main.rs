//! The door against a runtime that runs nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the functions that tests share are tests too"
)]

mod answers;
mod bad_input;
mod document;
mod feed;
mod folders;
mod gate;
mod history;
mod house;
mod page;
mod prompts;
mod repeated;
mod sessions;
mod stream;
