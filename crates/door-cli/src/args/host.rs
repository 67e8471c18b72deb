//! `narthex host`.

use std::path::PathBuf;

/// The most sessions that one agent may be told to keep open.
const SESSIONS_MAX: i64 = 10_000;

/// The most events of a session that an agent may be told to replay: a day's work of one.
const EVENTS_MAX: i64 = 1_000_000;

/// `narthex host`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    group = clap::ArgGroup::new("token").args(["token_file", "token_fd"]),
    after_help = "Examples:
  narthex host                                      over standard input and output
  narthex host --socket run/agent.sock --token-file run/token
  narthex host --grace 30000 --max-sessions 8",
    after_long_help = "Examples:
  narthex host                                      over standard input and output
  narthex host --socket run/agent.sock --token-file run/token
  narthex host --grace 30000 --max-sessions 8

An application that embeds Narthex starts it so, or connects to its socket: JSON-RPC 2.0, one
message per line. The application sees every action, decides approvals, supplies models, and may
push its organisation's policy; docs/doors/host.md and schema/host-protocol.schema.json tell how.

Standard output carries the protocol and nothing else; the log goes to standard error. Without a
socket it ends with standard input: turns that run may finish within --grace. An unanswered
approval counts as a no after five minutes, or after --permission-timeout.

Exit codes: 0 the host is gone or asked for the end, or SIGINT, SIGTERM, SIGHUP · 1 it failed, or
did not stop in time · 2 it could not start · 130 stopped at once by a second signal"
)]
pub struct HostArgs {
    /// Speaks over standard input and output; so it does without --socket
    #[arg(long, conflicts_with = "socket")]
    pub stdio: bool,
    /// Listens at this Unix socket, in a folder that is yours and that no one else may write to
    #[arg(long, value_name = "PATH", requires = "token")]
    pub socket: Option<PathBuf>,
    /// The file with the token of the socket: yours, with mode 0600
    #[arg(long, value_name = "FILE", requires = "socket")]
    pub token_file: Option<PathBuf>,
    /// The open descriptor from which the token of the socket is read
    #[arg(long, value_name = "N", requires = "socket",
          value_parser = clap::value_parser!(u32).range(3..=65_535))]
    pub token_fd: Option<u32>,
    /// How long running turns may go on after the host has gone, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub grace: u32,
    /// How many sessions may be open at once
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=SESSIONS_MAX))]
    pub max_sessions: u32,
    /// How many events of a session are replayed at most
    #[arg(long, value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=EVENTS_MAX))]
    pub event_buffer: u32,
}
