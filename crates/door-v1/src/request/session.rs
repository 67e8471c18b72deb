//! Sessions: created, resumed, listed, closed.

mod create;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use protocol::event::SessionEnd;
use runtime_api::{SessionFilter, SessionInfo};
use serde_json::{Value, json};

use self::create::CreateSession;
use super::BODY_BYTES_MAX;
use crate::door::{Door, Shared};
use crate::error::{Code, refused};
use crate::folder::{self, Standing, standing};
use crate::idempotency::{self, Key, once};
use crate::limited::Object;
use crate::operation::{Operation, Tag};
use crate::place::{AtSession, no_session};
use crate::query::{Query, shown};
use crate::wire::{Session, Sessions, State as Doing};

/// Stored sessions that a list shows; more are not looked for by scrolling.
const STORED_MAX: usize = 100;

/// Pages of stored sessions that are read to find those inside the roots: a store that many
/// folders share costs no more than this.
const STORED_PAGES_MAX: usize = 10;

/// A session for the document's examples.
pub(crate) fn example() -> Value {
    json!({
        "id": "06f4zk3q8w9v6x2m5n7p1r0t4c", "cwd": "/home/me/src/app", "mode": "ask",
        "model": "anthropic/claude-sonnet-4-6", "title": "List the TODOs", "state": "idle",
        "queued": 0, "createdAt": "2026-12-01T09:00:00.000Z",
        "updatedAt": "2026-12-01T09:00:07.250Z", "lastEventId": 42, "pendingRequests": 0
    })
}

/// The schema of the header that makes a request safe to repeat.
pub(crate) fn key_schema() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": idempotency::KEY_CHARS_MAX,
           "pattern": "^[!-~]+$"})
}

/// What the header does.
pub(crate) const KEY_SAYS: &str = "Makes the request safe to repeat: within ten minutes the same \
    key with the same body gives the first answer again, with `Idempotency-Replayed: true`, and \
    starts nothing twice. Only successes are remembered, and only while the server runs.";

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        create_operation(),
        Operation::get("/v1/sessions", list)
            .named("listSessions", Tag::Sessions, "Lists sessions, newest first")
            .says(
                "Without `state` those that are open here; with `idle`, `running` or `waiting` \
                 those of them in that state; with `stored` the newest 100 that are stored, not \
                 open anywhere, and inside the roots: `resume` opens one.",
            )
            .query(
                "state",
                json!({"type": "string", "enum": ["idle", "running", "waiting", "stored"]}),
                "Which sessions to list.",
            )
            .answers::<Sessions>(StatusCode::OK, "The sessions.", json!({"sessions": [example()]})),
        Operation::get("/v1/sessions/{sessionId}", show)
            .named("getSession", Tag::Sessions, "Shows a session")
            .of_session()
            .answers::<Session>(StatusCode::OK, "The session.", example()),
        Operation::delete("/v1/sessions/{sessionId}", delete)
            .named("deleteSession", Tag::Sessions, "Closes or erases a session")
            .says(
                "A running prompt is stopped, its streams get `session_closed` and end. The log \
                 stays: `resume` opens the session again. With `purge=true` the log is erased as \
                 well, also of a stored session inside the roots.",
            )
            .query(
                "purge",
                json!({"type": "boolean", "default": false}),
                "Whether to erase the log as well.",
            )
            .of_session()
            .answers_nothing("It is closed."),
    ]
}

fn create_operation() -> Operation {
    Operation::post("/v1/sessions", create)
        .named("createSession", Tag::Sessions, "Creates a session, or resumes a stored one")
        .says(
            "Every field may be left out. With `resume` the stored session is opened with the \
             folder, title, rules and instructions that it was created with, so that those fields \
             are refused then; `mode` and `model` change it, and where it cannot have them \
             nothing is touched. Resuming one that is open here answers with it.",
        )
        .header("Idempotency-Key", key_schema(), KEY_SAYS)
        .takes::<CreateSession>(
            BODY_BYTES_MAX,
            vec![
                ("plain", json!({"mode": "ask"})),
                (
                    "full",
                    json!({
                        "cwd": "src/app", "mode": "auto-edit", "title": "Fix the parser",
                        "allow": ["run_shell(npm test *)"], "deny": ["web_fetch"]
                    }),
                ),
                ("resume", json!({"resume": "06f4zk3q8w9v6x2m5n7p1r0t4c"})),
            ],
        )
        .refuses(&[
            Code::CwdOutsideRoots,
            Code::LockedByPolicy,
            Code::ModelNotAllowed,
            Code::InvalidModel,
            Code::SessionNotFound,
            Code::OwnedElsewhere,
            Code::IdempotencyConflict,
            Code::TooManySessions,
        ])
        .answers::<Session>(StatusCode::CREATED, "The session, open here.", example())
}

async fn create(
    State(door): State<Shared>,
    key: Key,
    JsonBody(Object(body)): JsonBody<Object<CreateSession>, BODY_BYTES_MAX>,
) -> Result<Response, Problem> {
    let key = key.with(&body);
    let work = create::create(Shared::clone(&door), body);
    once(&door, ("createSession", None, key), StatusCode::CREATED, work).await
}

async fn list(State(door): State<Shared>, mut query: Query) -> Result<Json<Sessions>, Problem> {
    let state = query.take("state")?;
    let wanted = match state.as_deref() {
        None => None,
        Some("stored") => return Ok(Json(Sessions { sessions: stored(&door).await? })),
        Some("idle") => Some(Doing::Idle),
        Some("running") => Some(Doing::Running),
        Some("waiting") => Some(Doing::Waiting),
        Some(other) => {
            let right = "expected idle, running, waiting or stored";
            return Err(Problem::validation(format!("state: is {}, {right}", shown(other))));
        }
    };
    let opened = door.handle.opened().await.map_err(refused)?;
    let sessions = opened.into_iter().map(Session::from);
    let is_wanted = |session: &Session| wanted.is_none_or(|wanted| session.state == wanted);
    Ok(Json(Sessions { sessions: sessions.filter(is_wanted).collect() }))
}

/// Reads the newest stored sessions that are not open here and lie inside the roots.
async fn stored(door: &Door) -> Result<Vec<Session>, Problem> {
    let mut found = Vec::new();
    let mut before = None;
    for _ in 0..STORED_PAGES_MAX {
        let filter = SessionFilter { cwd: None, before, limit: STORED_MAX };
        let page = door.handle.list(filter).await.map_err(refused)?;
        let is_last = page.len() < STORED_MAX;
        before = page.last().map(|info| (info.updated_at, info.id.clone()));
        found.extend(resumable(door, page).await?);
        if is_last || found.len() >= STORED_MAX {
            break;
        }
    }
    found.truncate(STORED_MAX);
    Ok(found.into_iter().map(Session::from).collect())
}

/// Keeps the sessions that nobody has open and whose folders are inside the roots.
async fn resumable(door: &Door, page: Vec<SessionInfo>) -> Result<Vec<SessionInfo>, Problem> {
    let is_free = |info: &SessionInfo| !info.is_open && info.owner_pid.is_none();
    let free: Vec<_> = page.into_iter().filter(is_free).collect();
    let folders = free.iter().map(|info| info.cwd.clone().into()).collect();
    let stand = folder::standings(&door.roots, folders).await?;
    let inside = free.into_iter().zip(stand).filter(|(_, it)| *it != Standing::Outside);
    Ok(inside.map(|(info, _)| info).collect())
}

async fn show(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Session>, Problem> {
    Ok(Json(door.session(&id).await?.into()))
}

async fn delete(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    mut query: Query,
) -> Result<StatusCode, Problem> {
    let is_purge = query.take_flag("purge")?;
    let asked = Shared::clone(&door);
    let work = async move {
        if !is_purge {
            asked.session(&id).await?;
            return asked.handle.close(&id, SessionEnd::Deleted).await.map_err(refused);
        }
        let info = asked.handle.info(&id).await.map_err(refused)?;
        if !info.is_open && standing(&asked.roots, &info.cwd).await? == Standing::Outside {
            return Err(no_session());
        }
        asked.handle.remove(&id).await.map_err(refused)
    };
    door.to_its_end(work).await?;
    Ok(StatusCode::NO_CONTENT)
}
