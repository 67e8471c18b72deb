//! The ACP door: editors hold sessions over the standard streams of the program.
//!
//! **What**: [`serve`], which speaks the Agent Client Protocol, version 1, with one client until it
//! is gone.
//! **Knows** `runtime-api`, `protocol`, and the types of the protocol from its official schema
//! crate. The loop is our own: the official one queues without a limit in both directions, takes
//! lines of any length, and sends a broken line back whole.
//! **Never** decides: a request becomes a command, an event an update, a refusal an error. What the
//! client answered for good is repeated for it, nothing else.
#![deny(missing_docs)]

mod access;
mod call;
mod choice;
mod connection;
mod door;
mod error;
mod interaction;
mod lent;
mod line;
mod live;
mod method;
mod outlet;
mod projection;
mod prompt;
mod replay;
mod servers;
mod standing;
mod unified;

pub use access::{Access, Bringing, Brought, Login, Reach};
pub use door::{Options, serve};
