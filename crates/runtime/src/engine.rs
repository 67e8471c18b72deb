//! The engine: one task per live session does what the kernel owes and records what comes of it.

mod asking;
mod attachments;
mod calls;
mod compaction;
mod context;
mod day;
mod face;
mod foreign;
mod gate;
mod hub;
mod letters;
mod limits;
mod mailbox;
mod opening;
mod options;
mod outbox;
mod policies;
mod purse;
mod replay;
mod rules;
mod session;
mod slash;
mod stored;
mod viewers;
mod weight;

pub use options::Options;
pub use policies::Policies;
