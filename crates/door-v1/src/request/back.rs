//! Going back: checkpoints, rewind, undo; and copies.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use protocol::event::RewindScope;
use protocol::{CheckpointId, MessageId, SessionId};
use runtime_api::{ForkPoint, GoBack};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::BODY_BYTES_MAX;
use super::session::{KEY_SAYS, example, key_schema};
use crate::door::{Door, Shared};
use crate::error::{Code, refused};
use crate::folder::{Standing, outside, standing};
use crate::idempotency::{Key, once};
use crate::limited::{Object, Text, Word};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::wire::{Checkpoint, Checkpoints, Rewound, Session, Undone};

/// Where a copy ends.
#[derive(Clone, Debug, Default, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct Fork {
    /// The last message of the copy; the session's end where absent.
    message_id: Option<Text<1, 64>>,
}

/// Where to go back to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with checkpointId")]
struct Rewind {
    /// The checkpoint.
    checkpoint_id: Text<1, 64>,
    /// What goes back.
    #[serde(default = "both")]
    #[schemars(extend("default" = "both"))]
    scope: Word<RewindScope>,
    /// Whether paths that hold something else than the agent left are brought back as well.
    #[serde(default)]
    force: bool,
    /// Whether only to look what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// How to undo.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct Undo {
    /// Whether paths that hold something else than the agent left are brought back as well.
    #[serde(default)]
    force: bool,
    /// Whether only to look what would happen.
    #[serde(default)]
    dry_run: bool,
}

fn both() -> Word<RewindScope> {
    Word(RewindScope::Both)
}

fn point() -> Value {
    json!({
        "id": "06f4zk3r2h8m4v9c1b6q5x7t0w", "createdAt": "2026-12-01T09:00:01.000Z",
        "messageId": "06f4zk3r9c5e7g1j3m6p8s0v2x", "label": "Fix the parser", "files": 2,
        "hasFiles": true, "undone": false, "removed": false
    })
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/sessions/{sessionId}/fork", fork)
            .named("forkSession", Tag::History, "Copies a session")
            .says("The copy is open at once. Needs an idle session.")
            .header("Idempotency-Key", key_schema(), KEY_SAYS)
            .takes::<Fork>(
                BODY_BYTES_MAX,
                vec![("until", json!({"messageId": "06f4zk3r9c5e7g1j3m6p8s0v2x"}))],
            )
            .or_nothing()
            .of_session()
            .refuses(&[
                Code::CwdOutsideRoots,
                Code::SessionBusy,
                Code::TooManySessions,
                Code::IdempotencyConflict,
            ])
            .answers::<Session>(StatusCode::CREATED, "The copy.", example()),
        Operation::get("/v1/sessions/{sessionId}/checkpoints", checkpoints)
            .named("listCheckpoints", Tag::History, "Lists the points to go back to, oldest first")
            .of_session()
            .answers::<Checkpoints>(
                StatusCode::OK,
                "The checkpoints.",
                json!({"checkpoints": [point()]}),
            ),
        Operation::post("/v1/sessions/{sessionId}/rewind", rewind)
            .named("rewind", Tag::History, "Goes back to a checkpoint")
            .says("Conversation, files, or both are as before its prompt. Needs an idle session.")
            .takes::<Rewind>(
                BODY_BYTES_MAX,
                vec![(
                    "files",
                    json!({
                        "checkpointId": "06f4zk3r2h8m4v9c1b6q5x7t0w", "scope": "files"
                    }),
                )],
            )
            .of_session()
            .refuses(&[Code::CheckpointNotFound, Code::SessionBusy])
            .answers::<Rewound>(
                StatusCode::OK,
                "What went back.",
                json!({"checkpoint": point(), "filesChanged": ["src/parser.ts"],
                       "filesKept": [], "notes": [], "messagesRemoved": 4}),
            ),
        Operation::post("/v1/sessions/{sessionId}/undo", undo)
            .named("undo", Tag::History, "Takes back the last change of files")
            .says(
                "What the newest prompt did to files that was not taken back yet. Needs an idle \
                 session.",
            )
            .takes::<Undo>(BODY_BYTES_MAX, vec![("look", json!({"dryRun": true}))])
            .or_nothing()
            .of_session()
            .refuses(&[Code::CheckpointNotFound, Code::SessionBusy])
            .answers::<Undone>(
                StatusCode::OK,
                "What went back.",
                json!({"undone": true, "checkpoint": "06f4zk3r2h8m4v9c1b6q5x7t0w",
                       "filesChanged": ["src/parser.ts"], "filesKept": [], "notes": []}),
            ),
    ]
}

async fn fork(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    key: Key,
    body: Option<JsonBody<Object<Fork>, BODY_BYTES_MAX>>,
) -> Result<Response, Problem> {
    let body = body.map(|JsonBody(Object(body))| body).unwrap_or_default();
    let key = key.with(&body);
    let (asked, session) = (Shared::clone(&door), id.clone());
    let work = async move {
        let info = asked.session(&session).await?;
        if standing(&asked.roots, &info.cwd).await? == Standing::Outside {
            return Err(outside(&asked.roots));
        }
        let until = match body.message_id {
            None => ForkPoint::End,
            Some(message) => ForkPoint::Message(MessageId::new(message.into_string())),
        };
        let copy = asked.handle.fork(&session, until).await.map_err(refused)?;
        open_copy(&asked, &copy.id).await
    };
    once(&door, ("forkSession", Some(id), key), StatusCode::CREATED, work).await
}

/// Opens a copy; one that cannot be opened is not left behind.
async fn open_copy(door: &Door, copy: &SessionId) -> Result<Session, Problem> {
    match door.handle.open(copy, door.agent.clone()).await {
        Ok(info) => {
            door.tell_opened(copy);
            Ok(info.into())
        }
        Err(error) => {
            drop(door.handle.remove(copy).await.map_err(refused));
            Err(refused(error))
        }
    }
}

async fn checkpoints(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Checkpoints>, Problem> {
    door.session(&id).await?;
    Ok(Json(Checkpoints { checkpoints: points(&door, &id).await? }))
}

async fn points(door: &Door, id: &SessionId) -> Result<Vec<Checkpoint>, Problem> {
    let points = door.handle.points(id).await.map_err(refused)?;
    Ok(points.into_iter().map(Checkpoint::from).collect())
}

async fn rewind(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    JsonBody(Object(body)): JsonBody<Object<Rewind>, BODY_BYTES_MAX>,
) -> Result<Json<Rewound>, Problem> {
    let asked = Shared::clone(&door);
    let work = async move {
        asked.session(&id).await?;
        let wanted = CheckpointId::new(body.checkpoint_id.as_str());
        let known = points(&asked, &id).await?;
        let checkpoint = known.into_iter().find(|point| point.id == wanted);
        let Some(checkpoint) = checkpoint else {
            // The runtime says no in its own order: a busy session first.
            let look = GoBack { is_forced: false, is_dry: true };
            asked.handle.rewind(&id, &wanted, body.scope.0, look).await.map_err(refused)?;
            let what = "no such checkpoint in this session; GET its checkpoints lists them";
            return Err(Code::CheckpointNotFound.says(what));
        };
        let how = GoBack { is_forced: body.force, is_dry: body.dry_run };
        let back = asked.handle.rewind(&id, &wanted, body.scope.0, how).await.map_err(refused)?;
        let messages_removed = back.messages_removed;
        Ok(Rewound { checkpoint, files: back.into(), messages_removed })
    };
    Ok(Json(door.to_its_end(work).await?))
}

async fn undo(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    body: Option<JsonBody<Object<Undo>, BODY_BYTES_MAX>>,
) -> Result<Json<Undone>, Problem> {
    let body = body.map(|JsonBody(Object(body))| body).unwrap_or_default();
    let asked = Shared::clone(&door);
    let work = async move {
        asked.session(&id).await?;
        let how = GoBack { is_forced: body.force, is_dry: body.dry_run };
        let back = asked.handle.undo(&id, how).await.map_err(refused)?;
        let checkpoint = back.point.clone();
        Ok(Undone { undone: checkpoint.is_some(), checkpoint, files: back.into() })
    };
    Ok(Json(door.to_its_end(work).await?))
}
