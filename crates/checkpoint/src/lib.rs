//! Captured trees of local folders, and the way back.
//!
//! **What**: [`Keeper`], one driver of `driver_api::Checkpoints`: manifests over compressed
//! contents, each under its own hash; a stat cache, so that an unchanged tree costs a look at each
//! entry; a restore that touches only what still is as the turn left it.
//! **Knows** `driver-api`, `protocol`, `stdx`.
//! **Never** writes through a link or out of a root, never overwrites what somebody else wrote
//! since unless told to, never looks into or touches what the program itself keeps, never names a
//! tree that is not whole on disk, and never decides when to capture or what to take back.

mod batch;
mod beneath;
mod capture;
mod depot;
mod error;
mod fence;
mod ground;
mod hash;
mod keeper;
mod library;
mod lock;
mod node;
mod objects;
mod options;
mod restore;
mod rules;
mod sessions;
mod stat_cache;
mod sweep;
mod tree;
mod walk;
mod wire;

pub use keeper::Keeper;
pub use options::{Limits, Options};
