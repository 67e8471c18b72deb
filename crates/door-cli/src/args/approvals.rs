//! `narthex approvals`.

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Subcommand, ValueEnum};
use protocol::Mode;

use super::Cli;

/// `narthex approvals`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex approvals list
  narthex approvals show 01kc3v9yq8
  narthex approvals decide 01kc3v9yq8 allow")]
pub struct ApprovalsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub action: ApprovalsAction,
}

/// What to do with what waits for an answer.
#[derive(Debug, Subcommand)]
pub enum ApprovalsAction {
    /// Lists what waits for an answer, in every folder, oldest first
    #[command(after_help = "Examples:
  narthex approvals list
  narthex approvals list --json | jq -r '.approvals[].requestId'")]
    List {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
        /// Lists those of this session, or of the one whose id begins so
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Shows a request whole: what, where, the change, why it is asked
    #[command(after_help = "Example:\n  narthex approvals show 01kc3v9yq8")]
    Show {
        /// The request, or the beginning of its id
        id: String,
    },
    /// Answers a request; first come, first served
    #[command(after_help = "Examples:
  narthex approvals decide 01kc3v9yq8 allow
  narthex approvals decide 01kc3v9yq8 always --rule 'run_shell(cargo test *)' --persist project
  narthex approvals decide 01kc3v9yq8 deny --feedback \"use make\"
  narthex approvals decide 01kc3v9yq8 choose --option 2
  narthex approvals decide 01kc3v9yq8 approve --mode auto-edit

A rule of always is kept as long as --persist says: session (so it is where absent) as long as this
session, project in every session of this folder, user in every session of yours. The last two are
written to your own settings, never into the project; narthex policy show lists them.

A process that runs the session takes the answer and goes on. Where that process has died, the
session is opened here and its turn is carried on to its end, with the exit codes of narthex run.")]
    Decide(Decide),
}

/// `narthex approvals decide`.
#[derive(Clone, Debug, clap::Args)]
pub struct Decide {
    /// The request, or the beginning of its id
    pub id: String,
    /// allow, always or deny a call; choose or dismiss for a question; approve or reject a plan
    pub verdict: Verdict,
    /// With always: the rule; the narrowest suggestion where absent
    #[arg(long, value_name = "RULE")]
    pub rule: Option<String>,
    /// With always: how long the rule is kept
    #[arg(long, value_name = "LEVEL")]
    pub persist: Option<PersistLevel>,
    /// With deny and reject: words for the model
    #[arg(long, value_name = "TEXT")]
    pub feedback: Option<String>,
    /// With choose: an option, by its number, its label or its id; may be repeated
    #[arg(long, value_name = "OPTION", action = ArgAction::Append)]
    pub option: Vec<String>,
    /// With choose: words of your own
    #[arg(long, value_name = "TEXT")]
    pub other: Option<String>,
}

/// The answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verdict {
    /// This call may run.
    Allow,
    /// This call, and all that the rule matches.
    Always,
    /// It may not.
    Deny,
    /// The plan is good; --mode says how to go on, ask where absent.
    Approve,
    /// The plan is not good.
    Reject,
    /// The question stays without an answer.
    Dismiss,
    /// Options of a question, or words of one's own.
    Choose,
}

impl Verdict {
    /// Returns the word of the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Always => "always",
            Verdict::Deny => "deny",
            Verdict::Approve => "approve",
            Verdict::Reject => "reject",
            Verdict::Dismiss => "dismiss",
            Verdict::Choose => "choose",
        }
    }
}

/// How long a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PersistLevel {
    /// As long as the session.
    Session,
    /// For every session in the project.
    Project,
    /// For every session of yours.
    User,
}

impl Decide {
    /// Refuses options that do not belong to the answer.
    pub(super) fn check(&self, mode: Option<Mode>) -> Result<(), clap::Error> {
        let is = |verdicts: &[Verdict]| verdicts.contains(&self.verdict);
        let wrong = [
            (self.rule.is_some() && !is(&[Verdict::Always]), "--rule"),
            (self.persist.is_some() && !is(&[Verdict::Always]), "--persist"),
            (self.feedback.is_some() && !is(&[Verdict::Deny, Verdict::Reject]), "--feedback"),
            (!self.option.is_empty() && !is(&[Verdict::Choose]), "--option"),
            (self.other.is_some() && !is(&[Verdict::Choose]), "--other"),
            (mode.is_some() && !is(&[Verdict::Approve]), "--mode"),
        ];
        let word = self.verdict.as_str();
        let text = match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, flag)) => format!("{flag} does not belong to {word}"),
            None if is(&[Verdict::Choose]) && self.option.is_empty() && self.other.is_none() => {
                "choose needs --option or --other".to_owned()
            }
            None => return Ok(()),
        };
        Err(Cli::command().error(ErrorKind::ArgumentConflict, text))
    }
}
