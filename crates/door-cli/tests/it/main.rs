//! The door in front of a runtime that plays what a test wrote.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "what fails here fails a test")]

mod apply;
mod approvals;
mod back;
mod chat;
mod commands;
mod connections;
mod demo;
mod exits;
mod formats;
mod help;
mod host;
mod permission;
mod policy;
mod questions;
mod serve;
mod stand;
mod stream_input;
mod trust;
mod usage;
