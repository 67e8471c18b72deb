//! What the program asks a host: approvals, questions, plans.

use jsonrpc::CallError;
use protocol::event::{Answer, PermissionRequest, Persist, WORDS_CHARS_MAX};
use protocol::{EventBody, Mode, RefusalCode, RequestId, SessionId};
use runtime_api::{Error, Handle};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::door::Host;

/// What came of asking.
pub(crate) enum Asked {
    /// An answer, or what counts as one.
    Answer(Answer),
    /// The host has gone, and the request still waits.
    Gone,
}

/// Puts a request to a host and waits for its answer. What it does not take is decided against.
pub(crate) async fn put(host: &Host, session: &SessionId, body: &EventBody) -> Asked {
    let capabilities = &host.capabilities;
    match body {
        EventBody::PermissionRequest(request) => {
            if !capabilities.takes_approvals() {
                return denied("the application decides no approvals");
            }
            let params = json!({
                "sessionId": session, "requestId": request.request_id, "approval": card(request)
            });
            ask(host, "approval/request", params, approval, |words| Answer::Deny {
                feedback: Some(words),
            })
            .await
        }
        EventBody::QuestionRequest(request) => {
            if !capabilities.takes_questions() {
                return Asked::Answer(Answer::Dismissed);
            }
            let params = json!({
                "sessionId": session, "requestId": request.request_id,
                "question": request.question, "options": request.options,
                "multiSelect": request.multi_select, "allowOther": request.allow_other
            });
            ask(host, "interaction/question", params, question, |_| Answer::Dismissed).await
        }
        EventBody::PlanRequest(request) => {
            if !capabilities.takes_plans() {
                return Asked::Answer(Answer::Rejected { feedback: None });
            }
            let params = json!({
                "sessionId": session, "requestId": request.request_id, "plan": request.plan
            });
            ask(host, "interaction/plan", params, plan, |words| Answer::Rejected {
                feedback: Some(words),
            })
            .await
        }
        _ => Asked::Gone,
    }
}

/// Asks; an error, and an answer that is none, count as a no.
async fn ask(
    host: &Host,
    method: &str,
    params: Value,
    read: impl Fn(Value) -> Result<Answer, String>,
    no: impl Fn(String) -> Answer,
) -> Asked {
    // How long a person may take is the runtime's to say: it decides, and this is dropped.
    match host.peer.call(method, &params, None).await {
        Ok(answer) => Asked::Answer(read(answer).unwrap_or_else(|what| {
            tracing::warn!(method, what, "a host's answer is none");
            no(format!("the application's answer to {method} could not be read: {what}"))
        })),
        Err(CallError::Refused(error)) => {
            let message = error.message;
            Asked::Answer(no(cut(&format!("the application answered with an error: {message}"))))
        }
        Err(CallError::Gone | CallError::Late) => Asked::Gone,
    }
}

fn denied(why: &str) -> Asked {
    Asked::Answer(Answer::Deny { feedback: Some(why.to_owned()) })
}

/// Lets the runtime decide. What it does not take of an answer is not let through.
pub(crate) async fn decide(
    handle: &Handle,
    session: &SessionId,
    request: &RequestId,
    answer: Answer,
) {
    let refusal = match handle.answer(session, request, answer.clone()).await {
        Ok(()) => return,
        Err(Error::Refusal(refusal)) => refusal,
        Err(Error::Fault(fault)) => {
            tracing::error!(%fault, "hand on a host's answer");
            return;
        }
    };
    let is_over = matches!(
        refusal.code,
        RefusalCode::RequestResolved | RefusalCode::RequestNotFound | RefusalCode::SessionNotFound
    );
    if is_over {
        return;
    }
    tracing::warn!(%session, %refusal, "a host's answer does not fit");
    let instead = match answer {
        // The call itself was allowed, and no rule was named.
        Answer::AllowAlways { rule: None, .. } => Answer::AllowOnce,
        Answer::AllowAlways { .. } | Answer::AllowOnce => {
            Answer::Deny { feedback: Some(cut(&refusal.message)) }
        }
        Answer::Chosen { .. } => Answer::Dismissed,
        Answer::Approved { .. } => Answer::Rejected { feedback: Some(cut(&refusal.message)) },
        _ => return,
    };
    if let Err(error) = handle.answer(session, request, instead).await {
        tracing::warn!(%session, %error, "decide what a host did not");
    }
}

/// Words what is to be approved.
fn card(request: &PermissionRequest) -> Value {
    let mut card = json!({
        "toolName": request.tool_name, "toolCallId": request.tool_call_id,
        "effect": request.effect, "summary": request.target.summary, "input": request.input,
        "risk": request.risk, "reason": if request.review { "review" } else { "ask" },
        "suggestedRules": request.suggested_rules,
    });
    let Some(fields) = card.as_object_mut() else { return card };
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    if !request.target.paths.is_empty() {
        add("paths", json!(request.target.paths));
    }
    if let Some(command) = request.input.get("command").filter(|command| command.is_string()) {
        add("command", command.clone());
    }
    if let Some(diff) = &request.diff {
        add("diff", json!(diff));
    }
    if !request.checks.is_empty() {
        // What blocks was refused before anybody was asked.
        let is_blocking = request.checks.iter().any(|finding| finding.blocking);
        add("checks", json!({"blocking": is_blocking, "findings": request.checks}));
    }
    card
}

/// Cuts words to what an answer may hold.
fn cut(words: &str) -> String {
    words.chars().take(WORDS_CHARS_MAX).collect()
}

fn words(map: &Map<String, Value>, field: &str) -> Option<String> {
    map.get(field).and_then(Value::as_str).map(cut)
}

fn object(answer: Value) -> Result<Map<String, Value>, String> {
    match answer {
        Value::Object(map) => Ok(map),
        _ => Err("expected an object".to_owned()),
    }
}

fn approval(answer: Value) -> Result<Answer, String> {
    let map = object(answer)?;
    match map.get("outcome").and_then(Value::as_str) {
        Some("allow_once") => Ok(Answer::AllowOnce),
        Some("allow_always") => {
            let persist = match map.get("persist") {
                None | Some(Value::Null) => Persist::Session,
                Some(value) => {
                    Persist::deserialize(value).map_err(|error| format!("persist: {error}"))?
                }
            };
            Ok(Answer::AllowAlways { rule: words(&map, "rule"), persist })
        }
        Some("deny") => Ok(Answer::Deny { feedback: words(&map, "reason") }),
        _ => Err("outcome: expected allow_once, allow_always or deny".to_owned()),
    }
}

fn question(answer: Value) -> Result<Answer, String> {
    let map = object(answer)?;
    if map.get("dismissed") == Some(&Value::Bool(true)) {
        return Ok(Answer::Dismissed);
    }
    let answers = match map.get("answers") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => Vec::deserialize(value).map_err(|error| format!("answers: {error}"))?,
    };
    Ok(Answer::Chosen { answers, other: words(&map, "other") })
}

fn plan(answer: Value) -> Result<Answer, String> {
    let map = object(answer)?;
    match map.get("approved") {
        Some(Value::Bool(true)) => {
            let mode = match map.get("mode") {
                None | Some(Value::Null) => None,
                Some(mode) => {
                    Some(Mode::deserialize(mode).map_err(|error| format!("mode: {error}"))?)
                }
            };
            Ok(Answer::Approved { mode })
        }
        Some(Value::Bool(false)) => Ok(Answer::Rejected { feedback: words(&map, "feedback") }),
        _ => Err("approved: expected true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_what_they_say_and_nothing_wider() {
        let deny = |words: Option<&str>| Answer::Deny { feedback: words.map(str::to_owned) };
        assert_eq!(approval(json!({"outcome": "allow_once"})), Ok(Answer::AllowOnce));
        assert_eq!(approval(json!({"outcome": "deny", "reason": "no"})), Ok(deny(Some("no"))));
        let always = Answer::AllowAlways { rule: Some("r".to_owned()), persist: Persist::Session };
        assert_eq!(approval(json!({"outcome": "allow_always", "rule": "r"})), Ok(always));
        for wrong in [
            json!(null),
            json!([]),
            json!({}),
            json!({"outcome": "allow"}),
            json!({"outcome": true}),
            json!({"outcome": "allow_always", "persist": "for ever"}),
        ] {
            assert!(approval(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(question(json!({"dismissed": true})), Ok(Answer::Dismissed));
        let other = Some("o".to_owned());
        let chosen = Answer::Chosen { answers: vec!["a".to_owned()], other };
        assert_eq!(question(json!({"answers": ["a"], "other": "o"})), Ok(chosen));
        assert!(question(json!({"answers": 7})).is_err());
        assert_eq!(plan(json!({"approved": true})), Ok(Answer::Approved { mode: None }));
        assert_eq!(plan(json!({"approved": false})), Ok(Answer::Rejected { feedback: None }));
        assert!(plan(json!({"approved": "yes"})).is_err());
        assert!(plan(json!({"approved": true, "mode": "root"})).is_err());
    }
}
