//! What the world still owes a state. The engine does it and hands the outcome back.

use protocol::{CheckpointId, RequestId, Seq, ToolCallId};

use super::state::{CallStage, State};

/// How many steps in a row may consist of malformed calls alone before the turn ends.
pub(crate) const MALFORMED_STEPS_MAX: u32 = 3;

/// Something owed, keyed by what caused it, so that it is done once however often it is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owed {
    /// Ask the model for the step that began there.
    AskModel(Seq),
    /// Look a requested call up and let the gate decide.
    Gate(ToolCallId),
    /// Run a call that may run.
    Run(ToolCallId),
    /// Wait for an answer.
    Await(RequestId),
    /// Go on: the next step, or the end of the turn.
    Advance,
    /// Begin the oldest waiting prompt.
    TakeNext,
    /// Obey the slash command that the turn is.
    Obey,
    /// Capture what the turn of that point left of the files.
    RecordChanges(CheckpointId),
}

/// Lists everything that is owed.
pub(crate) fn pending(state: &State) -> Vec<Owed> {
    let Some(turn) = &state.turn else {
        // What a turn left is looked at before the next one changes more.
        let newest = state.newest_point();
        return match newest.filter(|it| it.changes.as_ref().is_some_and(|it| !it.is_recorded)) {
            Some(point) => vec![Owed::RecordChanges(point.id.clone())],
            None if state.queue.is_empty() => Vec::new(),
            None => vec![Owed::TakeNext],
        };
    };
    if let Some((wait, _)) = &turn.pause {
        return vec![Owed::Await(wait.request.clone())];
    }
    if turn.command.is_some() && !turn.is_done {
        return vec![Owed::Obey];
    }
    if turn.is_done || turn.step == 0 {
        return vec![Owed::Advance];
    }
    if !turn.is_answered {
        return vec![Owed::AskModel(turn.step_seq)];
    }
    let owed: Vec<Owed> = turn
        .calls
        .iter()
        .filter_map(|call| match &call.stage {
            CallStage::Requested => Some(Owed::Gate(call.id.clone())),
            // One that runs and asks is under way already.
            CallStage::Waiting(wait, _) | CallStage::Asking(wait, _) => {
                Some(Owed::Await(wait.request.clone()))
            }
            CallStage::Described(_) | CallStage::Allowed(_) | CallStage::Started(_) => {
                Some(Owed::Run(call.id.clone()))
            }
            CallStage::Over => None,
        })
        .collect();
    if owed.is_empty() { vec![Owed::Advance] } else { owed }
}
