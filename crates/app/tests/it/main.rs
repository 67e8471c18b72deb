//! The program's settings; black-box tests of the binary stand beside them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod cortex;
mod crash;
mod gate;
mod policy;
mod processes;
mod program;
mod serve;
mod serving;
mod settings;
mod storage;
mod v1;
mod wires;
