//! `narthex connections`.

use clap::Subcommand;

/// `narthex connections`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  narthex connections                 the MCP servers of the settings
  narthex connections status          starts or reaches each and tells how it stands
  narthex connections login issues    authorizes this program at the server 'issues'
  narthex connections logout issues

Servers stand in [mcp.servers.NAME] of the settings, in mcp.json of the home folder, and in
.mcp.json of a project that is trusted."
)]
pub struct ConnectionsArgs {
    /// What to do with them; a list where absent.
    #[command(subcommand)]
    pub action: Option<ConnectionsAction>,
}

/// What to do with connections.
#[derive(Debug, Subcommand)]
pub enum ConnectionsAction {
    /// Lists the configured servers; starts and reaches none
    #[command(after_help = "Example:\n  narthex connections list --json")]
    List {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Starts or reaches every server, and tells how many tools it has or what is wrong
    #[command(after_help = "Examples:
  narthex connections status
  narthex connections status --json | jq '.connections[] | select(.state != \"connected\")'

Exit codes: 0 each is connected · 1 at least one is not")]
    Status {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Authorizes this program at a server, in a browser of yours
    #[command(after_help = "Example:\n  narthex connections login issues")]
    Login {
        /// The server's name in the settings
        name: String,
    },
    /// Forgets the tokens of a server
    #[command(after_help = "Example:\n  narthex connections logout issues")]
    Logout {
        /// The server's name in the settings
        name: String,
    },
}
