//! Model drivers: own thin clients, one module per wire; vendors are settings.
//!
//! **What**: [`build`] makes a [`driver_api::Models`] of provider settings.
//! **Knows** `protocol`, `driver-api`, `stdx`.
//! **Never** retries, records or decides; a call is one request.

mod provider;

pub use provider::{Options, Provider};
