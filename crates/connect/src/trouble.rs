//! What went wrong with a server, in words for people and models.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::words::cut;

/// Most characters of what a server itself says.
const OWN_WORDS_MAX: usize = 300;

/// How requests over HTTP fail.
pub(crate) type HttpError = StreamableHttpError<outbound::Error>;

/// Says why no connection came about.
pub(crate) fn of_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection before it answered".to_owned()
        }
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "what it said first is no answer to what it was asked: is it an MCP server?".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            let words = cut(&error.message, OWN_WORDS_MAX);
            format!("it refused to begin: {words} ({})", error.code.0)
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            client_supported,
            server_supported,
        } => {
            let list = |versions: &[rmcp::model::ProtocolVersion]| {
                let names: Vec<String> = versions.iter().map(ToString::to_string).collect();
                names.join(", ")
            };
            format!(
                "it speaks the revisions {} and this program {}: one of both has to be renewed",
                cut(&list(server_supported), OWN_WORDS_MAX),
                list(client_supported)
            )
        }
        // It does not know the question of the newest revision, which is no trouble; what it said
        // to the older one is.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        error => innermost(error),
    }
}

/// Says why a request brought no result.
pub(crate) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => {
            format!("it answered: {} ({})", cut(&error.message, OWN_WORDS_MAX), error.code.0)
        }
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => "it closed the connection".to_owned(),
        ServiceError::UnexpectedResponse => "its answer belongs to another request".to_owned(),
        error => innermost(error),
    }
}

fn of_transport(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<HttpError>() {
        Some(error) => of_http(error),
        None => format!("it takes no more requests: {}", innermost(&*error.error)),
    }
}

fn of_http(error: &HttpError) -> String {
    match error {
        HttpError::Client(
            error @ (outbound::Error::Connect { .. } | outbound::Error::Lookup { .. }),
        ) => {
            format!("{error}; does it run, and is its url right?")
        }
        HttpError::Client(error) => error.to_string(),
        // What became of the tokens, in its own words.
        HttpError::Io(error) => error.to_string(),
        HttpError::HttpStatus(error) => {
            let later = error.retry_after.as_deref();
            let later = later.map(|later| format!(", to be asked again after {later}"));
            format!("it answered HTTP {}{}", error.status, later.unwrap_or_default())
        }
        HttpError::UnexpectedServerResponse(text) => {
            let is_elsewhere = ["HTTP 404", "HTTP 405"].iter().any(|code| text.starts_with(code));
            let hint = if is_elsewhere { "; is its url right? Many end in /mcp" } else { "" };
            format!("it answered {}{hint}", cut(text.trim(), OWN_WORDS_MAX))
        }
        HttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("no content type");
            format!("it answered with {kind} instead of JSON or events: is its url right?")
        }
        HttpError::UnexpectedEndOfStream => "its answer broke off".to_owned(),
        HttpError::TransportChannelClosed => "the connection is closed".to_owned(),
        HttpError::SessionExpired => "it has forgotten the session".to_owned(),
        HttpError::AuthRequired(_) => "a person has to authorize access to it first".to_owned(),
        HttpError::InsufficientScope(_) => "it wants further rights from a person".to_owned(),
        HttpError::Deserialize(error) => format!("its answer cannot be read: {error}"),
        error => innermost(error),
    }
}

/// Returns the innermost cause: those around it only say that something failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => cut(&error.to_string(), OWN_WORDS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
    use rmcp::transport::streamable_http_client::HttpStatusError;

    use super::*;

    #[test]
    fn what_fails_at_the_start_is_told_plainly() {
        use ClientInitializeError as E;
        let refused = || {
            let error = ErrorData::new(ErrorCode::INVALID_PARAMS, "not you", None);
            E::JsonRpcError(error)
        };
        let closed = || E::ConnectionClosed("initialize response".to_owned());
        let both =
            E::LegacyFallbackFailed { discover: Box::new(closed()), fallback: Box::new(refused()) };
        let other = E::NoCompatibleProtocolVersion {
            client_supported: vec![ProtocolVersion::V_2026_07_28],
            server_supported: vec![ProtocolVersion::V_2024_11_05],
        };
        for (error, part) in [
            (closed(), "closed the connection before it answered"),
            (E::ExpectedInitResult(None), "is it an MCP server?"),
            (refused(), "it refused to begin: not you (-32602)"),
            (both, "it refused to begin: not you"),
            (other, "the revisions 2024-11-05 and this program 2026-07-28"),
        ] {
            let told = of_start(&error);
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn what_fails_over_http_says_what_may_help() {
        let refused = outbound::Error::Connect {
            place: "127.0.0.1:9".to_owned(),
            reason: "connection refused".into(),
        };
        for (error, part) in [
            (HttpError::Client(refused), "127.0.0.1:9: connection refused; does it run"),
            (
                HttpError::HttpStatus(HttpStatusError::new(503, Some("7".to_owned()))),
                "HTTP 503, to be asked again after 7",
            ),
            (HttpError::UnexpectedServerResponse("HTTP 404 Not Found: ".into()), "end in /mcp"),
            (HttpError::UnexpectedContentType(Some("text/html".to_owned())), "with text/html"),
            (HttpError::Io(std::io::Error::other("the token is spent")), "the token is spent"),
        ] {
            let told = of_http(&error);
            assert!(told.contains(part), "{told}");
        }
        let told = of_request(&ServiceError::TransportClosed);
        assert_eq!(told, "it closed the connection");
    }
}
