//! How the server is.

use axum::Json;
use axum::extract::State;
use runtime_api::neuron::NeuronState;
use serde::Serialize;

use crate::door::{Shared, is_active};
use crate::error::{Refused, refused};

/// How the server is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    status: &'static str,
    version: &'static str,
    active_neurons: usize,
    total_neurons: usize,
    active_sessions: usize,
    total_sessions: usize,
    /// In seconds.
    uptime: f64,
}

pub(crate) async fn health(State(door): State<Shared>) -> Result<Json<Health>, Refused> {
    let neurons = door.neurons.list().await.map_err(refused)?;
    let sessions = door.sessions().await?;
    let running = neurons.iter().filter(|neuron| neuron.state == NeuronState::Running);
    Ok(Json(Health {
        status: "ok",
        version: door.version,
        active_neurons: running.count(),
        total_neurons: neurons.len(),
        active_sessions: sessions.iter().filter(|info| is_active(info)).count(),
        total_sessions: sessions.len(),
        uptime: door.started.elapsed().as_secs_f64(),
    }))
}
