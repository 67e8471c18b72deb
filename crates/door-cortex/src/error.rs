//! How this door says no: its codes, its envelope, and what the core's refusals become.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use http_kit::{Problem, RequestId};
use protocol::{Refusal, RefusalCode};
use runtime_api::Error;
use serde::Serialize;

/// Details of one refusal: a client mends the first ones and asks again.
const DETAILS_MAX: usize = 20;

/// Seconds after which a caller may come again when there was no room: a neuron or a session has
/// to end first.
const CAPACITY_SECONDS: HeaderValue = HeaderValue::from_static("30");

/// Seconds after which a caller may come again when the server stops: it is back soon, or not.
const STOP_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Declares the closed list of codes once: the enum, names and statuses.
macro_rules! codes {
    ($($name:ident = $wire:literal $status:ident;)*) => {
        /// Every code that an answer of this door may carry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($name,)*
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
        }
    };
}

codes! {
    Validation = "VALIDATION_ERROR" BAD_REQUEST;
    Unauthorized = "UNAUTHORIZED" UNAUTHORIZED;
    Forbidden = "FORBIDDEN" FORBIDDEN;
    NotFound = "NOT_FOUND" NOT_FOUND;
    RequestTimeout = "REQUEST_TIMEOUT" REQUEST_TIMEOUT;
    NotRunning = "NOT_RUNNING" CONFLICT;
    Conflict = "CONFLICT" CONFLICT;
    OwnedElsewhere = "OWNED_ELSEWHERE" CONFLICT;
    AlreadyDecided = "ALREADY_DECIDED" CONFLICT;
    SessionBusy = "SESSION_BUSY" CONFLICT;
    PayloadTooLarge = "PAYLOAD_TOO_LARGE" PAYLOAD_TOO_LARGE;
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE" UNSUPPORTED_MEDIA_TYPE;
    RateLimited = "RATE_LIMITED" TOO_MANY_REQUESTS;
    Internal = "INTERNAL_ERROR" INTERNAL_SERVER_ERROR;
    NotSupported = "NOT_SUPPORTED" NOT_IMPLEMENTED;
    RunError = "RUN_ERROR" BAD_GATEWAY;
    Capacity = "CAPACITY" SERVICE_UNAVAILABLE;
    ShuttingDown = "SHUTTING_DOWN" SERVICE_UNAVAILABLE;
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Detail {
    /// Where: names and places joined by dots, empty for the whole body.
    pub(crate) path: String,
    /// What kind of wrong, for programs.
    pub(crate) code: &'static str,
    /// What would be right. Never the value that came: it may be a secret.
    pub(crate) message: String,
}

/// A run that failed, beside the envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedRun {
    pub(crate) session_id: String,
    pub(crate) run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partial_response: Option<String>,
}

/// A no of this door. The gate words it, since it knows the request's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    code: Code,
    details: Vec<Detail>,
    run: Option<FailedRun>,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Self { code, details: Vec::new(), run: None }
    }
}

impl Refused {
    /// The request has these faults.
    pub(crate) fn invalid(mut details: Vec<Detail>) -> Self {
        details.truncate(DETAILS_MAX);
        Self { details, ..Self::from(Code::Validation) }
    }

    /// One field is wrong.
    pub(crate) fn field(path: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self::invalid(vec![Detail { path: path.to_owned(), code, message: message.into() }])
    }

    /// The run failed.
    pub(crate) fn failed(run: FailedRun) -> Self {
        Self { run: Some(run), ..Self::from(Code::RunError) }
    }

    /// Returns the code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Words the refusal.
    pub(crate) fn worded(&self, id: &RequestId) -> Response {
        let message = match self.details.as_slice() {
            [] => None,
            [Detail { path, message, .. }, ..] if path.is_empty() => Some(message.clone()),
            [Detail { path, message, .. }, ..] => Some(format!("{path}: {message}")),
        };
        let error = Envelope {
            code: self.code.as_str(),
            request_id: id.as_str(),
            message,
            details: &self.details,
        };
        let body = Body { error, run: self.run.as_ref() };
        let mut response = (self.code.status(), Json(body)).into_response();
        let field = match self.code {
            Code::Unauthorized => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            Code::Capacity => Some((header::RETRY_AFTER, CAPACITY_SECONDS)),
            Code::ShuttingDown => Some((header::RETRY_AFTER, STOP_SECONDS)),
            _ => None,
        };
        if let Some((name, value)) = field {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: Envelope<'a>,
    #[serde(flatten)]
    run: Option<&'a FailedRun>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "<[Detail]>::is_empty")]
    details: &'a [Detail],
}

/// Words what the lobby and the reading of bodies refuse. A [`http_kit::Render`].
pub(crate) fn problem(problem: &Problem, id: &RequestId) -> Response {
    let code = match problem.status {
        StatusCode::BAD_REQUEST => {
            let message = problem.message.clone();
            return Refused::field("", "invalid_format", message).worded(id);
        }
        StatusCode::UNAUTHORIZED => Code::Unauthorized,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::REQUEST_TIMEOUT => Code::RequestTimeout,
        StatusCode::PAYLOAD_TOO_LARGE => Code::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        StatusCode::SERVICE_UNAVAILABLE => Code::ShuttingDown,
        _ => Code::Internal,
    };
    Refused::from(code).worded(id)
}

/// Turns the core's no into ours. Its message, which may tell more than a caller should know, goes
/// to the log alone, inside the span of the request; only what is wrong with a field is told.
pub(crate) fn refused(error: Error) -> Refused {
    let Refusal { code, message } = match error {
        Error::Refusal(refusal) => refusal,
        Error::Fault(fault) => {
            tracing::error!(%fault, "a request failed");
            return Code::Internal.into();
        }
    };
    tracing::info!(code = code.as_str(), message, "a request was refused");
    let code = match code {
        RefusalCode::Invalid => return invalid(&message),
        RefusalCode::InvalidModel => return Refused::field("model", "invalid_value", message),
        RefusalCode::TooLarge => Code::PayloadTooLarge,
        RefusalCode::SessionNotFound
        | RefusalCode::RequestNotFound
        | RefusalCode::CheckpointNotFound
        | RefusalCode::NeuronNotFound => Code::NotFound,
        RefusalCode::SessionBusy | RefusalCode::QueueFull => Code::SessionBusy,
        RefusalCode::OwnedElsewhere => Code::OwnedElsewhere,
        RefusalCode::RequestResolved => Code::AlreadyDecided,
        RefusalCode::TooManySessions | RefusalCode::NoCapacity => Code::Capacity,
        RefusalCode::LockedByPolicy | RefusalCode::ModelNotAllowed => Code::Forbidden,
        RefusalCode::ShuttingDown => Code::ShuttingDown,
        RefusalCode::NeuronExists => Code::Conflict,
        RefusalCode::NeuronNotRunning => Code::NotRunning,
        RefusalCode::NotSupported => Code::NotSupported,
    };
    code.into()
}

/// Splits a message of the core that begins with the path of a field.
fn invalid(message: &str) -> Refused {
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || "_.[]".contains(letter);
    match message.split_once(": ") {
        Some((path, what)) if !path.is_empty() && path.chars().all(is_of_path) => {
            Refused::field(&told(path), "invalid_value", what)
        }
        _ => Refused::field("", "invalid_value", message),
    }
}

/// Returns the path of a field as callers of this door know it.
fn told(path: &str) -> String {
    let path = path.replace('[', ".").replace(']', "");
    let (first, rest) = path.split_once('.').unwrap_or((&path, ""));
    let first = match first {
        "folder" => "workspace",
        "input" => "params",
        "timeout_ms" => "timeoutMs",
        "feedback" => "reason",
        "output" => "responseFormat",
        "max_turns" => "maxTurns",
        "memory_bytes" => "memoryMb",
        "cpu_millis" => "vcpus",
        other => other,
    };
    if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
}

#[cfg(test)]
mod tests {
    use protocol::{Refusal, RefusalCode};

    use super::{Code, refused};

    #[test]
    fn no_two_codes_share_a_name() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn refusals_become_codes_with_the_statuses_of_the_specification() {
        for (core, code, status) in [
            (RefusalCode::NeuronNotFound, "NOT_FOUND", 404),
            (RefusalCode::SessionNotFound, "NOT_FOUND", 404),
            (RefusalCode::RequestNotFound, "NOT_FOUND", 404),
            (RefusalCode::NeuronExists, "CONFLICT", 409),
            (RefusalCode::NeuronNotRunning, "NOT_RUNNING", 409),
            (RefusalCode::OwnedElsewhere, "OWNED_ELSEWHERE", 409),
            (RefusalCode::RequestResolved, "ALREADY_DECIDED", 409),
            (RefusalCode::SessionBusy, "SESSION_BUSY", 409),
            (RefusalCode::QueueFull, "SESSION_BUSY", 409),
            (RefusalCode::NotSupported, "NOT_SUPPORTED", 501),
            (RefusalCode::NoCapacity, "CAPACITY", 503),
            (RefusalCode::TooManySessions, "CAPACITY", 503),
            (RefusalCode::ModelNotAllowed, "FORBIDDEN", 403),
            (RefusalCode::Invalid, "VALIDATION_ERROR", 400),
            (RefusalCode::InvalidModel, "VALIDATION_ERROR", 400),
        ] {
            let code_of = refused(Refusal::new(core, "no").into()).code();
            assert_eq!((code_of.as_str(), code_of.status().as_u16()), (code, status), "{core:?}");
        }
    }

    #[test]
    fn a_fields_path_is_the_callers() {
        for (message, path, what) in [
            ("folder: is not absolute", "workspace", "is not absolute"),
            ("input.command: is missing", "params.command", "is missing"),
            ("images[0].data: is empty", "images.0.data", "is empty"),
            ("no such thing: at all", "", "no such thing: at all"),
        ] {
            let refused = refused(Refusal::new(RefusalCode::Invalid, message).into());
            let detail = &refused.details[0];
            assert_eq!((detail.path.as_str(), detail.message.as_str()), (path, what));
        }
    }
}
