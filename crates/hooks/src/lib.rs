//! Hooks and checks: commands of the user's that are told of moments and may say no.
//!
//! **What**: [`CommandHooks`] and [`CommandChecks`], which run commands through the session's
//! workspace and turn what they answer into votes, findings and words; [`HookSet`], the form in
//! which settings name hooks.
//! **Knows** `driver-api`, whose traits it implements, `protocol`, `stdx`.
//! **Never** starts a process itself, never decides whether a call runs, and never takes a hook
//! that failed for one that agreed.
#![deny(missing_docs)]

mod answer;
mod back;
mod checks;
mod command_hooks;
mod layer;
mod matcher;
mod names;
mod nearest;
mod payload;
mod runner;
mod settings;
mod site;
mod tally;

pub use answer::check_form;
pub use checks::CommandChecks;
pub use command_hooks::CommandHooks;
pub use layer::{HookLayer, Origin};
pub use settings::{FILE_BYTES_MAX, HookCommand, HookGroup, HookKind, HookSet, HookSetError};
