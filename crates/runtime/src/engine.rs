//! The engine: one task per live session does what the kernel owes and records what comes of it.

mod asking;
mod attachments;
pub(crate) mod calls;
mod compaction;
mod context;
mod day;
mod face;
mod foreign;
pub(crate) mod gate;
mod hub;
mod letters;
pub(crate) mod limits;
mod mailbox;
mod opening;
mod options;
mod outbox;
mod output;
mod own;
mod place;
mod policies;
mod purse;
mod replay;
mod rules;
mod session;
mod slash;
mod stored;
pub(crate) mod toolbox;
mod viewers;
mod weight;

pub use options::Options;
pub use own::Sandboxes;
pub use policies::Policies;
