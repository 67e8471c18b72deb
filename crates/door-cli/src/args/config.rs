//! `narthex config`.

use std::path::PathBuf;

use clap::Subcommand;

use super::ListFormat;

/// `narthex config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex config show
  narthex config set model anthropic/claude-sonnet-4-6")]
pub struct ConfigArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Shows every setting and where its value comes from
    #[command(after_help = "Example:\n  narthex config show --output-format json")]
    Show {
        /// The form of the output
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        output_format: ListFormat,
    },
    /// Sets a value in the user's settings file; comments and order are kept
    #[command(after_help = "Examples:
  narthex config set mode auto-edit
  narthex config set permissions.allow '[\"run_shell(cargo test *)\"]'")]
    Set {
        /// The key, with dots between tables
        key: String,
        /// The value
        value: String,
    },
    /// Shows which files are read
    #[command(after_help = "Example:\n  narthex config path")]
    Path,
    /// Trusts a project's settings file as it is now
    #[command(after_help = "Examples:\n  narthex config trust\n  narthex config trust ~/src/app")]
    Trust {
        /// The project's folder; this one where absent
        path: Option<PathBuf>,
    },
}
