//! The cortex door: neurons, sessions and runs over HTTP and server-sent events.
//!
//! **What**: the routes under `/api/v1/cortex`, their bodies, limits and streams; the numbering of
//! a session's frames, which is a pure fold of its log.
//! **Knows** `protocol`, `runtime-api`, `http-kit`.
//! **Never** decides: a request becomes a command, an event some frames, a refusal a reply.
#![deny(missing_docs)]

mod busy;
mod door;
mod error;
mod expiry;
mod fields;
mod follower;
mod frame;
mod gate;
mod place;
mod preset;
mod projection;
mod query;
mod record;
mod request;
mod run;
mod tree;
mod viewer;
mod wire;

pub use door::{BASE, Options, RateLimits, agent, router};
pub use preset::Preset;
pub use record::PlaceBook;
