//! What all hooks of a moment said, made one answer: the strictest vote wins.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use driver_api::{HookAnswer, HookVote, Moment};
use serde_json::{Map, Value};

use crate::answer::{CONTEXT_CHARS_MAX, Said, cut, is_before_call};
use crate::layer::Origin;

/// How many characters the model is told by all hooks of one moment together.
const CONTEXT_TOTAL_MAX: usize = 4 * CONTEXT_CHARS_MAX;

/// What one hook said, or how it failed, when it was told once.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) origin: Origin,
    /// Which hook of the moment it was. One that is told of a patch file by file is heard as often.
    pub(crate) hook: usize,
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
    let partial = that_allowed_not_all(&heard);
    for Heard { origin, hook, name, said } in heard {
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
        let mut said = without_what_it_may_not(said, origin, &name, &mut answer.notices);
        if said.vote == Some(HookVote::Allow) && partial.contains(&hook) {
            (said.vote, said.reason) = (None, None);
        }
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

/// Finds the hooks that did not allow all that they were told. Whoever allows one file of a patch
/// has not allowed the patch.
fn that_allowed_not_all(heard: &[Heard]) -> BTreeSet<usize> {
    let is_allowed =
        |heard: &&Heard| heard.said.as_ref().is_ok_and(|said| said.vote == Some(HookVote::Allow));
    heard.iter().filter(|heard| !is_allowed(heard)).map(|heard| heard.hook).collect()
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
