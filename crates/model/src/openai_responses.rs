//! OpenAI Responses: `POST {base}/responses`.
//!
//! Nothing is kept at the provider (`store: false`); reasoning comes back sealed and goes back as
//! it came.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;
