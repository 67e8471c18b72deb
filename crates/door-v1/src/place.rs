//! Ids that stand in paths. What has not the form of an id names nothing: 404, never 400.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use http_kit::Problem;
use protocol::{RequestId, SessionId};

use crate::error::Code;

/// Characters of an id in a path; the core's have 26, imported ones may be longer.
const ID_CHARS_MAX: usize = 64;

/// The session that the path names.
pub(crate) struct AtSession(pub(crate) SessionId);

/// The session and the request that the path names.
pub(crate) struct AtRequest(pub(crate) SessionId, pub(crate) RequestId);

/// Tells whether text has the form of an id.
pub(crate) fn is_id(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}

/// The session of that id is not here.
pub(crate) fn no_session() -> Problem {
    Code::SessionNotFound
        .says("no such session is open here; POST /v1/sessions with resume opens a stored one")
}

/// The session has no such request.
pub(crate) fn no_request() -> Problem {
    Code::RequestNotFound.says("no such request in this session; GET its permissions lists them")
}

fn segment<'a>(params: &'a RawPathParams, name: &str) -> Option<&'a str> {
    params.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

impl<S: Send + Sync> FromRequestParts<S> for AtSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // What is no UTF-8 behind its percent signs is no id either.
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| no_session())?;
        let id = segment(&params, "sessionId").filter(|id| is_id(id));
        id.map(|id| Self(SessionId::new(id))).ok_or_else(no_session)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let AtSession(session) = AtSession::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| no_request())?;
        let id = segment(&params, "requestId").filter(|id| is_id(id));
        id.map(|id| Self(session, RequestId::new(id))).ok_or_else(no_request)
    }
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn ids_are_short_and_plain() {
        assert!(is_id("06f0000000000000000000000s") && is_id("no-such_session"));
        for wrong in ["", "a/b", "a b", "a\0", "ü", "..", "a.b", &"x".repeat(65)] {
            assert!(!is_id(wrong), "{wrong:?}");
        }
    }
}
