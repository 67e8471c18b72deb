//! Requests to authorization servers: small, bounded, nothing believed that is not JSON.

use std::time::Duration;

use outbound::{Client, HeaderMap, HeaderValue, Limits, Request, Response, Url, header};
use serde_json::Value;

use super::AuthError;

/// Largest document of an authorization server.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// How long an authorization server may take for one request.
const WAIT: Duration = Duration::from_secs(30);

/// Returns the limits of such a request. `redirects_max` is 0 where a secret is sent.
fn limits(redirects_max: usize) -> Limits {
    Limits {
        redirects_max,
        response_bytes_max: BODY_BYTES_MAX,
        answer_timeout: WAIT,
        idle_timeout: WAIT,
        total_timeout: WAIT,
        ..Limits::default()
    }
}

/// Fetches a document; none where there is none at that place.
pub(super) async fn document(http: &Client, url: &Url) -> Result<Option<Value>, AuthError> {
    let request = http.get(url.as_str()).limits(limits(3));
    let request = request.header(header::ACCEPT, HeaderValue::from_static("application/json"));
    let version = outbound::HeaderName::from_static("mcp-protocol-version");
    let response = request.header(version, HeaderValue::from_static("2025-11-25")).send().await?;
    if !response.status().is_success() {
        return Ok(None);
    }
    Ok(serde_json::from_slice(&response.bytes().await?).ok().filter(Value::is_object))
}

/// Asks for a page without a token, to learn what the server wants of whoever has none.
pub(super) async fn knock(http: &Client, url: &Url) -> Result<HeaderMap, AuthError> {
    let request = http.get(url.as_str()).limits(limits(0));
    let stream = HeaderValue::from_static("text/event-stream");
    let response = request.header(header::ACCEPT, stream).send().await?;
    Ok(response.headers().clone())
}

/// Starts a request that sends a body.
pub(super) fn post(http: &Client, url: &Url, content_type: &'static str, body: String) -> Request {
    http.post(url.as_str(), body)
        .limits(limits(0))
        .header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
        .header(header::ACCEPT, HeaderValue::from_static("application/json"))
}

/// Reads the answer of an endpoint.
///
/// # Errors
/// [`AuthError::Denied`] for its own errors, [`AuthError::Refused`] for what is no answer.
pub(super) async fn answer(what: &str, response: Response) -> Result<Value, AuthError> {
    let status = response.status();
    let bytes = response.bytes().await?;
    let body: Option<Value> = serde_json::from_slice(&bytes).ok();
    let text =
        |key: &str| body.as_ref()?.get(key)?.as_str().map(|text| crate::words::cut(text, 300));
    if let Some(code) = text("error") {
        return Err(AuthError::Denied { code, description: text("error_description") });
    }
    match body.filter(|body| status.is_success() && body.is_object()) {
        Some(body) => Ok(body),
        None => {
            Err(AuthError::Refused(format!("the {what} endpoint answered {status} without JSON")))
        }
    }
}
