//! The program: settings, signals, the way from `main` to a door.
//!
//! **What**: [`run`], and [`Settings`] with where each value comes from.
//! **Knows** `narthex` for the assembly and `door-cli` for what people type.
//! **Never** decides what a session does: it finds out what people want and hands it on.

mod checks;
mod demo;
mod environment;
mod logging;
mod machine;
mod model_choice;
mod policy;
mod schema;
mod settings;
mod start;

pub use environment::Environment;
pub use settings::{Origin, Settings, Sourced, Want};
pub use start::run;
