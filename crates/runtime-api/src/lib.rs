//! The first waist: the handle, everything one may ask of the runtime.
//!
//! **What**: [`Handle`], its commands, positions and streams.
//! **Knows** `protocol`, and of `driver-api` only what a client can lend and lists show.
//! **Never** knows a transport; a door translates.
#![deny(missing_docs)]

mod command;
mod handle;
mod subscription;

pub use command::{
    AgentSettings, Allowance, Budget, CompactionSettings, CreateSession, ExportedSession, GoBack,
    Limits, Pending, PointInfo, Prompt, PromptAccepted, PromptPart, SessionFilter, SessionInfo,
    SlashCommand, Spent, WentBack,
};
// What lists and exports show, so that doors need not name the second waist.
pub use driver_api::{Fault, LogRow, SessionState};
pub use handle::{Error, Handle, Runtime};
pub use subscription::{Delivery, Overflow, Position, Subscription};
