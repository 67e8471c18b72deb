//! What a browser needs to hear before a page of a listed origin may ask.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, x-request-id",
);
const EXPOSED: HeaderValue =
    HeaderValue::from_static("x-request-id, retry-after, idempotency-replayed");

/// Seconds that a browser may keep a grant: a setting that was taken back is felt soon.
const GRANT_SECONDS_MAX: HeaderValue = HeaderValue::from_static("600");

/// The one `Origin` of a request: nothing, its value, or `Err` for several or unreadable ones.
pub(crate) fn origin(headers: &HeaderMap) -> Result<Option<&str>, ()> {
    let mut sent = headers.get_all(header::ORIGIN).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// Whether the settings list an origin. The scheme and the name have no case.
pub(crate) fn is_listed(origin: &str, origins: &[String]) -> bool {
    origins.iter().any(|listed| listed.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

/// Whether a browser asks before it asks.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of a listed origin.
pub(crate) fn preflight() -> Response {
    let grants: [(HeaderName, HeaderValue); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, GRANT_SECONDS_MAX),
    ];
    (StatusCode::NO_CONTENT, grants).into_response()
}

/// Lets the page of a listed origin read a response.
pub(crate) fn grant(origin: HeaderValue, response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// Says that a response depends on who asks: else a cache hands one page what another may read, or
/// keeps from it what it may.
pub(crate) fn vary(response: &mut Response) {
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
}
