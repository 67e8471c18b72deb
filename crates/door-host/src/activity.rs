//! What a host is told of all sessions, in batches.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jsonrpc::Peer;
use protocol::{Event, EventBody};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

/// How long entries are gathered before they are sent: nobody who audits minds, and a burst is one
/// message.
const GATHER: Duration = Duration::from_millis(50);

/// Entries that wait for a host that reads slowly; older ones are dropped then, and their number
/// is told by the hole in `seq`.
const WAITING_MAX: usize = 10_000;

/// Entries of one message.
const BATCH_MAX: usize = 500;

/// What waits to be told.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    waiting: Mutex<VecDeque<Value>>,
    fresh: Notify,
}

impl Activity {
    pub(crate) fn push(&self, entry: Value) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(entry);
        drop(waiting);
        self.fresh.notify_one();
    }

    /// Tells the host until it has gone.
    pub(crate) async fn tell(&self, peer: &Peer) {
        loop {
            tokio::select! {
                () = peer.gone() => return,
                () = self.fresh.notified() => {}
            }
            sleep(GATHER).await;
            loop {
                let batch: Vec<Value> = {
                    let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = waiting.len().min(BATCH_MAX);
                    waiting.drain(..count).collect()
                };
                if batch.is_empty() {
                    break;
                }
                if peer.notify("activity/event", &json!({"events": batch})).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Words an event for an audit, without its number; none for what is no action.
pub(crate) fn entry(event: &Event) -> Option<Value> {
    let (kind, mut facts) = facts(&event.body)?;
    if let Some(entry) = facts.as_object_mut() {
        entry.insert("ts".to_owned(), event.ts.to_string().into());
        entry.insert("sessionId".to_owned(), event.session_id.as_str().into());
        entry.insert("kind".to_owned(), kind.into());
        entry.insert("event".to_owned(), event.body.kind().as_str().into());
    }
    Some(facts)
}

fn facts(body: &EventBody) -> Option<(&'static str, Value)> {
    Some(match body {
        EventBody::ToolCall(call) => (
            "tool_call",
            json!({
                "toolCallId": call.tool_call_id, "toolName": call.tool_name,
                "effect": call.target.effect, "summary": call.target.summary,
                "paths": call.target.paths,
            }),
        ),
        EventBody::ToolResult(result) => (
            "tool_result",
            json!({
                "toolCallId": result.tool_call_id, "toolName": result.tool_name,
                "isError": result.is_error, "durationMs": result.duration_ms,
            }),
        ),
        EventBody::ToolDenied(denied) => (
            "tool_result",
            json!({
                "toolCallId": denied.tool_call_id, "toolName": denied.tool_name,
                "isError": true, "deniedBy": denied.by, "reason": denied.reason,
            }),
        ),
        EventBody::PermissionRequest(request) => (
            "approval",
            json!({
                "requestId": request.request_id, "toolCallId": request.tool_call_id,
                "toolName": request.tool_name, "risk": request.risk,
            }),
        ),
        EventBody::RequestResolved(resolved) => (
            "approval",
            json!({
                "requestId": resolved.request_id, "outcome": resolved.outcome,
                "by": resolved.by, "rule": resolved.rule,
            }),
        ),
        EventBody::ModeChanged(changed) => ("mode", json!({"mode": changed.mode})),
        EventBody::ModelChanged(changed) => ("model", json!({"model": changed.model})),
        EventBody::PromptQueued(prompt) => ("prompt", json!({"promptId": prompt.prompt_id})),
        EventBody::PromptStarted(prompt) => ("prompt", json!({"promptId": prompt.prompt_id})),
        EventBody::PromptFinished(prompt) => ("prompt", json!({"promptId": prompt.prompt_id})),
        EventBody::SessionStart(start) => {
            ("session", json!({"cwd": start.cwd, "mode": start.mode, "model": start.model}))
        }
        EventBody::SessionClosed(closed) => ("session", json!({"reason": closed.reason})),
        _ => return None,
    })
}
