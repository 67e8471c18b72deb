//! The agent as its own program, driven over a socket.
#![allow(clippy::disallowed_methods, reason = "tests start the program under test")]

mod client;
mod cost;
mod launch;
mod output;
mod status;
mod trees;
