//! The door in front of a runtime that plays what a test wrote.

mod chat;
mod commands;
mod demo;
mod exits;
mod formats;
mod help;
mod permission;
mod stand;
mod stream_input;
