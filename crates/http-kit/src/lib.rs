//! What HTTP doors share.
//!
//! **What**: [`serve`] is the listener with its limits; [`gated`] is what every request passes
//! (request id, `Host`, bearer, `Origin`, the access log, panics); [`Json`] takes bodies;
//! [`sse`] writes event streams; a [`Problem`] is a refusal that the door words itself. A door
//! with an order of its own stands behind a [`lobby`] instead and has a [`FixedWindow`].
//! **Knows** `stdx`; no protocol of any door.
//! **Never** knows a session, a route or an error body of a door: those are given to it.
#![deny(missing_docs)]

mod access;
mod body;
mod connection;
mod cors;
mod gate;
mod host;
mod json;
mod lobby;
mod peer;
mod problem;
mod request_id;
mod serve;
pub mod sse;
mod token;
mod window;
mod wire;

pub use gate::{GateOptions, gated};
pub use host::{is_loopback_host, is_loopback_origin};
pub use json::Json;
pub use lobby::{LobbyOptions, lobby};
pub use peer::{Network, Peer, TrustedProxies, client_bucket};
pub use problem::{Problem, Render, problem_details};
pub use request_id::RequestId;
pub use serve::{ServerOptions, serve};
pub use token::{Admitted, Caller, OneToken, Tokens};
pub use window::{Counted, FixedWindow};
