//! Sessions: created, listed, shown, deleted.

use axum::Json;
use axum::extract::State;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::{StatusCode, Uri};
use http_kit::Json as JsonBody;
use protocol::NeuronId;
use runtime_api::{CreateSession, SessionInfo};
use serde::Serialize;

use super::neuron::AGENT_ID;
use super::run::{MODEL, STEPS};
use super::{Body, transcript};
use crate::door::{Door, Shared};
use crate::error::{Refused, refused};
use crate::fields::{Fields, TextRule};
use crate::frame::session_id;
use crate::place::AtSession;
use crate::query::Query;
use crate::tree::Tree;
use crate::wire::Session;

/// What a session is called.
const NAME: TextRule = TextRule::of(1, 128).that(has_no_control, "no control characters");

/// Text after the system prompt.
const SYSTEM_PROMPT: TextRule = TextRule::of(0, 100_000);

/// Sessions whose records are read at once for a list: the store has few readers.
const READ_AT_ONCE: usize = 8;

/// Entries of a transcript that one answer holds.
const HISTORY_MAX: u64 = 1_000;

fn has_no_control(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// All sessions.
#[derive(Debug, Serialize)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
}

/// A session that is no more.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deleted {
    session_id: String,
    deleted: bool,
}

/// A session to create.
struct Wanted {
    neuron: NeuronId,
    name: Option<String>,
    model: Option<String>,
    system_prompt: Option<String>,
    steps: Option<u64>,
}

fn read(body: Tree) -> Result<Wanted, Refused> {
    let mut fields = Fields::of(body)?;
    let wanted = Wanted {
        neuron: NeuronId::new(fields.needed_text("agentId", &AGENT_ID)),
        name: fields.text("name", &NAME),
        model: fields.text("model", &MODEL),
        system_prompt: fields.text("systemPrompt", &SYSTEM_PROMPT),
        steps: fields.whole("maxTurns", STEPS),
    };
    fields.finish()?;
    Ok(wanted)
}

pub(crate) async fn create(
    State(door): State<Shared>,
    JsonBody(body): Body,
) -> Result<(StatusCode, Json<Session>), Refused> {
    let wanted = read(body)?;
    door.running(&wanted.neuron).await?;
    let asked = Shared::clone(&door);
    let info = door.to_its_end(async move { created(&asked, wanted).await }).await?;
    Ok((StatusCode::CREATED, Json(whole(&door, info).await?)))
}

async fn created(door: &Door, wanted: Wanted) -> Result<SessionInfo, Refused> {
    let session = CreateSession {
        // The working folder of the neuron.
        cwd: String::new(),
        model: wanted.model,
        mode: door.mode,
        title: wanted.name,
        allow: Vec::new(),
        deny: Vec::new(),
        append_system_prompt: wanted.system_prompt.filter(|text| !text.is_empty()),
        neuron: Some(wanted.neuron),
        sandbox: None,
        tools: Some(door.offered()),
        asks_for: door.asks_for.clone(),
        max_turns: wanted.steps.and_then(|steps| u32::try_from(steps).ok()),
        agent: door.agent.clone(),
    };
    door.handle.create(session).await.map_err(refused)
}

/// Makes the outside form of a session.
async fn whole(door: &Door, info: SessionInfo) -> Result<Session, Refused> {
    let record = door.records.at_end(&door.handle, &info.id).await.map_err(refused)?;
    Ok(Session::of(door, info, &record))
}

pub(crate) async fn list(State(door): State<Shared>, uri: Uri) -> Result<Json<Sessions>, Refused> {
    let query = Query::of(&uri)?;
    let neuron = query.get("agentId").map(NeuronId::new);
    if let Some(id) = query.get("agentId")
        && let Err((code, message)) = AGENT_ID.check(id)
    {
        return Err(Refused::field("agentId", code, message));
    }
    let mut sessions = door.sessions().await?;
    sessions.retain(|info| neuron.is_none() || info.neuron == neuron);
    let door = &door;
    let read = stream::iter(sessions.into_iter().map(|info| whole(door, info)));
    let sessions = read.buffered(READ_AT_ONCE).try_collect().await?;
    Ok(Json(Sessions { sessions }))
}

pub(crate) async fn show(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    uri: Uri,
) -> Result<Json<Session>, Refused> {
    let history = Query::of(&uri)?.whole("history", 1, HISTORY_MAX)?;
    let info = door.session(&id).await?;
    let mut session = whole(&door, info).await?;
    if let Some(count) = history.and_then(|count| usize::try_from(count).ok()) {
        session.history = Some(transcript::newest(&door.handle, &id, count).await?);
    }
    Ok(Json(session))
}

pub(crate) async fn remove(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Deleted>, Refused> {
    door.session(&id).await?;
    let (asked, session) = (Shared::clone(&door), id.clone());
    door.to_its_end(async move { asked.erase(&session).await.map_err(refused) }).await?;
    Ok(Json(Deleted { session_id: session_id(&id), deleted: true }))
}
