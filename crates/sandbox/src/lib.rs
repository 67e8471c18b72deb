//! Workspaces: where files lie and commands run.
//!
//! **What**: [`host`], the workspace of a folder of this machine, and [`Agent`], the process
//! beside this one that runs its commands and owns their trees (crate `agent`).
//! **Knows** `driver-api`, whose `Workspace` it implements, and `agent`, for its frames.
//! **Never** decides what may be read, written or run: that was decided before it is called.
#![deny(missing_docs)]

mod agent;
mod environment;
mod host;

pub use agent::{Agent, AgentOptions};
pub use host::{HostOptions, host};
