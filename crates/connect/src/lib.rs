//! MCP servers of others: their tools, offered to sessions.
//!
//! **What**: [`Pool`] keeps one connection to each configured server, whatever the number of
//! sessions, or one in each neuron for a server that runs there: it starts or reaches it, lists its
//! tools, follows its changes and comes back to it when it is gone. It is a
//! [`driver_api::ToolSource`]. [`settings`] reads what the user configured; [`oauth`] gets and
//! keeps the tokens of servers that want them.
//! **Knows** `driver-api`, `protocol`, `stdx`, and `outbound` for the way out.
//! **Never** starts a process (a [`Launcher`] does), judges a call, repeats one, opens a
//! connection beside `outbound`, or reads a settings file or the environment itself.
#![deny(missing_docs)]

mod catalogue;
mod damping;
mod elicitation;
mod finder;
mod handler;
mod http;
mod in_flight;
mod last_lines;
mod launcher;
mod link;
mod names;
pub mod oauth;
mod outcome;
mod pool;
mod remote_tool;
mod server;
pub mod settings;
mod spill;
mod stdio;
mod trouble;
mod words;

#[cfg(test)]
#[path = "../tests/it/nowhere.rs"]
mod nowhere;

pub use last_lines::LastLines;
pub use launcher::{Child, Launcher};
pub use pool::{Pool, PoolOptions, ServerState, ServerStatus};
pub use server::{Endpoint, HttpServer, OAuthClient, Origin, Scope, Server, StdioServer};
