//! Requests, by what they are about: rows of the table, bodies and handlers.

pub(crate) mod back;
pub(crate) mod health;
pub(crate) mod interaction;
pub(crate) mod listing;
pub(crate) mod prompt;
pub(crate) mod session;
pub(crate) mod setting;
pub(crate) mod transcript;

/// Bytes of a body that is no prompt: rules, instructions and answers fit many times over.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
