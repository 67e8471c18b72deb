//! The SDK as programs use it: against scripted model servers and scripted HTTP servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what fails here fails a test"
)]

mod callbacks;
#[cfg(feature = "client")]
mod client_requests;
#[cfg(feature = "client")]
mod client_run;
#[cfg(feature = "client")]
mod client_stream;
mod closing;
#[cfg(all(feature = "client", feature = "server"))]
mod examples;
mod governed;
mod programs;
mod prompts;
#[cfg(feature = "client")]
mod scripted_http;
#[cfg(all(feature = "client", feature = "server"))]
mod served;
mod stand;

agent::embed!();
