//! Hooks and checks as real scripts, over the host workspace with a real agent: this binary
//! itself, executed again.
#![allow(clippy::disallowed_methods, reason = "tests look at processes of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod checks;
mod endings;
mod place;
mod sites;
mod told;
mod votes;

agent::embed!();
