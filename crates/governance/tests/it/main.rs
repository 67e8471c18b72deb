//! Bundles from outside.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "what fails here fails a test")]

mod bundles;
