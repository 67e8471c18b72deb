//! The program: settings, signals, the way from `main` to a door.
//!
//! **What**: [`run`], and [`Settings`] with where each value comes from.
//! **Knows** `narthex` for the assembly, `door-cli` for what people type, and the HTTP doors that
//! a server puts behind one gate.
//! **Never** decides what a session does: it finds out what people want and hands it on.

mod checks;
mod connections;
mod demo;
mod environment;
mod logging;
mod machine;
mod model_choice;
mod policy;
mod schema;
mod serve;
mod settings;
mod start;

pub use environment::Environment;
pub use settings::{Origin, Settings, Sourced, Want};
pub use start::run;
