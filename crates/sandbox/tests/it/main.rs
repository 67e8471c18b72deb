//! The host workspace with a real agent: this binary itself, executed again.
#![allow(clippy::disallowed_methods, reason = "tests start and end processes of their own")]

mod deaths;
mod files;
mod output;
mod place;
mod races;
mod suite;

agent::embed!();
