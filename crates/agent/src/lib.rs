//! The workspace agent: the process that owns process trees.
//!
//! **What**: a small single-threaded program that starts commands, relays their output, reports
//! their true wait status, and sees to it that nothing of a command outlives it: not after a
//! stop, not after the death of narthex, of the agent, or of one of its minders.
//! **Knows** the operating system and its own frames ([`wire`]). No runtime, no session, no tokio.
//! **Never** decides what may run, and never talks to anybody but the one who started it, or whom
//! the mode of a neuron's socket admits.
//!
//! Three kinds of process stand above a command:
//!
//! ```text
//! narthex ──socket──> agent ──socket──> minder ──spawn──> command ──> whatever it starts
//! ```
//!
//! Each running command has a minder of its own, forked ahead of time; one whose command ended
//! well waits for the next command. A minder is a *subreaper*: whatever descends from the command
//! becomes the minder's child when its parent dies, however it tried to get away, so the minder
//! finds all of it and knows (by `ECHILD`) when all of it is gone. The agent is a subreaper too,
//! and takes the orphans of a minder that died. Where a cgroup can be made, the next agent finds
//! in it what was left when agent and minders died together.
//!
//! The same program makes sandboxes ([`neuron`]), whose first process it then is: there an agent
//! serves each connection, and [`files`] reads and writes for whoever may not look inside.
#![deny(missing_docs)]

mod cgroup;
mod command;
mod crew;
pub mod embed;
mod entry;
pub mod files;
mod handover;
mod inbox;
mod keeper;
mod minder;
pub mod neuron;
mod outbox;
mod program;
#[allow(
    unsafe_code,
    reason = "fork, clone3, posix_spawn, signalfd, namespaces and mounts have no safe wrapper"
)]
mod sys;
mod tree;
pub mod wire;

pub use entry::{OPEN_FILES_VARIABLE, main_with, run, run_as};
