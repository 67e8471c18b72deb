//! store_suite
