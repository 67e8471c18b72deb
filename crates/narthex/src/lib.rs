//! The Rust SDK: agents in this process, and clients of servers.
//!
//! **What**: [`Agent`] is a session of this process; [`Client`] drives sessions of a server;
//! [`Server`] serves a runtime of this process; [`build`] is the assembly below, for other doors.
//! **Knows** every crate of the lower floors.
//! **Never** reads settings files but those that govern the machine ([`governed`]), nor more of
//! the environment than their names, `PATH` for programs, and what [`AgentBuilder::from_env`]
//! asks for.
//!
//! # A prompt
//!
//! An [`AgentBuilder`] says where the agent works, with which model, and who decides on calls that
//! need approval. Without [`AgentBuilder::on_permission`] they are denied. Commands are run by a
//! workspace agent, a small process beside this one; [`agent_main`] lets a program be its own.
#![doc = concat!("```ignore\n", include_str!("../examples/prompt.rs"), "```")]
//! # A stream
//!
//! [`Agent::stream`] gives the events as they come. Leaving early interrupts the prompt.
#![doc = concat!("```ignore\n", include_str!("../examples/stream.rs"), "```")]
//! # A server
//!
//! [`Client`] speaks with `narthex serve`. [`client::RemoteSession::run`] survives broken
//! connections, and so does the stream of [`client::RemoteSession::events`].
#![doc = concat!("```ignore\n", include_str!("../examples/remote.rs"), "```")]
//! Both halves are features, `client` and `server`, and on by default.
#![deny(missing_docs)]

mod agent;
mod all_checks;
mod assemble;
mod callbacks;
#[cfg(feature = "client")]
pub mod client;
mod error;
mod folders;
pub mod governed;
mod known;
mod neurons;
mod options;
mod programs;
mod run_result;
#[cfg(feature = "server")]
mod server;
mod servers;
mod way_out;
mod workspaces;

pub use agent::{Agent, AgentBuilder, EventStream, agent_main};
pub use assemble::{Error as BuildError, Narthex, build};
pub use callbacks::{Callbacks, Decision, PlanDecision, Reply};
#[cfg(feature = "client")]
pub use client::Client;
pub use connect::{Pool, ServerState, ServerStatus};
pub use egress::{EgressError, check as check_egress};
pub use error::Error;
pub use hooks::{CommandChecks, CommandHooks, HookLayer, HookSet, Origin as HookOrigin};
pub use known::{KNOWN_SERVERS, KnownServer};
pub use model::{Found, LocalKind, LocalServer, Provider, StructuredOutput, probe_local};
pub use options::{McpOptions, NeuronOptions, Options};
pub use policy::{Layer, LayerName, Policy, Rule};
pub use protocol::{self, Wire};
pub use run_result::RunResult;
pub use runtime::Policies;
pub use runtime_api::{self, Handle};
#[cfg(feature = "server")]
pub use server::{Server, ServerOptions};
pub use servers::connections;
pub use stdx::Secret;
