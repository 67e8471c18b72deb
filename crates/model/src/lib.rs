//! Model drivers: own thin clients, one module per wire; vendors are settings.
//!
//! **What**: [`build`] makes a [`driver_api::Models`] of provider settings; [`probe_local`] finds
//! model servers on this machine. A wire is two pure halves, `encode` (request to body bytes) and
//! `decode` (stream events to blocks), and `remote` is the one place that talks to a socket.
//! **Knows** `protocol`, `driver-api`, `stdx`.
//! **Never** retries, records or decides; a call is one request.
#![allow(unexpected_cfgs, reason = "cargo-fuzz sets `fuzzing`, which cargo does not know")]

mod anthropic;
mod arguments;
mod base_url;
mod client;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gemini;
mod json;
mod lent;
mod local;
mod names;
mod openai_chat;
mod openai_responses;
mod outgoing;
mod provider;
#[cfg(test)]
mod recorded;
mod remote;
mod scripted;
mod stream;
mod structured;
mod table;
mod wire;

pub use lent::{Endpoint, Mint, Slot, Token, TokenReason};
pub use local::{Found, LocalKind, LocalServer, probe_local};
pub use names::build;
pub use provider::{Error, Options, Provider};
pub use structured::StructuredOutput;
