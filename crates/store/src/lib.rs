//! The session log: one driver, SQLite today.
//!
//! **What**: [`sqlite::open`] gives a [`driver_api::Store`] over one database file, a folder of
//! large bodies and a folder of lock files.
//! **Knows** `stdx`, `protocol`, `driver-api`.
//! **Never** decides, never looks into a body, never answers before the rows are durable.

mod blob;
mod kind;
mod options;
mod ownership;
mod row;
pub mod sqlite;

pub use options::Options;
