//! The second waist: the small traits that a driver implements.
//!
//! **What**: [`Store`], [`Workspace`], [`Model`], [`Tool`], [`Clock`], each with a contract per
//! method.
//! **Knows** `protocol`, `stdx`.
//! **Never** decides: a driver sees no session state and no policy.
#![deny(missing_docs)]

mod clock;
mod fault;
mod model;
mod store;
mod tool;
mod workspace;

pub use clock::{Clock, Ids, SystemClock, SystemIds};
pub use fault::Fault;
pub use model::{
    Delta, Effort, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse,
    Models, Price, ToolSpec,
};
pub use store::{
    Appended, Lease, ListFilter, LogRow, NewSession, Owner, SessionHead, SessionRow, SessionState,
    Snapshot, Store, StoreError,
};
pub use tool::{
    Access, CallFacts, PathFact, Progress, Tool, ToolContext, ToolError, ToolHost, ToolOutcome,
};
pub use workspace::{
    Contents, EntryKind, Exit, ExitStatus, FileStat, Located, Output, Process, Spawn, Workspace,
    WorkspaceError, Workspaces,
};
