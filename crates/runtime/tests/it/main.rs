//! The engine against a memory store, a scripted model and a virtual clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the functions that tests share are tests too"
)]

mod crash;
mod house;
mod lifecycle;
mod outage;
mod turns;
