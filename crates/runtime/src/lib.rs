//! The runtime: sessions that live, from a log to a log.
//!
//! **What**: [`Options::start`] makes a [`runtime_api::Handle`]. `kernel` is pure: a session is a
//! fold. `engine` owns live sessions, runs their effects and hands the outcomes back.
//! **Knows** `protocol`, `policy`, the two waists.
//! **Never** knows a transport, a database, a provider or a process.

mod engine;
mod kernel;
mod neurons;

pub use engine::{Options, Policies, Sandboxes};
pub use neurons::{NeuronDefaults, NeuronOptions, neuron_runtime};
