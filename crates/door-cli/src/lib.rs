//! The command line.
//!
//! **What**: the grammar, the output forms, the conversation at a terminal, the exit codes.
//! **Knows** `protocol`, `runtime-api`, `stdx`; the program around it only as [`Machine`].
//! **Never** decides: no policy, no retry, no settings, no storage. It turns a command line into
//! commands, events into lines, refusals into exit codes.
//!
//! Its words (`--max-turns`, `turns`) are the native ones: a *turn* on the outside is a step.

mod acp;
mod approvals;
mod args;
mod back;
mod chat;
mod config;
mod connections;
mod demo;
mod doctor;
mod door;
mod host;
mod login;
mod machine;
mod manual;
mod policy;
mod prompt;
mod serve;
mod session;
mod sessions;
mod token;
mod trust;
mod usage;

pub use args::{
    AcpArgs, ApplyArgs, ApprovalsAction, ApprovalsArgs, BackOptions, Cli, Color, Command,
    ConfigAction, ConfigArgs, ConnectionsAction, ConnectionsArgs, CortexArgs, Decide, ExportFormat,
    FurtherDoor, Globals, HostArgs, InputFormat, ListFormat, LogLevel, OutputFormat, PersistLevel,
    PolicyAction, PolicyArgs, RewindArgs, RunArgs, RunOptions, SandboxDriver, SchemaName,
    ServeArgs, SessionsAction, SessionsArgs, TokenAction, TokenArgs, UndoArgs, UsageArgs, UsageBy,
    Verdict, parse,
};
pub use door::{Streams, run};
pub use machine::{
    Check, CheckStatus, ConnectionInfo, ConnectionMachine, CortexFacts, DemoProject, ExplainedCall,
    ExplainedPart, ExplainedRule, House, Machine, Need, NewKey, NewToken, PolicyInForce,
    PolicyLayer, PolicyMachine, PolicyWord, RunningServer, Server, ServerFacts, ServerMachine,
    Setting, SettingsFile, SignedBundle, TokenInfo, TokenOrigin, UntrustedFile, UntrustedProject,
    VerifiedBundle,
};
pub use terminal::tty::{forget_typed, terminal_width};
pub use terminal::{Exit, Failure, Forget, STOPS_WAITING, Stop, Stops, StreamFacts};
