//! What answers hold.

pub(crate) use native_wire::{
    Accepted, Checkpoint, Checkpoints, Command, Commands, Interrupted, Messages, Rewound, Session,
    SessionSpending, Sessions, State, Taken, Tasks, Undone,
};
use protocol::{EventBody, SessionId, Timestamp};
use runtime_api::{ModelListing, Pending};
use schemars::JsonSchema;
use serde::Serialize;

/// Whether the server is there. Without a valid token only `status`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok`, or `stopping` with status 503.
    pub(crate) status: HealthStatus,
    /// The version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
    /// Milliseconds since the server began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uptime_ms: Option<u64>,
    /// How many sessions are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<usize>,
}

/// How the server is.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthStatus {
    /// It answers.
    Ok,
    /// It stops.
    Stopping,
}

/// Whether the server can work.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// `ready` with status 200, else `unready` or `stopping` with 503.
    pub(crate) status: ReadyStatus,
    /// What was looked at.
    pub(crate) checks: Checks,
}

/// Whether requests should come here.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadyStatus {
    /// They should.
    Ready,
    /// Something that is needed fails.
    Unready,
    /// The server stops.
    Stopping,
}

/// What readiness depends on.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checks {
    /// Whether the store takes writes.
    pub(crate) store: Check,
}

/// How one of them is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// It works.
    Ok,
    /// It does not; the log says why.
    Failed,
}

/// Whether a task was stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// True when it ran.
    pub(crate) stopped: bool,
}

/// A model that can be named.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Model {
    /// Its full name, `provider/model`.
    pub(crate) id: String,
    /// Its provider's name in the settings.
    pub(crate) provider: String,
    /// How many tokens prompt and answer may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_window: Option<u64>,
    /// Whether sessions that name no model get it.
    pub(crate) default: bool,
}

impl From<ModelListing> for Model {
    fn from(model: ModelListing) -> Self {
        Self {
            id: model.id,
            provider: model.provider,
            context_window: model.context_window,
            default: model.is_default,
        }
    }
}

/// Models.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Models {
    /// The models.
    pub(crate) models: Vec<Model>,
}

/// Requests that wait for an answer, oldest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Requests {
    /// The requests, as the event stream shows them.
    pub(crate) requests: Vec<Request>,
}

/// A request that waits: a permission, a question or a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// The request's event.
    #[serde(flatten)]
    pub(crate) body: EventBody,
    /// The session.
    pub(crate) session_id: SessionId,
    /// Since when it waits.
    pub(crate) ts: Timestamp,
}

impl From<Pending> for Request {
    fn from(pending: Pending) -> Self {
        Self { body: pending.request, session_id: pending.session, ts: pending.since }
    }
}
