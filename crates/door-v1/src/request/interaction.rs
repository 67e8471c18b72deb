//! Requests that wait for a person, and their answers.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use native_wire::AnswerRequest;
use serde_json::{Value, json};

use super::BODY_BYTES_MAX;
use crate::door::Shared;
use crate::error::{Code, refused};
use crate::folder::{Standing, standing};
use crate::operation::{Operation, Tag};
use crate::place::{AtRequest, AtSession, no_session};
use crate::wire::{Request, Requests, Taken};

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
    JsonBody(answer): JsonBody<AnswerRequest, BODY_BYTES_MAX>,
) -> Result<Json<Taken>, Problem> {
    let answer = answer.checked().map_err(Problem::validation)?;
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
