//! The command line's grammar: exactly what works now, with an example in every help text.

mod acp;
mod approvals;
mod back;
mod config;
mod connections;
mod cortex;
mod host;
mod policy;
mod run;
mod serve;
mod sessions;
mod token;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, Parser, Subcommand, ValueEnum};
use protocol::Mode;

use terminal::Exit;

pub use acp::AcpArgs;
pub use approvals::{ApprovalsAction, ApprovalsArgs, Decide, PersistLevel, Verdict};
pub use back::{BackOptions, RewindArgs, UndoArgs};
pub use config::{ConfigAction, ConfigArgs};
pub use connections::{ConnectionsAction, ConnectionsArgs};
pub use cortex::{CortexArgs, FurtherDoor, SandboxDriver};
pub use host::HostArgs;
pub use policy::{PolicyAction, PolicyArgs};
pub use run::{InputFormat, OutputFormat, RunArgs, RunOptions};
pub use serve::ServeArgs;
pub use sessions::{ApplyArgs, ExportFormat, ListFormat, SessionsAction, SessionsArgs};
pub use token::{TokenAction, TokenArgs};
pub use usage::{UsageArgs, UsageBy};

/// The longest time-out of an interaction: a year. Longer means for ever, which is 0.
const TIMEOUT_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// The exit codes, as every long help text ends.
const EXIT_CODES: &str = "Exit codes:
  0 done · 1 the turn failed · 2 wrong usage or configuration
  3 a call was refused because nobody could be asked · 4 a limit was reached · 130 interrupted";

/// An agent at your terminal: ask it to change a repository, watch it, stop it, go on.
#[derive(Debug, Parser)]
#[command(
    name = "narthex",
    version,
    max_term_width = 100,
    after_help = "Examples:
  narthex                               start a conversation in this folder
  narthex run \"make the tests pass\"     one prompt, then exit
  git diff | narthex run \"review this\"  piped input becomes context
  narthex demo                          see it work, without a key and without a network",
    after_long_help = format!("Examples:
  narthex                               start a conversation in this folder
  narthex run \"make the tests pass\"     one prompt, then exit
  git diff | narthex run \"review this\"  piped input becomes context
  narthex demo                          see it work, without a key and without a network

{EXIT_CODES}")
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub globals: Globals,
    /// Runs one prompt and exits, as `narthex run` does (`-`, or nothing: standard input)
    #[arg(short = 'p', long = "print", value_name = "PROMPT", num_args = 0..=1,
          default_missing_value = "-", help_heading = "One prompt")]
    pub print: Option<String>,
    /// What `-p` takes beside its prompt.
    #[command(flatten, next_help_heading = "One prompt")]
    pub options: RunOptions,
    /// What to do; a conversation where absent.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command. They win over the environment and the settings files.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global flags")]
pub struct Globals {
    /// The model, `provider/model`; `demo` is the scripted one
    #[arg(long, global = true, value_name = "MODEL")]
    pub model: Option<String>,
    /// What runs without asking: plan, ask, auto-edit or full-auto
    #[arg(long, global = true, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<Mode>,
    /// The folder to work in
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Lets calls that match run without asking, for example 'run_shell(cargo test *)'
    #[arg(long, global = true, value_name = "RULE", action = ArgAction::Append)]
    pub allow: Vec<String>,
    /// Refuses calls that match, whatever else allows them
    #[arg(long, global = true, value_name = "RULE", action = ArgAction::Append)]
    pub deny: Vec<String>,
    /// Reads this settings file in place of the one in the home folder
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Text after the system prompt
    #[arg(long, global = true, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
    /// How many steps a turn may take
    #[arg(long, global = true, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// How much a turn may cost in US dollars; at the limit you are asked, or the turn ends
    #[arg(long, global = true, value_name = "USD", allow_negative_numbers = true,
          value_parser = parse_dollars)]
    pub max_budget_usd: Option<f64>,
    /// After how many milliseconds an unanswered request counts as a no; 0 waits for ever. Without
    /// a terminal it makes the program wait for `narthex approvals decide` instead of refusing
    #[arg(long, global = true, value_name = "MS", allow_negative_numbers = true,
          value_parser = parse_timeout)]
    pub permission_timeout: Option<u64>,
    /// A further folder that tools may use
    #[arg(long, global = true, value_name = "DIR", action = ArgAction::Append)]
    pub add_root: Vec<PathBuf>,
    /// Writes a log of this level to the home folder: error, warn, info, debug or trace. `serve`
    /// always writes one, to standard error
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// The folder with everything that is kept
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Uses this folder's .narthex/config.toml and .mcp.json without asking for trust
    #[arg(long, global = true)]
    pub trust_project: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// What keeps new sessions apart: `namespace` for a sandbox over the folder, in which files,
    /// commands and hooks of a session act, or `host` for none [default: host]
    #[arg(long, global = true, value_name = "DRIVER")]
    pub sandbox: Option<SandboxDriver>,
    /// Starts and reaches no MCP servers
    #[arg(long, global = true)]
    pub no_mcp: bool,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what is odd.
    Warn,
    /// And what happens.
    Info,
    /// And why.
    Debug,
    /// And everything else.
    Trace,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set; always where `CLICOLOR_FORCE` is.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<Color> for terminal::Color {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => terminal::Color::Auto,
            Color::Always => terminal::Color::Always,
            Color::Never => terminal::Color::Never,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs one prompt and exits
    Run(RunArgs),
    /// Shows the whole way with a scripted model: no key, no network, a folder of its own
    #[command(after_help = "Example:\n  narthex demo")]
    Demo,
    /// Serves programs over HTTP: sessions, streams of events, answers to requests
    Serve(ServeArgs),
    /// Serves neurons, sandboxes in which agents work, and runs in them over HTTP
    Cortex(CortexArgs),
    /// Serves an editor over standard input and output: the Agent Client Protocol
    Acp(AcpArgs),
    /// Serves an application that embeds the program: JSON-RPC over standard streams or a socket
    Host(HostArgs),
    /// Shows the token of the running server; makes and takes away tokens for programs
    Token(TokenArgs),
    /// Goes on with a stored conversation, line by line
    #[command(after_help = "Examples:
  narthex resume                             the newest of this folder, or choose from a list
  narthex resume 01kc3v9yq8f2m0x4c7b1n5tzwe  that one")]
    Resume {
        /// The session, or the beginning of its id
        id: Option<String>,
    },
    /// Lists, shows, copies and erases stored conversations
    Sessions(SessionsArgs),
    /// Lists and answers what waits for an answer, from any terminal
    Approvals(ApprovalsArgs),
    /// Takes back what the newest turn did to the files
    Undo(UndoArgs),
    /// Goes back to before a prompt: the conversation, the files, or both
    Rewind(RewindArgs),
    /// Shows what models used and cost
    Usage(UsageArgs),
    /// Tells what works here and how to mend the rest
    #[command(after_help = "Examples:\n  narthex doctor\n  narthex doctor --json | jq .ok")]
    Doctor {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Shows and changes settings
    Config(ConfigArgs),
    /// Explains what may run and why; makes, signs and checks policies
    Policy(PolicyArgs),
    /// Lists MCP servers, tries them, and lets this program in at them
    Connections(ConnectionsArgs),
    /// Keeps the key of a model provider in a file that only you can read
    #[command(after_help = "Examples:
  narthex login anthropic                 asks for the key without showing it
  narthex login anthropic < key.txt       reads it from standard input")]
    Login {
        /// The provider, for example anthropic, openai, gemini or openrouter
        provider: String,
    },
    /// Prints a completion script for a shell
    #[command(after_help = "Example:
  narthex completions bash > ~/.local/share/bash-completion/completions/narthex")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, or writes one page per command into a folder
    #[command(after_help = "Examples:\n  narthex man | man -l -\n  narthex man --out man1")]
    Man {
        /// The folder; created when it is missing
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Prints a schema that is generated from the program's own types
    #[command(hide = true, after_help = "Example:\n  narthex internal-schema event")]
    InternalSchema {
        /// Which one
        schema: SchemaName,
    },
}

/// The schemas that the program generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// One line of `stream-json`, one recorded event.
    Event,
    /// The settings file.
    Config,
    /// The OpenAPI document of the v1 door.
    V1Openapi,
    /// The messages of the host door.
    HostProtocol,
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    text.parse()
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        Ok(_) => Err("expected an amount of dollars, 0 or more".to_owned()),
        Err(_) => Err("expected an amount of dollars, for example 2.50".to_owned()),
    }
}

fn parse_timeout(text: &str) -> Result<u64, String> {
    let expected =
        || "expected milliseconds, 0 or more, for example 600000 for ten minutes".to_owned();
    let ms = text.parse::<u64>().map_err(|_| expected())?;
    if ms > TIMEOUT_MS_MAX {
        return Err(format!("is longer than a year, {TIMEOUT_MS_MAX} ms; 0 waits for ever"));
    }
    Ok(ms)
}

/// Reads the command line. Help, version and complaints are printed here.
///
/// # Errors
/// The exit with which the program ends at once: 0 after help, 2 after a complaint.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let args: Vec<OsString> = args.into_iter().collect();
    let is_run = args.iter().any(|arg| arg == "run");
    let checked = Cli::try_parse_from(args).and_then(|cli| {
        check(&cli)?;
        Ok(cli)
    });
    checked.map_err(|mut error| {
        advise(&mut error, is_run);
        // A closed pipe is the reader's wish; nothing is left to tell it.
        drop(error.print());
        if error.exit_code() == 0 { Exit::Done } else { Exit::Usage }
    })
}

/// Puts right the advice about an argument that does not exist: the nearest flag rather than the
/// shortest that is near, and quotes where the words of a prompt came one by one.
fn advise(error: &mut clap::Error, is_run: bool) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg).cloned() else {
        return;
    };
    let Some(name) = given.strip_prefix("--") else {
        if is_run && !given.starts_with('-') {
            let tip = "a prompt of several words stands in quotes: narthex run \"fix the tests\"";
            let tips = ContextValue::StyledStrs(vec![tip.into()]);
            drop(error.insert(ContextKind::Suggested, tips));
        }
        return;
    };
    if !matches!(error.get(ContextKind::SuggestedArg), Some(ContextValue::String(_))) {
        return;
    }
    let command = Cli::command();
    let flags = command.get_arguments().filter_map(|arg| arg.get_long());
    // Letters that changed places make a word of the same length.
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    if let Some(flag) = flags.into_iter().find(|flag| sorted(flag) == sorted(name)) {
        // It shows how to use the flag that was offered before.
        drop(error.remove(ContextKind::Usage));
        drop(error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{flag}"))));
    }
}

/// Refuses what the grammar cannot: options of `-p` beside another command.
fn check(cli: &Cli) -> Result<(), clap::Error> {
    let complain = |text: &str| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    if cli.command.is_some() && (cli.print.is_some() || !cli.options.is_default()) {
        return complain("options of -p/--print stand after the command's name, or not at all");
    }
    if let Some(Command::Approvals(ApprovalsArgs { action: ApprovalsAction::Decide(decide) })) =
        &cli.command
    {
        return decide.check(cli.globals.mode);
    }
    if let Some(Command::Run(run)) = &cli.command {
        return run.options.check();
    }
    if cli.print.is_some() {
        return cli.options.check();
    }
    if !cli.options.is_conversation() {
        return complain("this option needs a prompt: narthex -p PROMPT, or narthex run PROMPT");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(words: &[&str]) -> String {
        let mut error = Cli::try_parse_from(words).unwrap_err();
        advise(&mut error, words.contains(&"run"));
        error.to_string()
    }

    #[test]
    fn advice_names_the_flag_that_was_meant() {
        for words in [&["narthex", "--modle", "a/b"][..], &["narthex", "run", "--modle", "a/b"]] {
            let text = complaint(words);
            assert!(text.contains("'--model'"), "{text}");
            assert!(!text.contains("--mode <MODE>"), "{text}");
        }
        let text = complaint(&["narthex", "--mod", "a/b"]);
        assert!(text.contains("a similar argument exists"), "{text}");
    }

    #[test]
    fn a_prompt_without_quotes_is_told_of_them() {
        let text = complaint(&["narthex", "run", "fix", "the", "tests"]);
        assert!(text.contains("stands in quotes"), "{text}");
        let text = complaint(&["narthex", "resume", "a", "b"]);
        assert!(!text.contains("quotes"), "{text}");
    }
}
