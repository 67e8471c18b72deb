//! What a hook answers: its exit code, and JSON or words on its standard output.

mod keys;
#[cfg(test)]
mod tests;

use driver_api::{ExitStatus, HookVote, Moment};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::runner::{Ran, failure};

/// How many characters of one hook the model is told: enough for advice, too little to fill a
/// context.
pub(crate) const CONTEXT_CHARS_MAX: usize = 10_000;

/// How many characters of a sentence for people are kept.
const NOTICE_CHARS_MAX: usize = 2_000;

/// The exit code that blocks.
const BLOCKS: i32 = 2;

/// What one hook said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) vote: Option<HookVote>,
    pub(crate) reason: Option<String>,
    /// Arguments in place of the call's own, in the words in which the hook was told of them.
    pub(crate) input: Option<Map<String, Value>>,
    pub(crate) context: Vec<String>,
    pub(crate) notices: Vec<String>,
    pub(crate) stop: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Form {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    /// Output of hooks is never shown, so that there is nothing to suppress.
    #[allow(dead_code, reason = "read so that a value of another kind is a failure")]
    suppress_output: Option<bool>,
    decision: Option<Decision>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

impl Form {
    /// Tells whether it refuses or ends something.
    fn refuses(&self) -> bool {
        let specific = self.hook_specific_output.as_ref();
        let answer = specific.and_then(|specific| specific.decision.as_ref());
        let decisions = [
            self.decision,
            specific.and_then(|specific| specific.permission_decision),
            answer.map(|answer| answer.behavior),
        ];
        let is_denied = |decision: &Decision| decision.vote() == HookVote::Deny;
        decisions.iter().flatten().any(is_denied)
            || self.r#continue == Some(false)
            || answer.is_some_and(|answer| answer.interrupt == Some(true))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Block,
    Deny,
    Approve,
    Allow,
    Ask,
}

impl Decision {
    fn vote(self) -> HookVote {
        match self {
            Decision::Block | Decision::Deny => HookVote::Deny,
            Decision::Approve | Decision::Allow => HookVote::Allow,
            Decision::Ask => HookVote::Ask,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<Decision>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    additional_context: Option<String>,
    decision: Option<Answer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    behavior: Decision,
    message: Option<String>,
    updated_input: Option<Map<String, Value>>,
    interrupt: Option<bool>,
}

/// Reads what a hook answered.
///
/// # Errors
/// A sentence that says how it failed: any exit code but 0 and 2, a signal, JSON that is none or
/// has another form.
pub(crate) fn read(moment: Moment, ran: &Ran) -> Result<Said, String> {
    match ran.status {
        ExitStatus::Code(0) => said(moment, &ran.stdout),
        ExitStatus::Code(BLOCKS) => Ok(block(moment, &words(&ran.stderr))),
        ExitStatus::Code(_) | ExitStatus::Signal(_) => Err(failure(ran)),
    }
}

/// Tells whether the standard output of a hook that ended with exit code 0 has a form that is
/// understood at a moment.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check_form(moment: Moment, stdout: &[u8]) -> Result<(), String> {
    said(moment, stdout).map(|_| ())
}

/// What a hook that blocks says, by exit code or in JSON.
fn block(moment: Moment, reason: &str) -> Said {
    let reason = match reason.trim() {
        "" => "a hook blocked it and gave no reason".to_owned(),
        reason => cut(reason, CONTEXT_CHARS_MAX),
    };
    match moment {
        Moment::UserPromptSubmit
        | Moment::PreToolUse
        | Moment::PermissionRequest
        | Moment::Stop
        | Moment::SubagentStop
        | Moment::PreCompact => {
            Said { vote: Some(HookVote::Deny), reason: Some(reason), ..Said::default() }
        }
        // It has happened already: the model reads what is wrong with it.
        Moment::PostToolUse => Said { context: vec![reason], ..Said::default() },
        Moment::SessionStart | Moment::Notification => {
            Said { notices: vec![cut(&reason, NOTICE_CHARS_MAX)], ..Said::default() }
        }
    }
}

fn said(moment: Moment, stdout: &[u8]) -> Result<Said, String> {
    let text = words(stdout);
    let text = text.trim_matches(keys::is_blank);
    if !text.starts_with('{') {
        return in_words(moment, text);
    }
    let bad = |error: serde_json::Error| format!("answered with JSON that is wrong: {error}");
    let value: Value = serde_json::from_str(text).map_err(bad)?;
    // From the text, not from the value, which has lost the first of two equal keys.
    let form = serde_json::from_str::<Form>(text).map_err(bad);
    match (keys::wrong(&value), form) {
        (None, form) => understood(moment, form?),
        // A refusal that is understood stands, whatever else is wrong.
        (Some(why), Ok(form)) if form.refuses() => {
            let mut said = understood(moment, form)?;
            said.notices.push(format!("a hook {why}"));
            Ok(said)
        }
        (Some(why), _) => Err(why),
    }
}

/// Reads an answer that is no JSON.
fn in_words(moment: Moment, text: &str) -> Result<Said, String> {
    let is_context = matches!(moment, Moment::UserPromptSubmit | Moment::SessionStart);
    // What a hook prints at other moments is for whoever looks for its faults, unless it is an
    // answer that something else was printed before.
    if !is_context && keys::has_answer_within(text) {
        return Err("answered with JSON that other words stand around".to_owned());
    }
    let context = (is_context && !text.is_empty()).then(|| cut(text, CONTEXT_CHARS_MAX));
    Ok(Said { context: context.into_iter().collect(), ..Said::default() })
}

fn understood(moment: Moment, form: Form) -> Result<Said, String> {
    let specific = form.hook_specific_output.unwrap_or_default();
    if let Some(name) = specific.hook_event_name.filter(|name| name != moment.as_str()) {
        return Err(format!("answered for {name:.40}, but was told of {}", moment.as_str()));
    }
    let answer = specific.decision;
    // The strictest word counts, wherever it stands.
    let votes = [
        (form.decision.map(Decision::vote), form.reason),
        (specific.permission_decision.map(Decision::vote), specific.permission_decision_reason),
        (
            answer.as_ref().map(|answer| answer.behavior.vote()),
            answer.as_ref().and_then(|answer| answer.message.clone()),
        ),
    ];
    let vote = votes.iter().filter_map(|(vote, _)| *vote).max();
    // A reason may stand beside another field than its vote.
    let reason = votes.iter().find(|(other, reason)| *other == vote && reason.is_some());
    let reason = reason.or_else(|| votes.iter().find(|(_, reason)| reason.is_some()));
    let reason = reason.and_then(|(_, reason)| reason.clone());
    let mut said = voted(moment, vote, reason);
    said.input = match &answer {
        Some(Answer { updated_input: Some(input), .. }) => Some(input.clone()),
        _ => specific.updated_input,
    };
    if let Some(context) = specific.additional_context.filter(|text| !text.trim().is_empty()) {
        said.context.push(cut(&context, CONTEXT_CHARS_MAX));
    }
    if let Some(message) = form.system_message.filter(|text| !text.trim().is_empty()) {
        said.notices.push(cut(&message, NOTICE_CHARS_MAX));
    }
    let is_interrupt = answer.and_then(|answer| answer.interrupt) == Some(true);
    if form.r#continue == Some(false) || is_interrupt {
        stop(&mut said, moment, form.stop_reason);
    }
    Ok(said)
}

fn voted(moment: Moment, vote: Option<HookVote>, reason: Option<String>) -> Said {
    let is_before_call = is_before_call(moment);
    match vote {
        Some(HookVote::Deny) => block(moment, reason.as_deref().unwrap_or_default()),
        // Elsewhere there is nothing to allow or to ask for.
        Some(vote) if is_before_call => {
            let reason = reason.map(|reason| cut(&reason, CONTEXT_CHARS_MAX));
            Said { vote: Some(vote), reason, ..Said::default() }
        }
        Some(_) | None => Said::default(),
    }
}

/// The turn is to end. A call that has not run does not run then.
fn stop(said: &mut Said, moment: Moment, reason: Option<String>) {
    let reason = reason.or_else(|| said.reason.clone()).filter(|text| !text.trim().is_empty());
    let reason = reason.unwrap_or_else(|| "a hook ended the turn and gave no reason".to_owned());
    let reason = cut(&reason, NOTICE_CHARS_MAX);
    if is_before_call(moment) {
        said.vote = Some(HookVote::Deny);
        said.reason.get_or_insert_with(|| reason.clone());
    }
    said.stop = Some(reason);
}

/// Tells whether a call waits for what hooks say.
pub(crate) fn is_before_call(moment: Moment) -> bool {
    matches!(moment, Moment::PreToolUse | Moment::PermissionRequest)
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Cuts a text to so many characters, and says so.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => {
            format!("{}\n[cut at {chars_max} characters]", text.get(..end).unwrap_or_default())
        }
        None => text.to_owned(),
    }
}
