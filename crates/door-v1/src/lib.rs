//! The v1 door: sessions over HTTP and server-sent events.
//!
//! **What**: the routes under `/v1`, their bodies, the event streams, the OpenAPI document and its
//! page. One table of operations makes both the router and the document.
//! **Knows** `protocol`, `runtime-api`, `http-kit`.
//! **Never** decides: a request becomes a command, an event a frame, a refusal a reply.
#![deny(missing_docs)]

mod docs;
mod door;
mod error;
mod event;
mod feed;
mod folder;
mod idempotency;
mod limited;
mod openapi;
mod operation;
mod place;
mod query;
mod request;
mod routes;
mod seat;
mod stream;
mod wire;

pub use door::{OPEN, Options, router};
pub use error::problem;
pub use openapi::openapi;
