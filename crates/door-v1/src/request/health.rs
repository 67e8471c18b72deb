//! Is the server there, and can it work?

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::{Caller, Problem};
use serde_json::json;

use crate::door::Shared;
use crate::error::refused;
use crate::operation::{Operation, Tag};
use crate::wire::{Check, Checks, Health, HealthStatus, Readiness, ReadyStatus};

pub(crate) fn operations() -> Vec<Operation> {
    let alive = json!({"status": "ok", "version": "0.1.0", "uptimeMs": 61000, "sessions": 2});
    let unready = json!({"status": "unready", "checks": {"store": "failed"}});
    vec![
        Operation::get("/v1/health", health)
            .named("getHealth", Tag::Server, "Tells whether the server is there")
            .says(
                "Needs no token; without a valid one the answer is `status` alone. 503 once the \
                 server stops.",
            )
            .open()
            .answers::<Health>(StatusCode::OK, "It is there.", alive)
            .answers::<Health>(
                StatusCode::SERVICE_UNAVAILABLE,
                "It stops.",
                json!({"status": "stopping"}),
            ),
        Operation::get("/v1/ready", ready)
            .named("getReadiness", Tag::Server, "Tells whether requests should come here")
            .says("For load balancers: 503 while the store takes no writes or the server stops.")
            .answers::<Readiness>(
                StatusCode::OK,
                "They should.",
                json!({"status": "ready", "checks": {"store": "ok"}}),
            )
            .answers::<Readiness>(StatusCode::SERVICE_UNAVAILABLE, "They should not.", unready),
    ]
}

async fn health(State(door): State<Shared>, caller: Option<Caller>) -> Result<Response, Problem> {
    let is_stopping = door.stopping.is_cancelled();
    let (code, status) = match is_stopping {
        true => (StatusCode::SERVICE_UNAVAILABLE, HealthStatus::Stopping),
        false => (StatusCode::OK, HealthStatus::Ok),
    };
    let mut health = Health { status, version: None, uptime_ms: None, sessions: None };
    if caller.is_some() {
        let uptime = door.started.elapsed().as_millis();
        health.version = Some(door.version);
        health.uptime_ms = Some(u64::try_from(uptime).unwrap_or(u64::MAX));
        health.sessions = Some(door.handle.opened().await.map_err(refused)?.len());
    }
    Ok((code, Json(health)).into_response())
}

async fn ready(State(door): State<Shared>) -> Response {
    let store = match door.handle.check().await {
        Ok(()) => Check::Ok,
        Err(error) => {
            tracing::warn!(%error, "the store takes no writes");
            Check::Failed
        }
    };
    let (code, status) = match (door.stopping.is_cancelled(), store) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, ReadyStatus::Stopping),
        (false, Check::Failed) => (StatusCode::SERVICE_UNAVAILABLE, ReadyStatus::Unready),
        (false, Check::Ok) => (StatusCode::OK, ReadyStatus::Ready),
    };
    (code, Json(Readiness { status, checks: Checks { store } })).into_response()
}
