//! The engine against a memory store, a scripted model and a virtual clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the functions that tests share are tests too"
)]

mod closing;
mod compaction;
mod crash;
mod fakes;
mod gate;
mod history;
mod house;
mod interactions;
mod lifecycle;
mod limits;
mod losing;
mod opened;
mod outage;
mod own_rules;
mod reading;
mod slash;
mod turns;
mod viewing;
