//! `narthex sessions`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// `narthex sessions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex sessions list
  narthex sessions export 01kc3v9yq8 --format md > talk.md")]
pub struct SessionsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub action: SessionsAction,
}

/// What to do with stored sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsAction {
    /// Lists the sessions of this folder, newest first
    #[command(after_help = "Examples:
  narthex sessions list --all
  narthex sessions list --output-format json | jq -r '.sessions[].id'")]
    List {
        /// Lists those of every folder
        #[arg(long)]
        all: bool,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// The form of the output
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        output_format: ListFormat,
    },
    /// Shows a session: its facts and what was said
    #[command(after_help = "Example:\n  narthex sessions show 01kc3v9yq8")]
    Show {
        /// The session, or the beginning of its id
        id: String,
        /// The form of the output
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        output_format: ListFormat,
    },
    /// Writes a session to standard output
    #[command(after_help = "Examples:
  narthex sessions export 01kc3v9yq8 > session.jsonl
  narthex sessions export 01kc3v9yq8 --format md > talk.md")]
    Export {
        /// The session, or the beginning of its id
        id: String,
        /// jsonl and json hold everything and can be imported; md is for reading
        #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
        format: ExportFormat,
    },
    /// Stores an exported session under a new id
    #[command(after_help = "Example:\n  narthex sessions import session.jsonl")]
    Import {
        /// The exported file (jsonl or json); `-` reads standard input
        file: PathBuf,
        /// The form of the output
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        output_format: ListFormat,
    },
    /// Copies a session under a new id
    #[command(after_help = "Examples:
  narthex sessions fork 01kc3v9yq8
  narthex sessions fork 01kc3v9yq8 --at 01kc3v9zzz   as it was before that prompt
  narthex sessions fork 01kc3v9yq8 --until 12

narthex rewind --list shows the points, narthex sessions show the numbers of events.")]
    Fork {
        /// The session, or the beginning of its id
        id: String,
        /// The last event to copy
        #[arg(long, value_name = "SEQ")]
        until: Option<u64>,
        /// The point before which the copy ends: its number in narthex rewind --list, its id, or
        /// the end or beginning of its id
        #[arg(long, value_name = "POINT", conflicts_with = "until")]
        at: Option<String>,
        /// The form of the output
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        output_format: ListFormat,
    },
    /// Brings what a session changed in its sandbox over to the folder, after showing it
    Apply(ApplyArgs),
    /// Erases sessions
    #[command(after_help = "Example:\n  narthex sessions rm 01kc3v9yq8f2m0x4c7b1n5tzwe")]
    Rm {
        /// The sessions; whole ids, since nothing brings them back
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// `narthex sessions apply`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex sessions apply                        shows what waits and asks
  narthex sessions apply 01kc3v9yq8 --dry-run   shows it alone
  narthex sessions apply 01kc3v9yq8 --yes --json
  narthex sessions apply 01kc3v9yq8 --discard   throws it away

It is for sessions of --sandbox namespace with [neurons] writes = \"overlay\". What changed in the
folder meanwhile is kept there and named, and so is what tools outside execute by themselves, for
example .git/hooks; both wait on in the sandbox. --force brings them over as well.

Exit codes: 0 all of it was done, or nothing waits · 1 something was kept back
  3 nobody could be asked: add --yes")]
pub struct ApplyArgs {
    /// The session, or the beginning of its id; the newest of this folder with changes that wait
    /// where absent
    pub id: Option<String>,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
    /// Brings over what was changed in the folder meanwhile, too
    #[arg(long)]
    pub force: bool,
    /// Shows what would be done, and does nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Throws away what waits instead
    #[arg(long, conflicts_with = "force")]
    pub discard: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A header line, then one line per event.
    #[default]
    Jsonl,
    /// One JSON object with all of it.
    Json,
    /// What was said, in Markdown.
    Md,
}
