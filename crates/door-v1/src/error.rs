//! How this door says no: its codes, and what the core's refusals become.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::{Problem, RequestId};
use protocol::{Refusal, RefusalCode};
use runtime_api::Error;
use schemars::JsonSchema;
use serde::Serialize;

/// Declares the closed list of codes once: the enum, names, statuses, and words for the document.
macro_rules! codes {
    ($($name:ident = $wire:literal $status:ident $meaning:literal;)*) => {
        /// Every code that an answer of this door may carry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code.
            #[cfg(test)]
            pub(crate) const ALL: &[Code] = &[$(Code::$name,)*];

            /// Returns the code as it stands on the wire.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Code::$name => $wire,)* }
            }

            /// Returns the status that it comes with.
            pub(crate) fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status,)* }
            }

            /// Says when it comes, for the document.
            pub(crate) fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request" BAD_REQUEST "the request is broken as HTTP: no Host, or two";
    ValidationError = "validation_error" BAD_REQUEST
        "a field is wrong; the message begins with its path and says what would be right";
    InvalidModel = "invalid_model" BAD_REQUEST "the model's name resolves to nothing";
    Unauthorized = "unauthorized" UNAUTHORIZED "no token, or a wrong one";
    ForbiddenHost = "forbidden_host" FORBIDDEN "the Host header names no loopback address";
    ForbiddenOrigin = "forbidden_origin" FORBIDDEN "a page of another origin asks";
    CwdOutsideRoots = "cwd_outside_roots" FORBIDDEN "the folder is inside none of the roots";
    LockedByPolicy = "locked_by_policy" FORBIDDEN "policy locks the setting";
    ModelNotAllowed = "model_not_allowed" FORBIDDEN "policy does not allow the model";
    NotFound = "not_found" NOT_FOUND "no such route";
    SessionNotFound = "session_not_found" NOT_FOUND
        "no such session is open here; a stored one is opened with resume";
    RequestNotFound = "request_not_found" NOT_FOUND "no such request in this session";
    CheckpointNotFound = "checkpoint_not_found" NOT_FOUND
        "no such checkpoint, or its files are not kept any more";
    NeuronNotFound = "neuron_not_found" NOT_FOUND "the neuron of the session is gone";
    TaskNotFound = "task_not_found" NOT_FOUND "no such task in this session";
    MethodNotAllowed = "method_not_allowed" METHOD_NOT_ALLOWED
        "the route has other methods; Allow lists them";
    RequestTimeout = "request_timeout" REQUEST_TIMEOUT "the body stopped coming";
    SessionBusy = "session_busy" CONFLICT "a prompt runs; interrupt it or wait";
    OwnedElsewhere = "owned_elsewhere" CONFLICT "another living process owns the session";
    NeuronExists = "neuron_exists" CONFLICT "a neuron of that id exists";
    NeuronNotRunning = "neuron_not_running" CONFLICT "the neuron of the session is stopped";
    RequestResolved = "request_resolved" CONFLICT "the request was decided before";
    IdempotencyConflict = "idempotency_conflict" CONFLICT
        "the Idempotency-Key came before with another body";
    PayloadTooLarge = "payload_too_large" PAYLOAD_TOO_LARGE "the body is over its limit";
    UnsupportedMediaType = "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE
        "the body is not application/json";
    QueueFull = "queue_full" TOO_MANY_REQUESTS "sixteen prompts wait already";
    TooManySessions = "too_many_sessions" TOO_MANY_REQUESTS
        "as many sessions are open as may be";
    TooManyViewers = "too_many_viewers" TOO_MANY_REQUESTS
        "as many streams are open as may be";
    InternalError = "internal_error" INTERNAL_SERVER_ERROR
        "a failure of ours; the log has it under the request id";
    NotSupported = "not_supported" NOT_IMPLEMENTED "this machine or this server cannot do it";
    ShuttingDown = "shutting_down" SERVICE_UNAVAILABLE "the server stops";
    NoCapacity = "no_capacity" SERVICE_UNAVAILABLE "as many as may be are there; later may do";
}

impl Code {
    /// Makes a problem of this code.
    pub(crate) fn says(self, message: impl Into<String>) -> Problem {
        Problem::new(self.status(), self.as_str(), message)
    }
}

impl From<RefusalCode> for Code {
    fn from(code: RefusalCode) -> Self {
        match code {
            RefusalCode::Invalid => Code::ValidationError,
            RefusalCode::SessionNotFound => Code::SessionNotFound,
            RefusalCode::SessionBusy => Code::SessionBusy,
            RefusalCode::OwnedElsewhere => Code::OwnedElsewhere,
            RefusalCode::RequestNotFound => Code::RequestNotFound,
            RefusalCode::RequestResolved => Code::RequestResolved,
            RefusalCode::CheckpointNotFound => Code::CheckpointNotFound,
            RefusalCode::QueueFull => Code::QueueFull,
            RefusalCode::TooManySessions => Code::TooManySessions,
            RefusalCode::LockedByPolicy => Code::LockedByPolicy,
            RefusalCode::ModelNotAllowed => Code::ModelNotAllowed,
            RefusalCode::InvalidModel => Code::InvalidModel,
            RefusalCode::TooLarge => Code::PayloadTooLarge,
            RefusalCode::ShuttingDown => Code::ShuttingDown,
            RefusalCode::NeuronNotFound => Code::NeuronNotFound,
            RefusalCode::NeuronExists => Code::NeuronExists,
            RefusalCode::NeuronNotRunning => Code::NeuronNotRunning,
            RefusalCode::NoCapacity => Code::NoCapacity,
            RefusalCode::NotSupported => Code::NotSupported,
        }
    }
}

/// Turns the core's no into ours. The text of a fault goes to the log alone, inside the span of
/// the request.
pub(crate) fn refused(error: Error) -> Problem {
    match error {
        Error::Refusal(Refusal { code, message }) => Code::from(code).says(message),
        Error::Fault(fault) => {
            tracing::error!(%fault, "a request failed");
            Problem::internal()
        }
    }
}

/// The body of every answer that says no.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    /// What went wrong.
    pub(crate) error: ErrorDetail,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorDetail {
    /// A stable code for programs.
    pub(crate) code: String,
    /// One sentence for people: what was wrong and what would be right.
    pub(crate) message: String,
    /// The request, as the log and the `x-request-id` header name it.
    pub(crate) request_id: String,
}

/// Words a problem in this door's envelope, `{"error": {"code", "message", "requestId"}}`. A
/// [`http_kit::Render`].
pub fn problem(problem: &Problem, id: &RequestId) -> Response {
    let error = ErrorDetail {
        code: problem.code.to_owned(),
        message: problem.message.clone(),
        request_id: id.as_str().to_owned(),
    };
    (problem.status, Json(ErrorBody { error })).into_response()
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn no_two_codes_share_a_name() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn codes_have_the_statuses_of_the_specification() {
        for (code, status) in [
            (Code::ValidationError, 400),
            (Code::InvalidModel, 400),
            (Code::CwdOutsideRoots, 403),
            (Code::LockedByPolicy, 403),
            (Code::ModelNotAllowed, 403),
            (Code::SessionNotFound, 404),
            (Code::CheckpointNotFound, 404),
            (Code::SessionBusy, 409),
            (Code::RequestResolved, 409),
            (Code::PayloadTooLarge, 413),
            (Code::QueueFull, 429),
            (Code::TooManySessions, 429),
            (Code::ShuttingDown, 503),
            (Code::NeuronNotFound, 404),
            (Code::NeuronExists, 409),
            (Code::NeuronNotRunning, 409),
            (Code::NoCapacity, 503),
            (Code::NotSupported, 501),
        ] {
            assert_eq!(code.status().as_u16(), status, "{}", code.as_str());
        }
    }
}
