//! What an organisation says about a machine, as layers of its policy.
//!
//! **What**: [`Managed`] settings, the signed bundles of [`bundle`], and the keys that sign them.
//! **Knows** `policy`, whose layers they become, and `protocol`.
//! **Never** does I/O, waits or reads a clock: time and randomness come as arguments. Nothing of
//! a bundle is believed before its signature was checked.
#![deny(missing_docs)]

pub mod bundle;
mod canonical;
mod key;
mod managed;

pub use key::{KeyError, PrivateKey, PublicKey};
pub use managed::{Embed, Managed, RemotePolicy};
