//! Mode and model of a session.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use protocol::Mode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::BODY_BYTES_MAX;
use super::session::example;
use crate::door::Shared;
use crate::error::{Code, refused};
use crate::limited::{Object, Text, Word};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::wire::Session;

/// A mode to change to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with mode")]
struct SetMode {
    /// The mode.
    mode: Word<Mode>,
}

/// A model to change to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with model")]
struct SetModel {
    /// The model, `provider/model`.
    model: Text<1, 128>,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/sessions/{sessionId}/mode", set_mode)
            .named("setMode", Tag::Sessions, "Changes the permission mode")
            .says("Holds from the next call on. A change is one `mode_changed` event.")
            .takes::<SetMode>(BODY_BYTES_MAX, vec![("edits", json!({"mode": "auto-edit"}))])
            .of_session()
            .refuses(&[Code::LockedByPolicy])
            .answers::<Session>(StatusCode::OK, "The session.", example()),
        Operation::post("/v1/sessions/{sessionId}/model", set_model)
            .named("setModel", Tag::Sessions, "Changes the model")
            .says("Holds from the next model call on. A change is one `model_changed` event.")
            .takes::<SetModel>(
                BODY_BYTES_MAX,
                vec![("model", json!({"model": "anthropic/claude-opus-4-6"}))],
            )
            .of_session()
            .refuses(&[Code::InvalidModel, Code::ModelNotAllowed, Code::LockedByPolicy])
            .answers::<Session>(StatusCode::OK, "The session.", example()),
    ]
}

async fn set_mode(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    JsonBody(Object(body)): JsonBody<Object<SetMode>, BODY_BYTES_MAX>,
) -> Result<Json<Session>, Problem> {
    door.session(&id).await?;
    door.handle.set_mode(&id, body.mode.0).await.map_err(refused)?;
    Ok(Json(door.session(&id).await?.into()))
}

async fn set_model(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    JsonBody(Object(body)): JsonBody<Object<SetModel>, BODY_BYTES_MAX>,
) -> Result<Json<Session>, Problem> {
    door.session(&id).await?;
    door.handle.set_model(&id, body.model.as_str()).await.map_err(refused)?;
    Ok(Json(door.session(&id).await?.into()))
}
