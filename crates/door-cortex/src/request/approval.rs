//! Approvals: calls that wait for a decision.

use axum::Json;
use axum::extract::State;
use http_kit::Json as JsonBody;
use protocol::event::{Answer, PermissionRequest};
use protocol::{EventBody, RequestId, Seq, SessionId, Timestamp, ToolCallId};
use runtime_api::Pending;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Body;
use crate::door::{Door, Shared, is_active};
use crate::error::{Code, Refused, refused};
use crate::fields::{Fields, TextRule};
use crate::frame::{approval_id, run_id, session_id};
use crate::place::{AtApproval, AtSession};
use crate::preset::{effect_class, shown};

/// Why it was decided so.
const REASON: TextRule = TextRule::of(0, 1_000);

/// What stands for a reason that nobody gave.
const NO_REASON: &str = "no reason given";

/// Events that are read at a time, of a session that cannot be opened.
const PAGE: usize = 1_000;

/// A call that waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    approval_id: String,
    session_id: String,
    run_id: Option<String>,
    tool_call_id: ToolCallId,
    tool_name: String,
    tool_input: Map<String, Value>,
    effect_class: &'static str,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl Approval {
    /// Makes the outside form of what waits; none of what is no permission.
    fn of(pending: Pending, run: Option<&str>) -> Option<Self> {
        let EventBody::PermissionRequest(request) = pending.request else { return None };
        let PermissionRequest { request_id, tool_call_id, tool_name, input, .. } = request;
        Some(Self {
            approval_id: approval_id(&request_id),
            session_id: session_id(&pending.session),
            run_id: run.map(str::to_owned),
            tool_call_id,
            tool_name: shown(&tool_name).to_owned(),
            tool_input: input,
            effect_class: effect_class(request.effect),
            created_at: pending.since,
            expires_at: request.expires_at,
        })
    }
}

/// The calls that wait.
#[derive(Debug, Serialize)]
pub(crate) struct Approvals {
    approvals: Vec<Approval>,
}

/// What was decided.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    approval_id: String,
    decision: &'static str,
    reason: String,
    decided_by: &'static str,
    decided_at: Timestamp,
}

pub(crate) async fn list(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Approvals>, Refused> {
    let info = door.session(&id).await?;
    let is_left = is_active(&info) && info.owner_pid.is_none();
    // The run of a server that is no more ends, and nothing of it waits any longer.
    if is_left && let Err(refused) = door.awake(info).await {
        tracing::debug!(session = %id, code = refused.code().as_str(), "a session is not opened");
    }
    let pending = door.handle.pending(Some(&id)).await.map_err(refused)?;
    if pending.is_empty() {
        return Ok(Json(Approvals { approvals: Vec::new() }));
    }
    let record = door.records.at_end(&door.handle, &id).await.map_err(refused)?;
    let run = record.run().map(run_id);
    let approvals = pending.into_iter().filter_map(|it| Approval::of(it, run.as_deref()));
    Ok(Json(Approvals { approvals: approvals.collect() }))
}

pub(crate) async fn decide(
    State(door): State<Shared>,
    AtApproval(id, request): AtApproval,
    JsonBody(body): Body,
) -> Result<Json<Decision>, Refused> {
    let mut fields = Fields::of(body)?;
    let is_allowed = fields.word_needed("decision", &[("allow", true), ("deny", false)]);
    let reason = fields.text("reason", &REASON).filter(|words| !words.trim().is_empty());
    fields.finish()?;
    let is_allowed = is_allowed.unwrap_or(false);
    let info = door.session(&id).await?;
    if info.owner_pid.is_none()
        && let Err(refused) = door.awake(info).await
    {
        // A session that cannot be opened has no run, but its record knows what was decided.
        return Err(if is_decided(&door, &id, &request).await? {
            Code::AlreadyDecided.into()
        } else {
            refused
        });
    }
    let answer = match (is_allowed, reason.clone()) {
        (true, None) => Answer::AllowOnce,
        (true, Some(feedback)) => Answer::AllowSaying { feedback },
        (false, feedback) => Answer::Deny { feedback },
    };
    door.handle.answer(&id, &request, answer).await.map_err(refused)?;
    Ok(Json(Decision {
        approval_id: approval_id(&request),
        decision: if is_allowed { "allow" } else { "deny" },
        reason: reason.unwrap_or_else(|| NO_REASON.to_owned()),
        decided_by: "api",
        decided_at: door.now(),
    }))
}

/// Looks for a decision in a record.
async fn is_decided(door: &Door, id: &SessionId, request: &RequestId) -> Result<bool, Refused> {
    let mut at = Seq(0);
    loop {
        let page = door.handle.recorded(id, at, PAGE).await.map_err(refused)?;
        let Some(last) = page.last().and_then(|event| event.seq) else { return Ok(false) };
        at = last;
        let is_it = |body: &EventBody| match body {
            EventBody::RequestResolved(resolved) => resolved.request_id == *request,
            _ => false,
        };
        if page.iter().any(|event| is_it(&event.body)) {
            return Ok(true);
        }
    }
}
