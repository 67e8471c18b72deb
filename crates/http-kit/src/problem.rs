//! Refusals of the gate and of bodies, and how they become responses.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::RequestId;

/// A refusal before a door words it: of the gate, of a body, of a route that does not exist.
///
/// A handler may return one (`Result<_, Problem>`): [`gated`](crate::gated) puts the door's
/// wording in its place. Outside of a gate it shows as RFC 9457 problem details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable code in `snake_case`, such as `forbidden_host`.
    pub code: &'static str,
    /// What was wrong and what would be right, for the caller; holds nothing internal.
    pub message: String,
}

/// How a door words a problem: its envelope. The status has to be the problem's own.
///
/// The gate adds the `x-request-id` header, and headers that belong to the status (`allow`,
/// `www-authenticate`).
pub type Render = fn(&Problem, &RequestId) -> Response;

impl Problem {
    /// Any problem.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// 400 `bad_request`: the request is broken as HTTP (no `Host`, two of them).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 400 `validation_error`: a body, query or path that does not fit; names the field.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", message)
    }

    /// 401 `unauthorized`.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// 403 `forbidden_host`.
    pub fn forbidden_host(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden_host", message)
    }

    /// 403 `forbidden_origin`.
    pub fn forbidden_origin(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden_origin", message)
    }

    /// 404 `not_found`: no such route.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 405 `method_not_allowed`.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// 408 `request_timeout`: the body stopped coming.
    pub fn request_timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    }

    /// 413 `payload_too_large`.
    pub fn payload_too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    }

    /// 415 `unsupported_media_type`.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// 500 `internal_error`: never says what happened; the log does, under the request id.
    pub fn internal() -> Self {
        let message = "something went wrong here; the server's log has it under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// 503 `shutting_down`.
    pub fn shutting_down() -> Self {
        let message = "the server is stopping; try again once it is back";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = details(&self, None);
        response.extensions_mut().insert(self);
        response
    }
}

/// A problem as RFC 9457 problem details, for what no seed gives an envelope. A [`Render`].
pub fn problem_details(problem: &Problem, id: &RequestId) -> Response {
    details(problem, Some(id))
}

fn details(problem: &Problem, id: Option<&RequestId>) -> Response {
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": problem.status.canonical_reason().unwrap_or("Error"),
        "status": problem.status.as_u16(),
        "detail": problem.message,
        "code": problem.code,
    });
    if let (Some(id), Some(fields)) = (id, body.as_object_mut()) {
        fields.insert("requestId".to_owned(), id.as_str().into());
    }
    let kind = HeaderValue::from_static("application/problem+json");
    (problem.status, [(header::CONTENT_TYPE, kind)], body.to_string()).into_response()
}

/// Puts the door's words in the place of a problem that came out of a route.
pub(crate) fn worded(response: Response, render: Render, id: &RequestId) -> Response {
    const BELONG_TO_THE_BODY: [HeaderName; 3] =
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let mut said = render(problem, id);
    for (name, value) in response.headers() {
        if !BELONG_TO_THE_BODY.contains(name) && !said.headers().contains_key(name) {
            said.headers_mut().append(name, value.clone());
        }
    }
    said
}
