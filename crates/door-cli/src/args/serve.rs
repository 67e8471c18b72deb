//! `narthex serve`.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::ArgAction;
use stdx::Secret;

use super::FurtherDoor;

/// The most sessions that one server may be told to keep open.
const SESSIONS_MAX: i64 = 10_000;

/// `narthex serve`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:
  narthex serve                                    this folder, at http://127.0.0.1:7420
  narthex serve --port 0 --root ~/src --root ~/doc any free port, two folders
  narthex serve --json-ready --exit-on-stdin-close for a program that starts it
  narthex serve --with cortex                      neurons as well, below /api/v1/cortex
  curl -H \"Authorization: Bearer $(narthex token)\" http://127.0.0.1:7420/v1/sessions",
    after_long_help = "Examples:
  narthex serve                                    this folder, at http://127.0.0.1:7420
  narthex serve --port 0 --root ~/src --root ~/doc any free port, two folders
  narthex serve --json-ready --exit-on-stdin-close for a program that starts it
  narthex serve --with cortex                      neurons as well, below /api/v1/cortex
  curl -H \"Authorization: Bearer $(narthex token)\" http://127.0.0.1:7420/v1/sessions

The global flags (--mode, --model, --allow, --deny, …) hold for every session. An unanswered
request counts as a no after five minutes, or after --permission-timeout.

Every request needs the bearer token: the server makes one at each start, writes it to server.json
in the home folder (mode 0600) and shows it here. NARTHEX_SERVER_TOKEN gives one of your own.
--no-announce leaves the file to another server of this home folder.

Exit codes: 0 stopped by SIGINT, SIGTERM, SIGHUP or the end of standard input · 1 it failed, or did
not stop in time · 2 it could not start · 130 stopped at once by a second signal"
)]
pub struct ServeArgs {
    /// The port; 0 takes any that is free [default: 7420]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The address to listen on; a name must be one of this machine's own [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<String>,
    /// A folder in which sessions may work, the first is the usual one [default: this folder]
    #[arg(long, value_name = "DIR", action = ArgAction::Append)]
    pub root: Vec<PathBuf>,
    /// Lets --host name an address that other machines reach; needs a token of your own as well
    #[arg(long)]
    pub allow_remote: bool,
    /// The token; other users of this machine can read it from the list of processes, so rather
    /// set `NARTHEX_SERVER_TOKEN`
    #[arg(long, value_name = "TOKEN", value_parser = parse_secret)]
    pub token: Option<Secret<String>>,
    /// Prints one JSON object as the first line, once requests are answered
    #[arg(long)]
    pub json_ready: bool,
    /// Stops when standard input ends: with the program that started it
    #[arg(long)]
    pub exit_on_stdin_close: bool,
    /// Does not write server.json: for a server that only its launcher uses
    #[arg(long)]
    pub no_announce: bool,
    /// How many sessions may be open at once [default: 64]
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=SESSIONS_MAX))]
    pub max_sessions: Option<u32>,
    /// A further door on the same port, behind the same token
    #[arg(long, value_name = "DOOR", action = ArgAction::Append)]
    pub with: Vec<FurtherDoor>,
    /// A web origin whose pages may call the server and read its answers, for example
    /// `https://app.example.com` or `http://localhost:3000`
    #[arg(long, value_name = "ORIGIN", action = ArgAction::Append)]
    pub origin: Vec<String>,
}

/// What is wrong with a token is told where it is not shown.
fn parse_secret(text: &str) -> Result<Secret<String>, Infallible> {
    Ok(Secret::new(text.to_owned()))
}
