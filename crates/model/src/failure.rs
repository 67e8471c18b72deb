//! What went wrong at a provider, in our words: kinds, waits and messages.

use std::time::Duration;

use driver_api::{ModelError, ModelErrorKind};
use outbound::HeaderMap;
use serde_json::Value;

use crate::json;

/// Longest message, in characters; [`ModelError::message`] promises it.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Longest wait that a provider is believed: what is longer is a broken header, not a plan.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a provider says about a failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    /// Its code or type, for example `overloaded_error`.
    pub(crate) code: String,
    /// Its sentence.
    pub(crate) message: String,
    /// How long it asks to wait, where the body says so.
    pub(crate) retry_after: Option<Duration>,
}

impl Words {
    /// Reads the error object of any wire, or the object around it.
    pub(crate) fn of(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::String(text)) => return Self::said(json::text(value, "code"), text),
            Some(inner @ Value::Object(_)) => inner,
            _ => value,
        };
        let code = ["code", "status", "type"]
            .iter()
            .map(|field| json::text(inner, field))
            .filter(|text| !text.is_empty() && *text != "error")
            .collect::<Vec<_>>()
            .join(" ");
        let message = ["message", "detail", "msg"]
            .iter()
            .find_map(|field| inner.get(field))
            .map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned));
        let retry_after = json::list(inner, "details")
            .iter()
            .find_map(|detail| seconds(json::text(detail, "retryDelay").strip_suffix('s')?));
        Self { code, message: message.unwrap_or_default(), retry_after }
    }

    fn said(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), retry_after: None }
    }

    /// Reads the body of an error answer, whatever it is.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        let words = serde_json::from_slice::<Value>(body).map(|value| Self::of(&value));
        match words {
            Ok(words) if !words.message.is_empty() || !words.code.is_empty() => words,
            _ => Self::said("", String::from_utf8_lossy(body).trim()),
        }
    }

    fn sentence(&self) -> String {
        match (self.message.trim(), self.code.trim()) {
            ("", code) => code.to_owned(),
            (message, "") => message.to_owned(),
            (message, code) if message.contains(code) => message.to_owned(),
            (message, code) => format!("{message} ({code})"),
        }
    }
}

/// Makes the error of an answer whose status is no success.
pub(crate) fn of_status(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let words = Words::of_body(body);
    let kind = kind_of_status(status, &words);
    let said = words.sentence();
    let colon = if said.is_empty() { "" } else { ": " };
    let mut error = ModelError::new(kind, short(&format!("status {status}{colon}{said}")));
    error.retry_after = retry_after(headers).or(words.retry_after);
    error
}

/// Makes the error that a provider sends as an event of a stream.
pub(crate) fn of_event(value: &Value) -> ModelError {
    let words = Words::of(value);
    let inner = value.get("error").unwrap_or(value);
    let status = inner.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
    let kind = kind_of_words(&words).or(status.map(|status| kind_of_status(status, &words)));
    let message = format!("the provider ended the stream with an error: {}", words.sentence());
    let mut error = ModelError::new(kind.unwrap_or(ModelErrorKind::Unavailable), short(&message));
    error.retry_after = words.retry_after;
    error
}

fn kind_of_status(status: u16, words: &Words) -> ModelErrorKind {
    let overflow = is_overflow(words);
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        408 | 409 | 425 => ModelErrorKind::Unavailable,
        413 => ModelErrorKind::ContextOverflow,
        // An empty account answers 429 too, and no waiting fills it.
        429 if words.code.contains("insufficient_quota") => ModelErrorKind::Rejected,
        429 => ModelErrorKind::RateLimited,
        503 | 529 => ModelErrorKind::Overloaded,
        // Some local servers say a prompt that is too long as a failure of their own.
        400..=599 if overflow => ModelErrorKind::ContextOverflow,
        500..=599 => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Rejected,
    }
}

/// Judges by code and text alone, where no status came with them.
fn kind_of_words(words: &Words) -> Option<ModelErrorKind> {
    const TABLE: [(&[&str], ModelErrorKind); 6] = [
        (&["overload", "slow_down"], ModelErrorKind::Overloaded),
        (&["insufficient_quota"], ModelErrorKind::Rejected),
        (&["rate_limit", "resource_exhausted", "too_many_requests"], ModelErrorKind::RateLimited),
        (
            &["authentication", "permission", "invalid_api_key", "unauthenticated"],
            ModelErrorKind::Unauthorized,
        ),
        (
            &["unavailable", "server_error", "api_error", "timeout", "internal", "deadline"],
            ModelErrorKind::Unavailable,
        ),
        (
            &["invalid", "not_found", "unsupported", "failed_precondition", "bio_policy"],
            ModelErrorKind::Rejected,
        ),
    ];
    if is_overflow(words) {
        return Some(ModelErrorKind::ContextOverflow);
    }
    let code = words.code.to_ascii_lowercase();
    let fits = |marks: &[&str]| marks.iter().any(|mark| code.contains(mark));
    TABLE.iter().find(|(marks, _)| fits(marks)).map(|(_, kind)| *kind)
}

/// Tells whether a provider says that the prompt is too long: each says it in its own words.
fn is_overflow(words: &Words) -> bool {
    const MARKS: [&str; 10] = [
        "prompt is too long",
        "context_length_exceeded",
        "maximum context",
        "context window",
        "exceed context limit",
        "exceeds the available context size",
        "exceed_context_size",
        "exceeds the maximum number of tokens",
        "request_too_large",
        "request too large for model",
    ];
    let text = format!("{} {}", words.code, words.message).to_ascii_lowercase();
    MARKS.iter().any(|mark| text.contains(mark))
}

/// Reads how long a provider asks to wait.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1e3).ok().map(|wait| wait.min(RETRY_AFTER_MAX));
    }
    let value = text("retry-after")?;
    seconds(value).or_else(|| until(value))
}

fn seconds(text: &str) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    Some(wait.min(RETRY_AFTER_MAX))
}

fn until(date: &str) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    let wait = at.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// Cuts a message to its limit.
pub(crate) fn short(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => message.to_owned(),
        Some(_) => message.chars().take(MESSAGE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> ModelErrorKind {
        of_status(status, &HeaderMap::new(), body.as_bytes()).kind
    }

    #[test]
    fn statuses_have_kinds() {
        use ModelErrorKind::*;
        for (code, kind) in [
            (400, Rejected),
            (401, Unauthorized),
            (402, Rejected),
            (403, Unauthorized),
            (404, Rejected),
            (408, Unavailable),
            (409, Unavailable),
            (413, ContextOverflow),
            (422, Rejected),
            (425, Unavailable),
            (429, RateLimited),
            (500, Unavailable),
            (502, Unavailable),
            (503, Overloaded),
            (504, Unavailable),
            (529, Overloaded),
            (302, Rejected),
        ] {
            assert_eq!(status(code, "{}"), kind, "status {code}");
        }
    }

    #[test]
    fn texts_that_mean_overflow() {
        for body in [
            r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens"}"#,
            r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 1 + 2"}}"#,
        ] {
            assert_eq!(status(400, body), ModelErrorKind::ContextOverflow, "{body}");
        }
        let quota = r#"{"error":{"code":"insufficient_quota","message":"no money"}}"#;
        assert_eq!(status(429, quota), ModelErrorKind::Rejected);
    }

    #[test]
    fn messages_have_status_and_words_of_every_shape() {
        let said = |body: &str| of_status(400, &HeaderMap::new(), body.as_bytes()).message;
        let inner = r#"{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}"#;
        assert_eq!(said(inner), "status 400: bad (invalid_request_error)");
        assert_eq!(said(r#"{"error":"model 'x' not found"}"#), "status 400: model 'x' not found");
        assert_eq!(said(r#"{"detail":[{"msg":"m"}]}"#), "status 400: [{\"msg\":\"m\"}]");
        assert_eq!(
            said(r#"[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]"#),
            "status 400: m (INVALID_ARGUMENT)"
        );
        assert_eq!(said("<html>gone</html>"), "status 400: <html>gone</html>");
        assert_eq!(said(""), "status 400");
        assert_eq!(said(&"é".repeat(5_000)).chars().count(), MESSAGE_CHARS_MAX);
    }

    #[test]
    fn error_events_have_kinds() {
        use ModelErrorKind::*;
        for (event, kind) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#, Overloaded),
            (r#"{"type":"error","error":{"type":"rate_limit_error"}}"#, RateLimited),
            (r#"{"type":"error","error":{"type":"api_error"}}"#, Unavailable),
            (r#"{"type":"error","error":{"type":"authentication_error"}}"#, Unauthorized),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"m"}}"#,
                Rejected,
            ),
            (r#"{"type":"error","code":"server_error","message":"m","param":null}"#, Unavailable),
            (r#"{"type":"error","code":"overloaded_error","message":"m"}"#, Overloaded),
            (r#"{"error":{"message":"m","type":"rate_limit_exceeded","code":null}}"#, RateLimited),
            (r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#, RateLimited),
            (r#"{"error":{"code":503,"message":"m"}}"#, Overloaded),
            (r#"{"error":{"code":"context_length_exceeded"}}"#, ContextOverflow),
            (r#"{"error":{"message":"something"}}"#, Unavailable),
            (r#"{"error":"oops"}"#, Unavailable),
        ] {
            assert_eq!(of_event(&serde_json::from_str(event).unwrap()).kind, kind, "{event}");
        }
    }

    #[test]
    fn waits_are_read_in_every_form() {
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wait("retry-after", "1e12"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("retry-after", "-3"), None);
        assert_eq!(wait("retry-after", "soon"), None);
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let seconds = wait("retry-after", &date).unwrap().as_secs();
        assert!((95..=100).contains(&seconds), "{seconds}");
        let body = r#"{"error":{"code":429,"message":"m","details":[{"retryDelay":"34.5s"}]}}"#;
        let error = of_status(429, &HeaderMap::new(), body.as_bytes());
        assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
    }
}
