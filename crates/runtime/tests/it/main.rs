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
mod effects;
mod fakes;
mod formats;
mod gate;
mod history;
mod hosted;
mod house;
mod inquiries;
mod interactions;
mod lifecycle;
mod limits;
mod losing;
mod neurons;
mod offered;
mod opened;
mod outage;
mod own_rules;
mod reading;
mod recorded;
mod slash;
mod turns;
mod viewing;
