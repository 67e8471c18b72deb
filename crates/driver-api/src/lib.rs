//! The second waist: the small traits that a driver implements.
//!
//! **What**: [`Store`], [`Workspace`], [`Model`], [`Tool`], [`Clock`], each with a contract per
//! method.
//! **Knows** `protocol`, `stdx`.
//! **Never** decides: a driver sees no session state and no policy.
#![deny(missing_docs)]

mod checkpoint;
mod checks;
mod clock;
mod fault;
mod hooks;
mod lent;
mod model;
mod neuron;
mod observer;
mod rule_book;
mod store;
mod tool;
mod tool_source;
mod workspace;

pub use checkpoint::{
    Captured, ChangeKind, ChangeSet, CheckpointError, Checkpoints, Kept, PathChange, Restore,
    Restored,
};
pub use checks::{Checks, PendingChange};
pub use clock::{Clock, Ids, SystemClock, SystemIds};
pub use fault::Fault;
pub use hooks::{Happening, HookAnswer, HookPlace, HookVote, HookedCall, Hooks, Moment, NoHooks};
pub use lent::{LendError, Lender, Lends, LentCommand, LentOutput, LentTerminal};
pub use model::{
    Delta, Effort, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse,
    Models, Price, ToolSpec,
};
pub use neuron::{
    BringOver, BroughtOver, BroughtPath, Egress, EgressAudit, EgressCredential, EgressEvent,
    EgressRule, Held, Isolation, IsolationLevel, NeuronDriver, NeuronError, NeuronInfo,
    NeuronLimits, NeuronSpec, NeuronState, Neurons, OverlayChange, OverlayEntry, Writes,
};
pub use observer::Observer;
pub use rule_book::RuleBook;
pub use store::{
    Appended, LETTER_BYTES_MAX, LETTER_ID_BYTES_MAX, LETTERS_MAX, Lease, Letter, ListFilter,
    LogRow, NewSession, Owner, SessionHead, SessionRow, SessionState, Snapshot, Store, StoreError,
};
pub use tool::{
    Access, Asks, CallFacts, PathFact, ProcessScope, Progress, Tool, ToolContext, ToolError,
    ToolHost, ToolOutcome,
};
pub use tool_source::{Place, ToolSource};
pub use workspace::{
    Contents, EntryKind, Exit, ExitStatus, FileStat, Located, Output, Process, Spawn, Workspace,
    WorkspaceError, Workspaces,
};
