//! The program's settings; black-box tests of the binary stand beside them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod acp;
mod cortex;
mod cortex_examples;
mod crash;
mod gate;
mod host;
mod install;
mod login;
mod mcp;
mod policy;
mod processes;
mod program;
mod sandbox;
mod serve;
mod serving;
mod settings;
mod storage;
mod v1;
mod wires;
