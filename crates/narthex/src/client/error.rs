//! Why a server could not be asked, or said no.

use std::time::Duration;

use serde::Deserialize;

/// Most bytes of an error's body that are looked at: an answer of a door is far shorter, a
/// proxy's page is of no use.
pub(super) const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The server said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message} (status {status})")]
#[non_exhaustive]
pub struct ApiError {
    /// The status of the answer.
    pub status: u16,
    /// The stable code, for example `session_not_found`; empty where the answer had none, for
    /// example that of a proxy.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The request's id in the server's log.
    pub request_id: Option<String>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// Why a server could not be asked, or said no.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server said no.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The server could not be reached, or the connection broke.
    #[error(transparent)]
    Network(#[from] outbound::Error),
    /// What came is not what a server says.
    #[error("{0}")]
    Protocol(String),
    /// The client was not set up right.
    #[error("{0}")]
    Setup(String),
}

impl ClientError {
    /// Returns the code where the server said no.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Api(error) => Some(&error.code),
            _ => None,
        }
    }

    /// Returns the status where the server said no.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Api(error) => Some(error.status),
            _ => None,
        }
    }

    /// Tells whether a request of this kind may be sent again.
    pub(super) fn allows(&self, repeat: Repeat) -> bool {
        match repeat {
            Repeat::Read => self.is_passing() || self.status() == Some(500),
            Repeat::Harmless => self.is_passing(),
            Repeat::Unsent => self.is_unsent(),
        }
    }

    /// Tells whether the same request may succeed a moment later. A refusal for want of room (429)
    /// is that where the server says when; without a time it is the caller's to solve.
    fn is_passing(&self) -> bool {
        use outbound::Error;
        match self {
            ClientError::Network(error) => matches!(
                error,
                Error::Lookup { .. }
                    | Error::Connect { .. }
                    | Error::Timeout { .. }
                    | Error::Broken { .. }
            ),
            ClientError::Api(error) => match error.status {
                429 => error.retry_after.is_some(),
                status => matches!(status, 502..=504),
            },
            ClientError::Protocol(_) | ClientError::Setup(_) => false,
        }
    }

    /// Tells whether nothing of the request has reached the server.
    fn is_unsent(&self) -> bool {
        use outbound::{Error, Wait};
        let ClientError::Network(error) = self else { return false };
        matches!(
            error,
            Error::Lookup { .. }
                | Error::Connect { .. }
                | Error::Timeout { wait: Wait::Connect, .. }
        )
    }

    /// Returns how long the server asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            ClientError::Api(error) => error.retry_after,
            _ => None,
        }
    }
}

/// When a request may be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It only reads: after any trouble that may pass, and a 500.
    #[default]
    Read,
    /// Twice does no harm: after any trouble that may pass.
    Harmless,
    /// Twice would do harm: only where it surely has not arrived.
    Unsent,
}

/// The body of an error.
#[derive(Deserialize)]
struct Body {
    error: Inner,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "requestId")]
    request_id: Option<String>,
}

/// Reads the answer that says no.
pub(super) fn read(status: u16, headers: &outbound::HeaderMap, body: &[u8]) -> ApiError {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let retry_after = text("retry-after").and_then(|value| wait(value.trim()));
    let named = text("x-request-id");
    match serde_json::from_slice::<Body>(body) {
        Ok(Body { error: Inner { code, message, request_id } }) => {
            ApiError { status, code, message, request_id: request_id.or(named), retry_after }
        }
        Err(_) => {
            let message = "the answer has no error in the server's form".to_owned();
            ApiError { status, code: String::new(), message, request_id: named, retry_after }
        }
    }
}

/// Reads how long to wait: seconds, or a date.
fn wait(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that is over means now.
    Some(Duration::try_from(at.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_server_and_one_of_a_proxy_are_read() {
        let mut headers = outbound::HeaderMap::new();
        headers.insert("retry-after", outbound::HeaderValue::from_static("7"));
        headers.insert("x-request-id", outbound::HeaderValue::from_static("r1"));
        let body = br#"{"error":{"code":"queue_full","message":"too many","details":1}}"#;
        let error = read(429, &headers, body);
        assert_eq!((error.status, error.code.as_str()), (429, "queue_full"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(error.request_id.as_deref(), Some("r1"));
        assert!(ClientError::from(error).allows(Repeat::Harmless));
        let bare = read(429, &outbound::HeaderMap::new(), body);
        assert!(!ClientError::from(bare).allows(Repeat::Read), "nobody says when");
        let page = read(403, &outbound::HeaderMap::new(), b"<html>no</html>");
        assert_eq!((page.code.as_str(), page.request_id.is_none()), ("", true));
        assert!(!ClientError::from(page).allows(Repeat::Read));
    }

    #[test]
    fn a_time_to_wait_is_seconds_or_a_date() {
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let far = wait("Wed, 01 Jan 2200 00:00:00 GMT").unwrap();
        assert!(far > Duration::from_secs(60), "{far:?}");
        assert_eq!((wait("soon"), wait("-3")), (None, None));
    }

    #[test]
    fn what_may_be_sent_again_depends_on_what_it_does() {
        let no = |status| ClientError::from(read(status, &outbound::HeaderMap::new(), b""));
        let (place, reason) = ("h:1".to_owned(), "x".to_owned());
        let broken =
            outbound::Error::Broken { place: place.clone(), reason: reason.clone() }.into();
        let unsent = outbound::Error::Connect { place, reason }.into();
        let table: [(ClientError, [bool; 3]); 6] = [
            (no(500), [true, false, false]),
            (no(503), [true, true, false]),
            (no(408), [false, false, false]),
            (no(404), [false, false, false]),
            (broken, [true, true, false]),
            (unsent, [true, true, true]),
        ];
        for (error, expected) in table {
            let kinds = [Repeat::Read, Repeat::Harmless, Repeat::Unsent];
            assert_eq!(kinds.map(|kind| error.allows(kind)), expected, "{error}");
        }
    }
}
