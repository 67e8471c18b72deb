//! The Rust SDK: the assembly of drivers, policy and runtime.
//!
//! **What**: [`build`] makes a running [`Narthex`] of [`Options`].
//! **Knows** every crate of the lower floors.
//! **Never** reads settings files or the environment: that is `app`'s.

mod all_checks;
mod assemble;
mod folders;
mod options;
mod workspaces;

pub use assemble::{Error, Narthex, build};
pub use hooks::{CommandChecks, CommandHooks, HookLayer, HookSet, Origin as HookOrigin};
pub use model::{Found, LocalKind, LocalServer, Provider, probe_local};
pub use options::Options;
pub use policy::{Layer, LayerName, Policy, Rule};
pub use protocol::Wire;
pub use runtime_api::Handle;
