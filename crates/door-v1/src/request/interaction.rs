//! Requests that wait for a person, and their answers.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use protocol::Mode;
use protocol::event::{Answer, Persist, WORDS_CHARS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::BODY_BYTES_MAX;
use crate::door::Shared;
use crate::error::{Code, refused};
use crate::folder::{Standing, standing};
use crate::operation::{Operation, Tag};
use crate::place::{AtRequest, AtSession, no_session};
use crate::wire::{Request, Requests, Taken};

/// Characters of a rule.
const RULE_CHARS_MAX: usize = 1_000;

/// Answers to one question: no question has as many options.
const CHOSEN_MAX: usize = 100;

/// An answer, in the form of the kind of request that it answers.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct AnswerRequest(Answer);

impl JsonSchema for AnswerRequest {
    fn schema_name() -> Cow<'static, str> {
        "Answer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (mode, persist) =
            (generator.subschema_for::<Mode>(), generator.subschema_for::<Persist>());
        let words = json!({"type": ["string", "null"], "maxLength": WORDS_CHARS_MAX});
        let rule = json!({"type": ["string", "null"], "minLength": 1, "maxLength": RULE_CHARS_MAX,
            "description": "The rule to keep; the narrowest suggestion by default."});
        let chosen = json!({"type": "array", "items": {"type": "string"}, "maxItems": CHOSEN_MAX,
            "description": "Ids or labels of the chosen options."});
        let form = |title: &str, required: Value, properties: Value| {
            json!({"title": title, "type": "object", "additionalProperties": false,
                   "required": required, "properties": properties})
        };
        let inner = |title: &str, required: Value, properties: Value| {
            let answer = json!({"type": "object", "additionalProperties": false,
                                "minProperties": 1, "required": required,
                                "properties": properties});
            form(title, json!(["answer"]), json!({"answer": answer}))
        };
        json_schema!({
            "description": "An answer, in the form of the kind of request that it answers.",
            "oneOf": [
                form("AllowOnce", json!(["answer"]), json!({"answer": {"const": "allow_once"}})),
                form("AllowAlways", json!(["answer"]), json!({
                    "answer": {"const": "allow_always"}, "rule": rule, "persist": persist
                })),
                form("Deny", json!(["answer"]), json!({
                    "answer": {"const": "deny"}, "feedback": words
                })),
                inner("Chosen", json!([]), json!({"answers": chosen, "other": words})),
                inner("Dismissed", json!(["dismissed"]), json!({"dismissed": {"const": true}})),
                inner("Approved", json!(["approved"]), json!({
                    "approved": {"const": true}, "mode": mode
                })),
                inner("Rejected", json!(["approved"]), json!({
                    "approved": {"const": false}, "feedback": words
                }))
            ]
        })
    }
}

/// Holds an answer against the limits of this door.
fn check(answer: &Answer) -> Result<(), Problem> {
    match answer {
        Answer::AllowSaying { .. } => {
            Err(Problem::validation("feedback: does not belong to this answer"))?;
        }
        Answer::AllowAlways { rule: Some(rule), .. } => {
            let length = rule.chars().count();
            if !(1..=RULE_CHARS_MAX).contains(&length) {
                let what = format!("has {length} characters, expected 1 to {RULE_CHARS_MAX}");
                return Err(Problem::validation(format!("rule: {what}")));
            }
        }
        Answer::Chosen { answers, .. } if answers.len() > CHOSEN_MAX => {
            let what = format!("has {} items, expected at most {CHOSEN_MAX}", answers.len());
            return Err(Problem::validation(format!("answer.answers: {what}")));
        }
        _ => {}
    }
    Ok(())
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/sessions/{sessionId}/permissions", list)
            .named("listRequests", Tag::Prompts, "Lists the requests that wait for an answer")
            .says("Permissions, questions and plans alike, oldest first.")
            .of_session()
            .answers::<Requests>(StatusCode::OK, "The requests.", example()),
        Operation::post("/v1/sessions/{sessionId}/permissions/{requestId}", answer)
            .named("answerRequest", Tag::Prompts, "Answers a request")
            .says(
                "The form of the answer belongs to the kind of the request; the first answer \
                 counts. Where another living process owns the session, the answer is handed to \
                 it.",
            )
            .takes::<AnswerRequest>(BODY_BYTES_MAX, examples())
            .of_session()
            .refuses(&[Code::RequestNotFound, Code::RequestResolved, Code::LockedByPolicy])
            .answers::<Taken>(StatusCode::OK, "The answer was taken.", json!({"ok": true})),
    ]
}

fn example() -> Value {
    json!({"requests": [{
        "type": "permission_request", "requestId": "06f4zk3t5d0r8n2k7h9w1y4q6b",
        "toolCallId": "toolu_1", "toolName": "run_shell", "effect": "execute",
        "target": {"summary": "npm test", "effect": "execute"},
        "input": {"command": "npm test"}, "suggestedRules": ["run_shell(npm test *)"],
        "risk": "medium", "expiresAt": "2026-12-01T09:05:07.250Z",
        "sessionId": "06f4zk3q8w9v6x2m5n7p1r0t4c", "ts": "2026-12-01T09:00:07.250Z"
    }]})
}

fn examples() -> Vec<(&'static str, Value)> {
    vec![
        ("allow", json!({"answer": "allow_once"})),
        (
            "always",
            json!({
                "answer": "allow_always", "rule": "run_shell(npm test *)", "persist": "session"
            }),
        ),
        ("deny", json!({"answer": "deny", "feedback": "use the staging database instead"})),
        ("choose", json!({"answer": {"answers": ["Postgres"], "other": "with pgvector"}})),
        ("dismiss", json!({"answer": {"dismissed": true}})),
        ("approve", json!({"answer": {"approved": true, "mode": "auto-edit"}})),
        ("reject", json!({"answer": {"approved": false, "feedback": "split it in two PRs"}})),
    ]
}

async fn list(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Requests>, Problem> {
    door.session(&id).await?;
    let pending = door.handle.pending(Some(&id)).await.map_err(refused)?;
    Ok(Json(Requests { requests: pending.into_iter().map(Request::from).collect() }))
}

async fn answer(
    State(door): State<Shared>,
    AtRequest(id, request): AtRequest,
    JsonBody(AnswerRequest(answer)): JsonBody<AnswerRequest, BODY_BYTES_MAX>,
) -> Result<Json<Taken>, Problem> {
    check(&answer)?;
    let info = door.handle.info(&id).await.map_err(refused)?;
    // The runtime hands answers to the owner; all else of a session elsewhere is refused.
    let is_ours = info.is_open
        || (info.owner_pid.is_some()
            && standing(&door.roots, &info.cwd).await? != Standing::Outside);
    if !is_ours {
        return Err(no_session());
    }
    door.handle.answer(&id, &request, answer).await.map_err(refused)?;
    Ok(Json(Taken { ok: true }))
}
