//! Anthropic Messages: `POST /v1/messages`.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;

/// The version of the wire that both halves are written for.
pub(crate) const VERSION: &str = "2023-06-01";
