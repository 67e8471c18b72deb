//! A workspace that uses what the client of a session lends: its files and its terminals.
//!
//! **What**: [`over`], a [`driver_api::Workspace`] over another one and a [`driver_api::Lender`].
//! **Knows** `driver-api`, `protocol`.
//! **Never** decides whether a call may run, and never works around a client that says no.
#![deny(missing_docs)]

mod process;
mod tail;
mod workspace;

pub use workspace::over;
