//! What people decided about calls that ask by themselves: questions and plans.

use std::collections::HashMap;

use protocol::event::{DecidedBy, Outcome, RequestResolved};
use protocol::{RequestId, ToolCallId};

use crate::card::Request;
use crate::escape;

/// How many characters of an answer one line shows.
const ANSWER_CHARS: usize = 120;

/// What became of a question or a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// In words, for people.
    pub(super) words: String,
    /// It was answered or approved.
    pub(super) is_yes: bool,
    /// The time ran out.
    pub(super) is_late: bool,
}

/// The questions and plans of a turn, from the request to the result of their call. It holds no
/// more than the calls of the turn.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    asked: HashMap<RequestId, Request>,
    settled: HashMap<ToolCallId, Settled>,
}

impl Decisions {
    /// Takes note of a question or a plan.
    pub(super) fn ask(&mut self, request: Request) {
        self.asked.insert(request.id().clone(), request);
    }

    /// Takes note of a decision.
    pub(super) fn settle(&mut self, resolved: &RequestResolved) {
        let Some(request) = self.asked.remove(&resolved.request_id) else { return };
        let call = match &request {
            Request::Permission(_) => None,
            Request::Question(question) => question.tool_call_id.clone(),
            Request::Plan(plan) => Some(plan.tool_call_id.clone()),
        };
        if let Some(call) = call {
            self.settled.insert(call, settled(&request, resolved));
        }
    }

    /// Returns what was decided about a call, once.
    pub(super) fn take(&mut self, call: &ToolCallId) -> Option<Settled> {
        self.settled.remove(call)
    }
}

fn settled(request: &Request, resolved: &RequestResolved) -> Settled {
    let is_yes = matches!(resolved.outcome, Outcome::Answered | Outcome::Approved);
    let is_late = resolved.by == DecidedBy::Timeout;
    let words = match (resolved.by, resolved.outcome) {
        (DecidedBy::Timeout, _) => "nobody answered in time".to_owned(),
        (DecidedBy::Interrupt, _) => "the turn was stopped".to_owned(),
        (_, Outcome::Answered) => format!("answered: {}", answer(request, resolved)),
        (_, Outcome::Dismissed) => "dismissed".to_owned(),
        (_, Outcome::Approved) => match resolved.mode {
            Some(mode) => format!("plan approved, mode {mode}"),
            None => "plan approved".to_owned(),
        },
        (_, Outcome::Rejected) => "plan rejected".to_owned(),
        (_, Outcome::AllowOnce | Outcome::AllowAlways) => "allowed".to_owned(),
        (_, Outcome::Deny) => "denied".to_owned(),
    };
    Settled { words, is_yes, is_late }
}

/// Names what was chosen as the card named it, and the words that came with it.
fn answer(request: &Request, resolved: &RequestResolved) -> String {
    let label = |id: &String| match request {
        Request::Question(question) => {
            let option = question.options.iter().find(|option| option.id == *id);
            option.map_or_else(|| id.clone(), |option| option.label.clone())
        }
        Request::Permission(_) | Request::Plan(_) => id.clone(),
    };
    let chosen = resolved.answers.iter().map(label).chain(resolved.words.clone());
    escape::line(&chosen.collect::<Vec<_>>().join(", "), ANSWER_CHARS)
}
