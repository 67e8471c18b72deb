//! `narthex acp`.

/// `narthex acp`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:
  narthex acp                     what an editor starts; it speaks over standard input and output
  narthex acp --model openai/gpt-5 --mode plan
  narthex acp --login anthropic   asks for a key at a terminal, as editors let people do",
    after_long_help = "Examples:
  narthex acp                     what an editor starts; it speaks over standard input and output
  narthex acp --model openai/gpt-5 --mode plan
  narthex acp --login anthropic   asks for a key at a terminal, as editors let people do

An editor is told of it in its own settings; in those of Zed below \"agent_servers\":
  \"Narthex\": {\"type\": \"custom\", \"command\": \"narthex\", \"args\": [\"acp\"]}

Standard output carries the Agent Client Protocol and nothing else; the log goes to standard error.
Where the editor lends its files and terminals, tools see what is not saved yet, and commands run
where you can watch them. It ends with its input: turns that run are stopped, and nothing is lost.

Exit codes: 0 the client is gone, or SIGINT, SIGTERM, SIGHUP · 1 it failed, or did not stop in time
· 2 it could not start · 130 stopped at once by a second signal"
)]
pub struct AcpArgs {
    /// Asks for the key of this provider and keeps it, as `narthex login` does
    #[arg(long, value_name = "PROVIDER")]
    pub login: Option<String>,
}
