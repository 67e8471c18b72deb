//! How the program ends.

use protocol::event::TurnResult;
use protocol::{RefusalCode, TurnEnd};

/// The exit codes. They are a contract: a failure never ends with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Done,
    /// The turn failed, or a check did.
    Failed,
    /// Wrong usage or configuration.
    Usage,
    /// A call was refused because nobody could be asked or answered in time.
    Unanswered,
    /// A limit was reached.
    Limit,
    /// Somebody stopped it.
    Interrupted,
}

impl Exit {
    /// Returns the code for the operating system.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unanswered => 3,
            Exit::Limit => 4,
            Exit::Interrupted => 130,
        }
    }

    /// Tells how the program ends after a turn.
    pub fn of_turn(result: &TurnResult) -> Self {
        match result.reason {
            TurnEnd::Completed if result.unanswered > 0 => Exit::Unanswered,
            TurnEnd::Completed => Exit::Done,
            TurnEnd::Interrupted => Exit::Interrupted,
            TurnEnd::MaxTurns | TurnEnd::Budget | TurnEnd::Time | TurnEnd::Repetition => {
                Exit::Limit
            }
            TurnEnd::Error | TurnEnd::Denied => Exit::Failed,
        }
    }

    /// Returns this exit, or the later one where that is a failure: in a series of turns no
    /// success hides a failure before it.
    #[must_use]
    pub fn then(self, later: Exit) -> Self {
        if later == Exit::Done { self } else { later }
    }
}

/// Why a command ends without its result. The message is for people and names what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// What went wrong; lower case, no full stop, may have several lines.
    pub message: String,
}

impl Failure {
    /// Makes a failure of usage or configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Makes another failure.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// Makes the end that a person asked for; nothing needs to be said.
    pub fn stopped() -> Self {
        Self { exit: Exit::Interrupted, message: String::new() }
    }
}

impl From<runtime_api::Error> for Failure {
    fn from(error: runtime_api::Error) -> Self {
        match error {
            runtime_api::Error::Refusal(refusal) => {
                Self { exit: of_refusal(refusal.code), message: refusal.message }
            }
            // Whoever runs the program on their own machine is the one who can free the disk.
            runtime_api::Error::Fault(fault) => Self::failed(format!("internal error: {fault}")),
        }
    }
}

fn of_refusal(code: RefusalCode) -> Exit {
    match code {
        RefusalCode::Invalid
        | RefusalCode::SessionNotFound
        | RefusalCode::RequestNotFound
        | RefusalCode::CheckpointNotFound
        | RefusalCode::LockedByPolicy
        | RefusalCode::ModelNotAllowed
        | RefusalCode::InvalidModel
        | RefusalCode::TooLarge
        | RefusalCode::NeuronNotFound
        | RefusalCode::NotSupported => Exit::Usage,
        RefusalCode::SessionBusy
        | RefusalCode::OwnedElsewhere
        | RefusalCode::RequestResolved
        | RefusalCode::QueueFull
        | RefusalCode::TooManySessions
        | RefusalCode::ShuttingDown
        | RefusalCode::NeuronExists
        | RefusalCode::NeuronNotRunning
        | RefusalCode::NoCapacity => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use protocol::Usage;

    use super::*;

    fn result(reason: TurnEnd, unanswered: u32) -> TurnResult {
        TurnResult {
            reason,
            code: None,
            message: None,
            usage: Usage::default(),
            cost_usd: None,
            turns: 1,
            duration_ms: 1,
            text: String::new(),
            unanswered,
            structured: None,
        }
    }

    #[test]
    fn every_end_of_a_turn_has_its_code() {
        let table = [
            (TurnEnd::Completed, 0, 0),
            (TurnEnd::Completed, 2, 3),
            (TurnEnd::Interrupted, 1, 130),
            (TurnEnd::MaxTurns, 0, 4),
            (TurnEnd::Budget, 0, 4),
            (TurnEnd::Time, 0, 4),
            (TurnEnd::Repetition, 0, 4),
            (TurnEnd::Error, 0, 1),
            (TurnEnd::Error, 3, 1),
            (TurnEnd::Denied, 0, 1),
        ];
        for (reason, unanswered, code) in table {
            let exit = Exit::of_turn(&result(reason, unanswered));
            assert_eq!(exit.code(), code, "{reason:?} with {unanswered} unanswered");
        }
    }

    #[test]
    fn a_later_success_hides_no_failure() {
        assert_eq!(Exit::Failed.then(Exit::Done), Exit::Failed);
        assert_eq!(Exit::Done.then(Exit::Unanswered), Exit::Unanswered);
        assert_eq!(Exit::Failed.then(Exit::Limit), Exit::Limit);
    }
}
