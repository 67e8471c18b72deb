//! The engine: one task per live session does what the kernel owes and records what comes of it.

mod asking;
mod calls;
mod context;
mod foreign;
mod gate;
mod hub;
mod limits;
mod mailbox;
mod opening;
mod options;
mod outbox;
mod session;
mod stored;
mod viewers;

pub use options::Options;
