//! A request that gets no further, and why.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use outbound::{Blocked, Error};

use crate::target::Target;

/// Most characters of what a client wrote that a message repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// A request that gets no further. The reason is for the neuron and for the record: it names
/// hosts, never headers' values or what stands behind a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
}

impl Refusal {
    /// It is not allowed.
    pub(crate) fn forbidden(reason: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, reason: reason.into() }
    }

    /// It cannot be read.
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason: reason.into() }
    }

    /// The server cannot be reached, or what it says cannot be read.
    pub(crate) fn upstream(reason: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, reason: reason.into() }
    }

    /// The server is too slow.
    pub(crate) fn late(reason: impl Into<String>) -> Self {
        Self { status: StatusCode::GATEWAY_TIMEOUT, reason: reason.into() }
    }

    /// What became of an attempt to connect.
    pub(crate) fn connecting(target: &Target, error: &Error) -> Self {
        match error {
            Error::Blocked(blocked) => Self::forbidden(place(target, blocked)),
            Error::Url { reason, .. } => Self::malformed(format!("{target}: {reason}")),
            Error::Timeout { .. } => Self::late(error.to_string()),
            _ => Self::upstream(error.to_string()),
        }
    }

    /// The answer that says so.
    pub(crate) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.text())));
        *response.status_mut() = self.status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        response
    }

    /// The same for a client that speaks HTTP where TLS should be.
    pub(crate) fn raw(&self) -> String {
        let text = self.text();
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            self.status.as_str(),
            self.status.canonical_reason().unwrap_or_default(),
            text.len(),
        )
    }

    fn text(&self) -> String {
        format!("egress: {}\n", self.reason)
    }
}

/// The address itself is not told: names of a private network are nothing for a neuron to explore.
fn place(target: &Target, blocked: &Blocked) -> String {
    let class = blocked.class;
    let is = if target.is_literal() { "is" } else { "leads to" };
    match blocked.opened_by() {
        None => format!("{target} {is} {class}, which no rule opens"),
        Some(_) if class == outbound::AddressClass::Metadata => format!(
            "{target} {is} {class}: a rule would have to name it by itself and allow private \
             addresses"
        ),
        Some(_) => {
            format!("{target} {is} {class}: its rule would have to allow private addresses")
        }
    }
}

/// What a client wrote, for a message: short, and without anything that a terminal obeys.
pub(crate) fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN_CHARS_MAX).collect()
}
