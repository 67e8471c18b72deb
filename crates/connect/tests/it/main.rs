//! The pool against servers of our own: scripted ones over streams in memory, real programs, and
//! HTTP on this machine with an authorization server.
#![allow(clippy::disallowed_methods, reason = "tests start processes and tasks of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod calls;
mod deferral;
mod elicitation;
mod house;
mod http;
mod http_server;
mod neurons;
mod nowhere;
mod oauth;
mod programs;
mod reconnect;
mod script;
