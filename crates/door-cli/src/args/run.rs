//! `narthex run`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, ValueEnum};

use super::Cli;

/// `narthex run [PROMPT]`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex run \"make the tests pass\" --mode auto-edit --allow 'run_shell(cargo test *)'
  cargo test 2>&1 | narthex run \"why does this fail?\"
  narthex run --output-format json \"name the modules\" | jq -r .text
  narthex run --continue \"and now the documentation\"

Standard output carries the answer alone; progress goes to standard error. Where standard output
is a pipe that its reader closes, a running turn is stopped and the exit code is 130.

Exit codes:
  0 done · 1 the turn failed · 2 wrong usage or configuration
  3 a call was refused because nobody could be asked · 4 a limit was reached · 130 interrupted")]
pub struct RunArgs {
    /// What to do; `-`, or nothing, reads standard input. Piped input beside it becomes context
    pub prompt: Option<String>,
    /// The options.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Options of one prompt.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunOptions {
    /// What standard output carries
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output_format: OutputFormat,
    /// What standard input carries
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub input_format: InputFormat,
    /// Goes on with this session
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub resume: Option<String>,
    /// Goes on with the newest session of this folder
    #[arg(long = "continue", short = 'c')]
    pub continue_last: bool,
    /// Adds an image (png, jpeg, gif, webp; at most 10 MiB) to the prompt
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub image: Vec<PathBuf>,
}

/// What standard output carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The answer's text.
    #[default]
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON event a line.
    StreamJson,
}

/// What standard input carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// The prompt.
    #[default]
    Text,
    /// One JSON message a line: prompts, answers, interrupts.
    StreamJson,
}

impl From<OutputFormat> for terminal::OutputFormat {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Text => terminal::OutputFormat::Text,
            OutputFormat::Json => terminal::OutputFormat::Json,
            OutputFormat::StreamJson => terminal::OutputFormat::StreamJson,
        }
    }
}

impl RunOptions {
    /// Tells whether nothing was given.
    pub(super) fn is_default(&self) -> bool {
        self.is_conversation() && self.resume.is_none() && !self.continue_last
    }

    /// Tells whether a conversation could take the options: at most which session to go on with.
    pub(super) fn is_conversation(&self) -> bool {
        self.output_format == OutputFormat::Text
            && self.input_format == InputFormat::Text
            && self.image.is_empty()
    }

    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let streams_in = self.input_format == InputFormat::StreamJson;
        if streams_in && self.output_format != OutputFormat::StreamJson {
            let text = "--input-format stream-json needs --output-format stream-json";
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        }
        Ok(())
    }
}
