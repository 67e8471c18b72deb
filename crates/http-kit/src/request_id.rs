//! Request ids: the client's own when it is usable, else one of ours.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Characters of a client's request id: a UUID or a trace id fits, a log line stays readable.
const ID_CHARS_MAX: usize = 128;

/// Digits after a prefix: 60 random bits tell the requests of years apart.
const MADE_DIGITS: usize = 16;

/// The header that carries it, in and out.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The id of one request: 1 to 128 characters of `A-Z a-z 0-9 . _ -`.
///
/// Taken from the client's `x-request-id` when that has this form, else made here (a UUID v7).
/// The gate answers it in the same header. Handlers may take it as an argument.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// A new id.
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// The client's id, or a new one where it sent none, several, or one that has another form.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(&HEADER).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) => id.to_str().ok().and_then(Self::parse),
            _ => None,
        }
        .unwrap_or_else(Self::generate)
    }

    /// As [`RequestId::of`], for doors whose ids may have colons as well, and whose own begin with
    /// `prefix`: 16 hexadecimal digits follow it.
    pub fn prefixed(headers: &HeaderMap, prefix: &str) -> Self {
        let mut sent = headers.get_all(&HEADER).iter();
        let theirs = match (sent.next(), sent.next()) {
            (Some(id), None) => id.to_str().ok().and_then(|id| Self::parse_with(id, b":")),
            _ => None,
        };
        theirs.unwrap_or_else(|| {
            let digits = uuid::Uuid::new_v4().simple().to_string();
            Self(format!("{prefix}{}", digits.get(..MADE_DIGITS).unwrap_or(&digits)).into())
        })
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse_with(text, b"")
    }

    fn parse_with(text: &str, more: &[u8]) -> Option<Self> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let fits = (1..=ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|b| is_plain(b) || more.contains(&b));
        fits.then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as a header's value.
    pub(crate) fn header_value(&self) -> HeaderValue {
        // Ids are made of characters that every header may hold.
        HeaderValue::from_str(&self.0).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({})", self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Outside of a gate there is none yet.
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self::of(&parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{HEADER, ID_CHARS_MAX, RequestId};

    fn sent(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn a_usable_id_of_the_client_is_kept() {
        for id in ["a", "0199-ab.C_d", &"x".repeat(ID_CHARS_MAX)] {
            assert_eq!(sent(&[id.as_bytes()]), *id);
        }
    }

    #[test]
    fn any_other_is_replaced() {
        let long = "x".repeat(ID_CHARS_MAX + 1);
        for id in ["", "a b", "a\tb", "ü", "a/b", "a\"", long.as_str()] {
            let made = sent(&[id.as_bytes()]);
            assert_eq!(made.len(), 36, "{id:?} became {made}");
        }
        assert_eq!(sent(&[b"one", b"two"]).len(), 36);
        assert_eq!(sent(&[b"\xff"]).len(), 36);
        assert_ne!(sent(&[]), sent(&[]));
    }

    #[test]
    fn a_door_may_have_a_prefix_and_colons() {
        let prefixed = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_str(value).unwrap());
            RequestId::prefixed(&headers, "ctx-").to_string()
        };
        let long = "Az09._:-".repeat(16);
        for id in ["trace-42.a:B_c", &long] {
            assert_eq!(prefixed(id), *id);
        }
        for id in ["a b", "a/b", "a,b", "<x>", &format!("{long}x")] {
            let made = prefixed(id);
            assert!(made.starts_with("ctx-") && made.len() == 20, "{id:?} became {made}");
        }
        assert_ne!(prefixed("a b"), prefixed("a b"));
    }
}
