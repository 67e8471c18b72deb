//! Tools for tests: a scripted model server, a proxy that breaks connections, a memory store,
//! neurons that are folders, contract suites, a virtual clock.
//!
//! **What**: what the tests of several crates share.
//! **Knows** `protocol`, `driver-api`, `runtime-api`.
//! **Never** is part of the product, and never names the engine or a door.

pub mod checkpoint_suite;
pub mod clock;
pub mod fake_handle;
pub mod fake_neurons;
pub mod memory_neurons;
pub mod memory_store;
pub mod model_server;
pub mod net;
pub mod store_suite;
pub mod workspace_suite;
