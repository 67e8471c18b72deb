//! `narthex usage`.

use clap::ValueEnum;

/// `narthex usage`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex usage
  narthex usage --since 30d --by model
  narthex usage --since 2027-01-01 --json | jq .total.costUsd

Days are those of UTC. A cost that is not known is shown as ?, and the total is then the least
that it can be.")]
pub struct UsageArgs {
    /// From when on: today, 7d, 30d (any number of days), or a date such as 2027-01-31
    #[arg(long, value_name = "WHEN", default_value = "7d")]
    pub since: String,
    /// What is added up
    #[arg(long, value_name = "WHAT", default_value = "day")]
    pub by: UsageBy,
    /// Prints one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What usage is added up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UsageBy {
    /// By day.
    #[default]
    Day,
    /// By model.
    Model,
    /// By session.
    Session,
    /// By working folder.
    Folder,
}
