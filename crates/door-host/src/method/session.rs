//! Sessions: begun, loaded, copied, listed, prompted, closed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jsonrpc::ErrorObject;
use native_wire::limited::{Text, Word};
use native_wire::{Session, parts};
use protocol::{MessageId, SessionId, Timestamp};
use runtime_api::{CreateSession, ForkPoint, Interrupt, Prompt, SessionFilter, SessionInfo};
use serde_json::{Value, json};

use super::{id, require_going, wire};
use crate::door::{Host, Inner};
use crate::error::{application, invalid, refused};
use crate::fields::put;
use crate::params::{
    self, Fork, LIST_MAX, ListSessions, NewSession, OfSession, SendPrompt, SetMode, SetModel,
};

/// Sessions of a list whose length nobody asked for.
const LIST_USUAL: u64 = 50;

/// Slash commands that would let sessions use another provider.
const OTHER_PROVIDERS: [&str; 2] = ["/login", "/provider"];

pub(super) async fn new(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    params: Value,
) -> Result<Value, ErrorObject> {
    let asked: NewSession = params::read(params)?;
    require_going(door)?;
    require_policy(door, host)?;
    let cwd = asked.cwd.into_string();
    if !Path::new(&cwd).is_absolute() {
        return Err(invalid("cwd: expected the absolute path of a folder"));
    }
    let surroundings = &door.options.surroundings;
    let allowed = host.capabilities.allowed_models();
    let policy = surroundings.binding(allowed.as_deref());
    let model = asked.model.map(Text::into_string);
    let model = model.or_else(|| surroundings.default_model(allowed.as_deref()));
    let session = CreateSession {
        cwd,
        model,
        mode: asked.mode.map(|Word(mode)| mode).or(door.options.mode),
        title: asked.title.map(Text::into_string),
        allow: Vec::new(),
        deny: Vec::new(),
        append_system_prompt: asked.append_system_prompt.map(Text::into_string),
        neuron: None,
        sandbox: None,
        tools: None,
        // What is reviewed is the host's to say, whoever opens the session next.
        asks_for: Vec::new(),
        max_turns: None,
        agent: door.agent(host, policy.clone()),
    };
    let info = door.options.handle.create(session).await.map_err(refused)?;
    door.seat(&info.id, host, policy);
    Ok(wire(&Session::from(info)))
}

/// Refuses sessions of a host that wants a policy first.
fn require_policy(door: &Inner, host: &Host) -> Result<(), ErrorObject> {
    if host.capabilities.requires_policy() && !door.has_policy.load(Ordering::Relaxed) {
        let message = "a policy is required here and none was pushed yet: policy/push comes first";
        return Err(application("locked_by_policy", message));
    }
    Ok(())
}

pub(super) async fn load(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    params: Value,
) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    require_going(door)?;
    require_policy(door, host)?;
    let id = id(&session_id)?;
    let info = door.options.handle.info(&id).await.map_err(refused)?;
    if info.is_open {
        door.adopt(&id, host).await?;
        return Ok(wire(&Session::from(door.session(&id).await?)));
    }
    let info = open(door, host, &id).await?;
    Ok(wire(&Session::from(info)))
}

/// Opens a stored session for a host, which is asked what waits in it.
async fn open(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    id: &SessionId,
) -> Result<SessionInfo, ErrorObject> {
    let allowed = host.capabilities.allowed_models();
    let policy = door.options.surroundings.binding(allowed.as_deref());
    let agent = door.agent(host, policy.clone());
    // Before it is opened: a turn that goes on may ask at once.
    door.seat(id, host, policy.clone());
    match door.options.handle.open(id, agent).await {
        Ok(info) => {
            // Its last closing may have been heard of just now.
            door.seat(id, host, policy);
            crate::attend::ask_what_waits(door, id).await;
            Ok(info)
        }
        Err(error) => {
            door.unseat(id);
            Err(refused(error))
        }
    }
}

pub(super) async fn fork(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    params: Value,
) -> Result<Value, ErrorObject> {
    let Fork { session_id, message_id } = params::read(params)?;
    require_going(door)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let until = match message_id {
        None => ForkPoint::End,
        Some(message) => ForkPoint::Message(MessageId::new(message.into_string())),
    };
    let copy = door.options.handle.fork(&id, until).await.map_err(refused)?;
    match open(door, host, &copy.id).await {
        Ok(info) => Ok(wire(&Session::from(info))),
        Err(error) => {
            // One that cannot be opened is not left behind.
            if let Err(error) = door.options.handle.remove(&copy.id).await {
                tracing::warn!(session = %copy.id, %error, "remove a copy");
            }
            Err(error)
        }
    }
}

pub(super) async fn list(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let ListSessions { cursor, limit } = params::read(params)?;
    let limit = params::limit(limit, LIST_USUAL, LIST_MAX)?;
    let before = cursor.map(|cursor| place(cursor.as_str())).transpose()?;
    let handle = &door.options.handle;
    let filter = SessionFilter { cwd: None, before, limit };
    let page = handle.list(filter).await.map_err(refused)?;
    let next = page.last().filter(|_| page.len() == limit);
    let next = next.map(|info| format!("{}.{}", info.updated_at.0, info.id));
    let mut sessions = Vec::with_capacity(page.len());
    for info in page {
        // Of those that are open here more is known than the list has.
        let known = if info.is_open { handle.info(&info.id).await.ok() } else { None };
        sessions.push(Session::from(known.unwrap_or(info)));
    }
    let mut answer = json!({"sessions": sessions});
    if let Some(next) = next {
        put(&mut answer, "nextCursor", next);
    }
    Ok(answer)
}

/// Reads where a page ended.
fn place(cursor: &str) -> Result<(Timestamp, SessionId), ErrorObject> {
    let place = cursor
        .split_once('.')
        .and_then(|(at, id)| Some((Timestamp(at.parse().ok()?), SessionId::new(id))));
    place.ok_or_else(|| invalid("cursor: expected the nextCursor of a page before"))
}

pub(super) async fn close(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    door.close_session(&id).await?;
    Ok(json!({}))
}

pub(super) async fn prompt(
    door: &Arc<Inner>,
    host: &Arc<Host>,
    params: Value,
) -> Result<Value, ErrorObject> {
    let SendPrompt { session_id, text, attachments } = params::read(params)?;
    require_going(door)?;
    let id = id(&session_id)?;
    let first = text.as_str().split_whitespace().next().unwrap_or_default();
    if host.capabilities.is_exclusive() && OTHER_PROVIDERS.contains(&first) {
        let message = format!("{first}: the application lets its own endpoint be used alone");
        return Err(application("locked_by_policy", message));
    }
    let parts = parts(text.into_string(), attachments).map_err(invalid)?;
    door.session(&id).await?;
    door.adopt(&id, host).await?;
    let prompt = Prompt { parts, ..Prompt::default() };
    let accepted = door.options.handle.prompt(&id, prompt).await.map_err(refused)?;
    Ok(json!({"promptId": accepted.prompt_id}))
}

pub(super) async fn cancel(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let cancelled = door.options.handle.interrupt(&id, Interrupt::Running).await;
    Ok(json!({"cancelled": cancelled.map_err(refused)?}))
}

pub(super) async fn set_model(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let SetModel { session_id, model } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    door.options.handle.set_model(&id, model.as_str()).await.map_err(refused)?;
    Ok(wire(&Session::from(door.session(&id).await?)))
}

pub(super) async fn set_mode(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let SetMode { session_id, mode: Word(mode) } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    door.options.handle.set_mode(&id, mode).await.map_err(refused)?;
    Ok(wire(&Session::from(door.session(&id).await?)))
}
