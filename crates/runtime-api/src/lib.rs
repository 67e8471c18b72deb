//! The first waist: the handle, everything one may ask of the runtime.
//!
//! **What**: [`Handle`], its commands, positions and streams.
//! **Knows** `protocol`, and of `driver-api` only what a client can lend and lists show.
//! **Never** knows a transport; a door translates.
#![deny(missing_docs)]

mod command;
mod handle;
pub mod neuron;
mod ring;
mod shown;
mod subscription;

pub use command::{
    AgentSettings, Allowance, Budget, CompactionSettings, CreateSession, ExportedSession,
    ForkPoint, GoBack, Interrupt, Limits, MessagesAfter, MessagesPage, ModelListing, Pending,
    PointInfo, PolicyTag, Prompt, PromptAccepted, PromptPart, SessionFilter, SessionInfo,
    SessionUsage, SharedLender, SharedTools, SlashCommand, Spent, TakeUp, WentBack,
};
// What lists and exports show, so that doors need not name the second waist.
pub use driver_api::{Fault, LogRow, SessionState};
// What the client of a door lends.
pub use driver_api::ExitStatus;
pub use driver_api::{LendError, Lender, Lends, LentCommand, LentOutput, LentTerminal};
pub use handle::{Error, Handle, Runtime};
pub use neuron::NeuronHandle;
pub use ring::{Ring, RingReader};
pub use shown::{Language, Shown};
pub use subscription::{Delivery, Log, LogPage, Overflow, Position, Start, Subscription};
