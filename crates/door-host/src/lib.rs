//! The host door: sessions for an application that embeds the program.
//!
//! **What**: [`Door`] serves connections of JSON-RPC: what a host may ask, and what the program
//! asks a host: approvals, answers, tokens, files, terminals.
//! **Knows** `protocol`, `runtime-api`, `native-wire`, `jsonrpc`; the program around it is behind
//! [`Surroundings`].
//! **Never** decides: an ask becomes a question to the host, its answer a command.
#![deny(missing_docs)]

mod activity;
mod agent_side;
mod attend;
mod capabilities;
mod connection;
mod door;
mod error;
mod fields;
mod lender;
mod method;
mod params;
mod replay;
mod schema;
mod stream;
mod surroundings;
mod version;

pub use capabilities::{EndpointKind, ModelEndpoint};
pub use door::{Door, Options};
pub use schema::schema;
pub use surroundings::{
    MintError, Minted, Pushed, Rejected, Surroundings, TokenReason, TokenSource,
};
