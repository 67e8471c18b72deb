//! Small things that have no better home.
//!
//! **What**: a secret that cannot be printed, the macro that makes id types, human sizes.
//! **Knows** nobody.
//! **Never** does I/O, never grows into a drawer: whatever has a better home goes there.

mod human;
mod id;
mod secret;

pub use human::{bytes, duration, plural};
pub use secret::Secret;
