//! What a hook answers: its exit code, and JSON or words on its standard output.

#[cfg(test)]
mod tests;

use driver_api::{ExitStatus, HookVote, Moment};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::nearest::likeness;
use crate::runner::{Ran, failure};

/// How many characters of one hook the model is told: enough for advice, too little to fill a
/// context.
pub(crate) const CONTEXT_CHARS_MAX: usize = 10_000;

/// How many characters of a sentence for people are kept.
const NOTICE_CHARS_MAX: usize = 2_000;

/// The exit code that blocks.
const BLOCKS: i32 = 2;

/// How alike an unknown key has to be to a known one to count as misspelt. A wish that is misspelt
/// must not be taken for no wish; whatever is farther away belongs to other programs.
const MISSPELT_MIN: f64 = 0.8;

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

const KEYS: [&str; 7] = [
    "continue",
    "stopReason",
    "systemMessage",
    "suppressOutput",
    "decision",
    "reason",
    "hookSpecificOutput",
];

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

const SPECIFIC_KEYS: [&str; 6] = [
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
    "decision",
];

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

const ANSWER_KEYS: [&str; 4] = ["behavior", "message", "updatedInput", "interrupt"];

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
    let text = text.trim();
    if !text.starts_with('{') {
        let mut said = Said::default();
        // What a hook prints at other moments is for whoever looks for its faults.
        let is_context = matches!(moment, Moment::UserPromptSubmit | Moment::SessionStart);
        if is_context && !text.is_empty() {
            said.context.push(cut(text, CONTEXT_CHARS_MAX));
        }
        return Ok(said);
    }
    let bad = |error: serde_json::Error| format!("answered with JSON that is wrong: {error}");
    let value: Value = serde_json::from_str(text).map_err(bad)?;
    check_spelling(&value)?;
    let form = Form::deserialize(&value).map_err(bad)?;
    understood(moment, form)
}

/// A key that nobody knows is no fault, but one that is nearly a known one is.
fn check_spelling(value: &Value) -> Result<(), String> {
    let levels: [(&str, &[&str]); 3] = [
        ("", &KEYS),
        ("/hookSpecificOutput", &SPECIFIC_KEYS),
        ("/hookSpecificOutput/decision", &ANSWER_KEYS),
    ];
    for (pointer, known) in levels {
        let map = value.pointer(pointer).and_then(Value::as_object);
        for key in map.into_iter().flat_map(Map::keys).filter(|key| !known.contains(&&***key)) {
            if let Some(meant) = known.iter().find(|name| likeness(key, name) >= MISSPELT_MIN) {
                return Err(format!("answered with the unknown key '{key}', near '{meant}'"));
            }
        }
    }
    Ok(())
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
