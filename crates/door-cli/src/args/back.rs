//! `narthex undo` and `narthex rewind`.

use protocol::event::RewindScope;

/// `narthex undo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex undo --dry-run
  narthex undo --session 01kc3v9yq8

What commands of a turn did to files is undone as well as edits. A file that holds something else
than the turn left is kept as it is and named. Undoing twice takes back the turn before.")]
pub struct UndoArgs {
    /// Of this session, or the one whose id begins so; the newest of this folder where absent
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// How.
    #[command(flatten)]
    pub how: BackOptions,
}

/// `narthex rewind`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex rewind                        choose from a list, at a terminal
  narthex rewind --list
  narthex rewind 3 --dry-run            the third of the list, the newest being the first
  narthex rewind 01kc3v9yq8 --conversation

A point is a prompt: going back to it brings back what was before it. Without a point, a terminal
asks which, shows what would change, and asks whether to do it; with one, it is done at once.")]
pub struct RewindArgs {
    /// The point to go back to: its number in the list, its id, or the end or beginning of its id
    #[arg(conflicts_with = "list")]
    pub point: Option<String>,
    /// Lists the points
    #[arg(long)]
    pub list: bool,
    /// Brings back the files alone
    #[arg(long, group = "scope")]
    pub files: bool,
    /// Goes back in the conversation alone
    #[arg(long, group = "scope")]
    pub conversation: bool,
    /// Both; so it is where nothing is said
    #[arg(long, group = "scope")]
    pub both: bool,
    /// Of this session, or the one whose id begins so; the newest of this folder where absent
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// How.
    #[command(flatten)]
    pub how: BackOptions,
}

impl RewindArgs {
    /// Returns what to go back in, where it is said.
    pub(crate) fn scope(&self) -> Option<RewindScope> {
        match (self.files, self.conversation, self.both) {
            (true, ..) => Some(RewindScope::Files),
            (_, true, _) => Some(RewindScope::Conversation),
            (_, _, true) => Some(RewindScope::Both),
            (false, false, false) => None,
        }
    }
}

/// How to go back.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BackOptions {
    /// Says what would happen and changes nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Brings back as well what was changed since
    #[arg(long)]
    pub force: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub json: bool,
}
