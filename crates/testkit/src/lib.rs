//! Tools for tests: a scripted model server, a memory store, contract suites, a virtual clock.
//!
//! **What**: what the tests of several crates share. Never part of the product.
//! **Knows** `protocol`, `driver-api`, `runtime-api`.

pub mod clock;
pub mod fake_handle;
pub mod memory_store;
pub mod model_server;
pub mod store_suite;
pub mod workspace_suite;
