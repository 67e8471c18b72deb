//! Workspaces: where files lie and commands run.
//!
//! **What**: [`host`], the workspace of a folder of this machine, [`Agent`], the process beside
//! this one that runs its commands and owns their trees (crate `agent`), and [`neurons`], the
//! sandboxes with a life of their own.
//! **Knows** `driver-api`, whose `Workspace` and `Neurons` it implements, and `agent`, for its
//! frames, its work on files and the plans of neurons.
//! **Never** decides what may be read, written or run: that was decided before it is called.
#![deny(missing_docs)]

mod agent;
mod environment;
mod file;
mod host;
mod neuron;

pub use agent::{Agent, AgentOptions};
pub use host::{HostOptions, host};
pub use neuron::{EgressDoor, EgressGate, EgressPlace, NeuronOptions, neurons};
