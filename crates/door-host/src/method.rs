//! What a host may ask.

mod back;
mod session;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jsonrpc::ErrorObject;
use native_wire::{Commands, SessionSpending, Tasks};
use protocol::SessionId;
use runtime_api::SessionState;
use serde::Serialize;
use serde_json::{Value, json};

use crate::door::{Host, Inner};
use crate::error::{invalid, no_method, no_session, policy_rejected, refused, shutting_down};
use crate::fields::put;
use crate::params::{
    self, EVENTS_MAX, IdText, Nothing, OfSession, PullEvents, Push, SendAnswer, Shutdown, Subscribe,
};
use crate::stream::{self, Stream};

/// What is answered, and what follows from it.
pub(crate) enum Outcome {
    /// Nothing follows.
    Answer(Value),
    /// Events follow the answer.
    Stream(Value, Box<Stream>),
    /// The program ends after the answer; running turns may go on so long.
    Stop(Option<Duration>),
}

/// Does what a host asks.
///
/// # Errors
/// What it is answered instead.
pub(crate) async fn call(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    method: &str,
    params: Value,
) -> Result<Outcome, ErrorObject> {
    let answer = match method {
        "health" => health(door, params).await,
        "shutdown" => {
            let Shutdown { grace_ms } = params::read(params)?;
            let grace = grace_ms.map(|ms| Duration::from_millis(ms.into()));
            return Ok(Outcome::Stop(grace));
        }
        "policy/push" => push(door, params),
        "session/new" => Box::pin(session::new(door, host, params)).await,
        "session/load" => Box::pin(session::load(door, host, params)).await,
        "session/list" => session::list(door, params).await,
        "session/fork" => Box::pin(session::fork(door, host, params)).await,
        "session/close" => session::close(door, params).await,
        "session/prompt" => Box::pin(session::prompt(door, host, params)).await,
        "session/cancel" => session::cancel(door, params).await,
        "session/set_model" => session::set_model(door, params).await,
        "session/set_mode" => session::set_mode(door, params).await,
        "session/subscribe" => return Box::pin(subscribe(door, host, params)).await,
        "session/events" => events(door, params).await,
        "session/answer" => answer(door, params).await,
        "session/checkpoints" => back::checkpoints(door, params).await,
        "session/rewind" => back::rewind(door, params).await,
        "session/undo" => back::undo(door, params).await,
        "session/tasks" => tasks(door, params).await,
        "session/usage" => usage(door, params).await,
        "session/commands" => commands(door, params).await,
        other => Err(no_method(other)),
    };
    answer.map(Outcome::Answer)
}

/// Reads which session is meant. What has not the form of an id names none.
fn id(text: &IdText) -> Result<SessionId, ErrorObject> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match text.as_str() {
        text if text.bytes().all(is_letter) => Ok(SessionId::new(text)),
        _ => Err(no_session()),
    }
}

/// Refuses new work once the program stops.
fn require_going(door: &Inner) -> Result<(), ErrorObject> {
    if door.stopping.is_cancelled() { Err(shutting_down()) } else { Ok(()) }
}

/// Words an answer. All of it is made of texts and numbers and has a JSON form.
fn wire(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer has no JSON form");
        json!({})
    })
}

async fn health(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let Nothing {} = params::read(params)?;
    let opened = door.options.handle.opened().await.map_err(refused)?;
    let running = opened.iter().filter(|info| info.state != SessionState::Idle).count();
    let uptime = u64::try_from(door.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(json!({
        "status": "ok", "version": door.options.version, "uptimeMs": uptime,
        "sessions": opened.len(), "running": running
    }))
}

fn push(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let Push { bundle, signature, key_id } = params::read(params)?;
    let mut envelope = json!({"bundle": bundle});
    if let Some(signature) = signature {
        put(&mut envelope, "signature", signature);
    }
    if let Some(key_id) = key_id {
        put(&mut envelope, "keyId", key_id);
    }
    let pushed = door.options.surroundings.push(&envelope).map_err(policy_rejected)?;
    door.has_policy.store(true, Ordering::Relaxed);
    tracing::info!(id = pushed.id, "the host pushed a policy");
    door.tell_all("policy", "policy_pushed", &json!({"id": pushed.id}));
    Ok(json!({"accepted": true, "id": pushed.id, "strippedKeys": pushed.stripped_keys}))
}

async fn subscribe(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    params: Value,
) -> Result<Outcome, ErrorObject> {
    let Subscribe { session_id, after_seq } = params::read(params)?;
    let (id, after) = (id(&session_id)?, stream::after(after_seq)?);
    door.session(&id).await?;
    door.adopt(&id, host).await?;
    let info = door.session(&id).await?;
    let (answer, stream) = stream::subscribe(door, host, &info, after).await?;
    Ok(Outcome::Stream(answer, Box::new(stream)))
}

async fn events(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let PullEvents { session_id, after_seq, limit } = params::read(params)?;
    let limit = params::limit(limit, EVENTS_MAX, EVENTS_MAX)?;
    let after = stream::after(after_seq)?.unwrap_or(0);
    let info = door.session(&id(&session_id)?).await?;
    stream::pull(door, &info, after, limit).await
}

async fn answer(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let SendAnswer { session_id, request_id, answer } = params::read(params)?;
    let answer = answer.checked().map_err(invalid)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let request = protocol::RequestId::new(request_id.as_str());
    door.options.handle.answer(&id, &request, answer).await.map_err(refused)?;
    Ok(json!({"ok": true}))
}

async fn tasks(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    door.session(&id(&session_id)?).await?;
    Ok(wire(&Tasks { tasks: Vec::new() }))
}

async fn usage(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let used = door.options.handle.usage(&id).await.map_err(refused)?;
    Ok(wire(&SessionSpending::from(used)))
}

async fn commands(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let commands = door.options.handle.commands(&id).await.map_err(refused)?;
    Ok(wire(&Commands { commands: commands.into_iter().map(Into::into).collect() }))
}
