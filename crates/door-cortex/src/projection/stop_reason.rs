//! How a run ended.

use protocol::TurnEnd;

/// How a run ended, in the words of this door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    EndTurn,
    MaxTurns,
    Aborted,
    Error,
}

impl StopReason {
    /// Returns how a turn of the core ended.
    pub(crate) fn of(end: TurnEnd) -> Self {
        match end {
            TurnEnd::Completed => StopReason::EndTurn,
            TurnEnd::MaxTurns => StopReason::MaxTurns,
            TurnEnd::Interrupted => StopReason::Aborted,
            TurnEnd::Budget
            | TurnEnd::Time
            | TurnEnd::Repetition
            | TurnEnd::Error
            | TurnEnd::Denied => StopReason::Error,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTurns => "max_turns",
            StopReason::Aborted => "aborted",
            StopReason::Error => "error",
        }
    }
}
