//! The one vocabulary of Narthex: ids, events, messages, usage, refusals.
//!
//! **What**: the types whose JSON is a public contract (`schema/event.schema.json`).
//! **Knows** `stdx`.
//! **Never** does I/O, reads a clock, or carries a field for the sake of one door.
#![deny(missing_docs)]

mod block;
pub mod event;
mod finding;
mod id;
mod message;
mod mode;
mod refusal;
mod sandbox;
mod time;
mod tool;
mod usage;

pub use block::{Block, Image, Signed, Wire};
pub use event::{Event, EventBody, EventKind};
pub use finding::Finding;
pub use id::{
    CheckpointId, FrameId, Life, MessageId, NeuronId, PromptId, RequestId, Seq, SessionId,
    ToolCallId, TreeId, encode_id,
};
pub use message::{Message, Role};
pub use mode::Mode;
pub use refusal::{Refusal, RefusalCode};
pub use sandbox::{IsolationLevel, NeuronDriver, SessionSandbox, Writes};
pub use time::Timestamp;
pub use tool::{Effect, Risk, Target};
pub use usage::{StopReason, TurnEnd, Usage};
