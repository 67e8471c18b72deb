//! The command line.
//!
//! **What**: the grammar, the output forms, the conversation at a terminal, the exit codes.
//! **Knows** `protocol`, `runtime-api`, `stdx`; the program around it only as [`Machine`].
//! **Never** decides: no policy, no retry, no settings, no storage. It turns a command line into
//! commands, events into lines, refusals into exit codes.
//!
//! Its words (`--max-turns`, `turns`) are the native ones: a *turn* on the outside is a step.

mod args;
mod card;
mod chat;
mod config;
mod console;
mod demo;
mod diff;
mod doctor;
mod door;
mod editor;
mod errands;
mod escape;
mod exit;
mod image;
mod input;
mod line;
mod login;
mod machine;
mod manual;
mod paint;
mod prompt;
mod session;
mod sessions;
mod show;
mod stops;
mod terminal;
mod watch;

pub use args::{
    Cli, Color, Command, ConfigAction, ConfigArgs, ExportFormat, Globals, InputFormat, ListFormat,
    LogLevel, OutputFormat, RunArgs, RunOptions, SchemaName, SessionsAction, SessionsArgs, parse,
};
pub use console::StreamFacts;
pub use door::{Streams, run};
pub use exit::{Exit, Failure};
pub use input::Forget;
pub use machine::{Check, CheckStatus, DemoProject, House, Machine, Need, Setting, SettingsFile};
pub use stops::{STOPS_WAITING, Stop, Stops};
pub use terminal::{forget_typed, terminal_width};
