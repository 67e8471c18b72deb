//! The workspace over a client that a test plays, and a disk in memory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "the functions that tests share are tests too"
)]

mod files;
mod stand;
mod terminals;
