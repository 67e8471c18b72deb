//! How this door says no.

use jsonrpc::ErrorObject;
use protocol::{Refusal, RefusalCode};
use runtime_api::Error;
use serde_json::json;

use crate::surroundings::Rejected;
use crate::version::SUPPORTED;

/// What the application has to tell apart; the word stands in `data.code`.
const APPLICATION: i64 = -32000;
const NOT_INITIALISED: i64 = -32002;
const WRONG_TOKEN: i64 = -32003;
const NO_VERSION: i64 = -32004;
const POLICY_REJECTED: i64 = -32005;

/// Makes an error of the application.
pub(crate) fn application(code: &str, message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(APPLICATION, message).with(json!({"code": code}))
}

pub(crate) fn invalid(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(ErrorObject::INVALID_PARAMS, message)
}

pub(crate) fn no_method(method: &str) -> ErrorObject {
    let shown: String = method.chars().take(100).collect();
    ErrorObject::new(ErrorObject::NO_METHOD, format!("there is no method {shown:?}"))
}

pub(crate) fn not_initialised() -> ErrorObject {
    ErrorObject::new(NOT_INITIALISED, "expected initialize as the first request")
}

pub(crate) fn initialised_before() -> ErrorObject {
    let message = "this connection is initialised already";
    ErrorObject::new(ErrorObject::INVALID_REQUEST, message)
}

pub(crate) fn wrong_token() -> ErrorObject {
    ErrorObject::new(WRONG_TOKEN, "auth.token: it is not the token of this agent")
}

pub(crate) fn no_common_version() -> ErrorObject {
    let message = format!("protocolVersion: expected a version of {SUPPORTED}'s major");
    ErrorObject::new(NO_VERSION, message).with(json!({"supported": [SUPPORTED]}))
}

pub(crate) fn policy_rejected(rejected: Rejected) -> ErrorObject {
    let Rejected { reason, message } = rejected;
    ErrorObject::new(POLICY_REJECTED, format!("bundle: {message}")).with(json!({"reason": reason}))
}

pub(crate) fn shutting_down() -> ErrorObject {
    application("shutting_down", "the agent stops: it takes no new work")
}

pub(crate) fn no_session() -> ErrorObject {
    let message = "no such session is open here; session/load opens a stored one";
    application("session_not_found", message)
}

/// Turns the core's no into ours. The text of a fault goes to the log alone.
pub(crate) fn refused(error: Error) -> ErrorObject {
    let Refusal { code, message } = match error {
        Error::Refusal(refusal) => refusal,
        Error::Fault(fault) => {
            tracing::error!(%fault, "a request failed");
            let message = "a failure of ours; the diagnostics tell more";
            return ErrorObject::new(ErrorObject::INTERNAL, message);
        }
    };
    let code = match code {
        RefusalCode::Invalid | RefusalCode::InvalidModel => return invalid(message),
        RefusalCode::SessionNotFound => "session_not_found",
        RefusalCode::SessionBusy => "session_busy",
        RefusalCode::OwnedElsewhere => "owned_elsewhere",
        RefusalCode::RequestNotFound => "request_not_found",
        RefusalCode::RequestResolved => "request_resolved",
        RefusalCode::CheckpointNotFound => "checkpoint_not_found",
        RefusalCode::QueueFull => "queue_full",
        RefusalCode::TooManySessions => "too_many_sessions",
        RefusalCode::LockedByPolicy => "locked_by_policy",
        RefusalCode::ModelNotAllowed => "model_not_allowed",
        RefusalCode::TooLarge => "payload_too_large",
        RefusalCode::ShuttingDown => "shutting_down",
        RefusalCode::NeuronNotFound => "neuron_not_found",
        RefusalCode::NeuronExists => "neuron_exists",
        RefusalCode::NeuronNotRunning => "neuron_not_running",
        RefusalCode::NoCapacity => "no_capacity",
        RefusalCode::NotSupported => "not_supported",
    };
    application(code, message)
}
