//! What all hooks of a moment said, made one answer: the strictest vote wins.

#[cfg(test)]
mod tests;

use driver_api::{HookAnswer, HookVote, Moment};
use serde_json::{Map, Value};

use crate::answer::{CONTEXT_CHARS_MAX, Said, cut, is_before_call};
use crate::command_hooks::Origin;

/// How many characters the model is told by all hooks of one moment together.
const CONTEXT_TOTAL_MAX: usize = 4 * CONTEXT_CHARS_MAX;

/// What one hook said, or how it failed.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) origin: Origin,
    /// The command, short enough to be shown.
    pub(crate) name: String,
    /// With changed arguments in native words already.
    pub(crate) said: Result<Said, String>,
}

/// Makes one answer of all, in the order of the hooks.
pub(crate) fn tally(moment: Moment, heard: Vec<Heard>) -> HookAnswer {
    let mut answer = HookAnswer::default();
    let mut votes: Vec<(HookVote, Option<String>)> = Vec::new();
    let mut context_chars = 0;
    for Heard { origin, name, said } in heard {
        let said = match said {
            Ok(said) => said,
            Err(why) => {
                let failure = format!("hook `{name}` {why}");
                if is_before_call(moment) {
                    votes.push((HookVote::Ask, Some(failure.clone())));
                }
                answer.failures.push(failure);
                continue;
            }
        };
        let said = without_what_it_may_not(said, origin, &name, &mut answer.notices);
        votes.extend(said.vote.map(|vote| (vote, said.reason)));
        if let Some(input) = said.input {
            change(&mut answer, &mut votes, input, &name);
        }
        for text in said.context {
            context_chars += text.chars().count();
            if context_chars <= CONTEXT_TOTAL_MAX {
                answer.context.push(text);
            } else {
                answer.notices.push(format!("words of hook `{name}` were left out: too many"));
            }
        }
        answer.notices.extend(said.notices);
        if answer.stop.is_none() {
            answer.stop = said.stop;
        }
    }
    answer.vote = votes.iter().map(|(vote, _)| *vote).max();
    if answer.vote == Some(HookVote::Deny) {
        // Nothing runs, so that nothing is to be changed.
        answer.input = None;
    }
    let mut reasons: Vec<&str> = Vec::new();
    for (vote, reason) in &votes {
        if let Some(reason) = reason.as_deref().filter(|_| Some(*vote) == answer.vote)
            && !reasons.contains(&reason)
        {
            reasons.push(reason);
        }
    }
    answer.reason = (!reasons.is_empty()).then(|| cut(&reasons.join("\n"), CONTEXT_CHARS_MAX));
    answer
}

/// A folder's own hooks may be stricter than the person, never looser.
fn without_what_it_may_not(
    mut said: Said,
    origin: Origin,
    name: &str,
    notices: &mut Vec<String>,
) -> Said {
    if origin.may_loosen() {
        return said;
    }
    if said.vote == Some(HookVote::Allow) {
        said.vote = None;
        said.reason = None;
    }
    if said.input.take().is_some() {
        notices.push(format!(
            "hook `{name}` of the project wanted to change arguments, which it may not"
        ));
    }
    said
}

/// The first hook that changes the arguments decides; one that wants them otherwise makes it a
/// question.
fn change(
    answer: &mut HookAnswer,
    votes: &mut Vec<(HookVote, Option<String>)>,
    input: Map<String, Value>,
    name: &str,
) {
    match &answer.input {
        None => answer.input = Some(input),
        Some(first) if *first == input => {}
        Some(_) => {
            let failure = format!("hook `{name}` changed the arguments otherwise than another one");
            votes.push((HookVote::Ask, Some(failure.clone())));
            answer.failures.push(failure);
        }
    }
}
