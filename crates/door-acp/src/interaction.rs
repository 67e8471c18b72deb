//! Requests of a session, as questions to the client, and its answers.

use std::path::Path;

use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    StringPropertySchema, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use protocol::event::{Answer, PermissionRequest, Persist, PlanRequest, QuestionRequest};
use protocol::{Mode, SessionId};

use crate::call;
use crate::choice;

/// The field of a form for the options, and the one for words of one's own.
const ANSWER: &str = "answer";
const OTHER: &str = "other";

const ALLOW_ONCE: &str = "allow_once";
const ALLOW_SESSION: &str = "allow_always";
const ALLOW_PROJECT: &str = "allow_always_project";
const REJECT_ONCE: &str = "reject_once";
const REJECT_ALWAYS: &str = "reject_always";

/// Before the id of an option of a question that is put as a permission, and of a mode.
const OPTION: &str = "option-";

fn button(
    id: impl Into<String>,
    name: impl Into<String>,
    kind: PermissionOptionKind,
) -> PermissionOption {
    PermissionOption::new(id.into(), name, kind)
}

/// Asks whether a call may run.
pub(crate) fn permission(
    session: &SessionId,
    asked: &PermissionRequest,
    cwd: &Path,
) -> RequestPermissionRequest {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let mut options = vec![button(ALLOW_ONCE, "Allow", AllowOnce)];
    let rule = asked.suggested_rules.first().map(|rule| call::one_line(rule));
    if let Some(rule) = &rule {
        let session = format!("Always allow {rule} in this session");
        options.push(button(ALLOW_SESSION, session, AllowAlways));
        let project = format!("Always allow {rule} in this project");
        options.push(button(ALLOW_PROJECT, project, AllowAlways));
    }
    options.push(button(REJECT_ONCE, "Reject", RejectOnce));
    if let Some(rule) = &rule {
        let refuse = format!("Always reject {rule} in this session");
        options.push(button(REJECT_ALWAYS, refuse, RejectAlways));
    }
    let mut content = Vec::new();
    let mut locations = call::locations(&asked.tool_name, &asked.target, &asked.input, cwd);
    if let Some(diff) = &asked.diff {
        let (places, changes) = call::changes(diff, cwd);
        content.extend(changes);
        if !places.is_empty() {
            locations = places;
        }
    }
    if let Some(reason) = &asked.reason {
        content.push(call::words(reason.clone()));
    }
    for finding in &asked.checks {
        let place = finding.path.as_deref().unwrap_or_default();
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let words = format!("{}: {} {place}{line}", finding.severity, finding.message);
        content.push(call::words(words));
    }
    let fields = ToolCallUpdateFields::new()
        .title(call::title(&asked.tool_name, &asked.target))
        .name(asked.tool_name.clone())
        .kind(call::kind_of(&asked.tool_name, asked.effect))
        .status(ToolCallStatus::Pending)
        .locations(locations)
        .content(content)
        .raw_input(serde_json::Value::Object(asked.input.clone()));
    buttons(session, asked.tool_call_id.as_str(), fields, options)
}

/// Asks whether a plan is good, and in which mode to go on with it.
pub(crate) fn plan(
    session: &SessionId,
    asked: &PlanRequest,
    modes: &[Mode],
) -> RequestPermissionRequest {
    let offered = modes.iter().rev().filter(|mode| **mode != Mode::Plan);
    let mut options: Vec<PermissionOption> = offered
        .map(|mode| {
            let kind = match mode {
                Mode::Plan | Mode::Ask => PermissionOptionKind::AllowOnce,
                Mode::AutoEdit | Mode::FullAuto => PermissionOptionKind::AllowAlways,
            };
            let (name, _) = choice::words_of(*mode);
            button(format!("{OPTION}{mode}"), format!("Approve, go on in mode {name}"), kind)
        })
        .collect();
    options.push(button(REJECT_ONCE, "Keep planning", PermissionOptionKind::RejectOnce));
    let fields = ToolCallUpdateFields::new()
        .title("Plan".to_owned())
        .kind(ToolKind::SwitchMode)
        .status(ToolCallStatus::Pending)
        .content(vec![call::words(asked.plan.clone())]);
    buttons(session, asked.tool_call_id.as_str(), fields, options)
}

/// Puts a question that has options to choose one from as buttons; none where it cannot be.
pub(crate) fn question(
    session: &SessionId,
    asked: &QuestionRequest,
) -> Option<RequestPermissionRequest> {
    if asked.multi_select || asked.options.is_empty() {
        return None;
    }
    let mut options: Vec<PermissionOption> = asked
        .options
        .iter()
        .enumerate()
        .map(|(place, option)| {
            let id = format!("{OPTION}{place}");
            button(id, option.label.clone(), PermissionOptionKind::AllowOnce)
        })
        .collect();
    options.push(button(REJECT_ONCE, "Do not answer", PermissionOptionKind::RejectOnce));
    let described = asked.options.iter().filter_map(|option| {
        let description = option.description.as_ref()?;
        Some(format!("- **{}**: {description}", option.label))
    });
    let words: Vec<String> = std::iter::once(asked.question.clone()).chain(described).collect();
    let fields = ToolCallUpdateFields::new()
        .title(call::one_line(&asked.question))
        .kind(ToolKind::Think)
        .status(ToolCallStatus::Pending)
        .content(vec![call::words(words.join("\n"))]);
    let id = asked
        .tool_call_id
        .as_ref()
        .map_or_else(|| format!("question-{}", asked.request_id), ToString::to_string);
    Some(buttons(session, &id, fields, options))
}

fn buttons(
    session: &SessionId,
    call: &str,
    fields: ToolCallUpdateFields,
    options: Vec<PermissionOption>,
) -> RequestPermissionRequest {
    let call = ToolCallUpdate::new(call.to_owned(), fields);
    RequestPermissionRequest::new(session.as_str().to_owned(), call, options)
}

/// What was pressed; none where the client took the question back.
fn pressed(response: RequestPermissionResponse) -> Option<String> {
    match response.outcome {
        RequestPermissionOutcome::Selected(chosen) => Some(chosen.option_id.to_string()),
        _ => None,
    }
}

/// Reads the answer to a permission, and whether it stands for good as a refusal.
pub(crate) fn permission_answer(
    response: RequestPermissionResponse,
    asked: &PermissionRequest,
) -> (Answer, bool) {
    let rule = asked.suggested_rules.first().cloned();
    let always = |persist| Answer::AllowAlways { rule: rule.clone(), persist };
    let no = Answer::Deny { feedback: None };
    match pressed(response).as_deref() {
        Some(ALLOW_ONCE) => (Answer::AllowOnce, false),
        Some(ALLOW_SESSION) if rule.is_some() => (always(Persist::Session), false),
        Some(ALLOW_PROJECT) if rule.is_some() => (always(Persist::Project), false),
        Some(REJECT_ALWAYS) => (no, true),
        _ => (no, false),
    }
}

/// Reads the answer to a plan.
pub(crate) fn plan_answer(response: RequestPermissionResponse) -> Answer {
    let mode = pressed(response)
        .and_then(|id| id.strip_prefix(OPTION).and_then(|mode| mode.parse::<Mode>().ok()));
    match mode {
        Some(mode) => Answer::Approved { mode: Some(mode) },
        None => Answer::Rejected { feedback: None },
    }
}

/// Reads the answer to a question that was put as buttons.
pub(crate) fn question_answer(
    response: RequestPermissionResponse,
    asked: &QuestionRequest,
) -> Answer {
    let place = pressed(response)
        .and_then(|id| id.strip_prefix(OPTION).and_then(|place| place.parse::<usize>().ok()));
    match place.and_then(|place| asked.options.get(place)) {
        Some(option) => Answer::Chosen { answers: vec![option.id.clone()], other: None },
        None => Answer::Dismissed,
    }
}

/// Puts a question as a form.
pub(crate) fn form(session: &SessionId, asked: &QuestionRequest) -> CreateElicitationRequest {
    let options: Vec<EnumOption> = asked
        .options
        .iter()
        .map(|it| {
            EnumOption::new(it.id.clone(), it.label.clone()).description(it.description.clone())
        })
        .collect();
    let must = !asked.allow_other;
    let mut schema = ElicitationSchema::new();
    if !options.is_empty() {
        schema = match asked.multi_select {
            true => {
                let field = MultiSelectPropertySchema::titled(options);
                schema.property(ANSWER, field.title("Answer"), must)
            }
            false => {
                let field = StringPropertySchema::new().one_of(options);
                schema.property(ANSWER, field.title("Answer"), must)
            }
        };
    }
    if asked.allow_other || asked.options.is_empty() {
        let field = StringPropertySchema::new().title("In your own words");
        schema = schema.property(OTHER, field, asked.options.is_empty());
    }
    let call = asked.tool_call_id.as_ref().map(|id| id.as_str().to_owned().into());
    let scope = ElicitationSessionScope::new(session.as_str().to_owned()).tool_call_id(call);
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), asked.question.clone())
}

/// Reads a form that came back.
pub(crate) fn form_answer(response: CreateElicitationResponse) -> Answer {
    let ElicitationAction::Accept(accepted) = response.action else { return Answer::Dismissed };
    let mut content = accepted.content.unwrap_or_default();
    let answers = match content.remove(ANSWER) {
        Some(ElicitationContentValue::String(id)) if !id.is_empty() => vec![id],
        Some(ElicitationContentValue::StringArray(ids)) => ids,
        _ => Vec::new(),
    };
    let other = match content.remove(OTHER) {
        Some(ElicitationContentValue::String(words)) if !words.trim().is_empty() => Some(words),
        _ => None,
    };
    if answers.is_empty() && other.is_none() {
        return Answer::Dismissed;
    }
    Answer::Chosen { answers, other }
}

#[cfg(test)]
mod tests;
