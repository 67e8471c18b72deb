//! The guarded client against servers, resolvers and redirects that mean harm.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod guarded;
mod limits;
mod net;
mod proxy;
mod servers;
