//! Why a request did not succeed.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::address::AddressClass;

/// Most characters of an address that a message repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// Why a request did not succeed. Messages name hosts, never paths or headers, which may hold what
/// a user hides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address cannot be read, or is of a kind that is not fetched.
    #[error("read the url {url:?}: {reason}")]
    Url {
        /// The start of it, without path and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The place is not public, and no setting opens it.
    #[error(transparent)]
    Blocked(#[from] Box<Blocked>),
    /// The name has no address.
    #[error("look up {host}: {reason}")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// No connection came about.
    #[error("connect to {place}: {reason}")]
    Connect {
        /// `host:port`.
        place: String,
        /// The innermost reason.
        reason: String,
    },
    /// A wait was longer than its limit.
    #[error("{place}: {wait} took longer than {}", stdx::duration(*.limit))]
    Timeout {
        /// `host:port`.
        place: String,
        /// What was waited for.
        wait: Wait,
        /// The limit.
        limit: Duration,
    },
    /// Something is larger than its limit.
    #[error("{place}: {part} has more than the limit of {}", stdx::bytes(*.limit_bytes))]
    TooLarge {
        /// `host:port`.
        place: String,
        /// What is too large.
        part: Part,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// A redirect that is not followed.
    #[error("{place} redirects {reason}")]
    Redirect {
        /// `host:port` of the server that sent it.
        place: String,
        /// Where to, and why that is not followed.
        reason: String,
    },
    /// The body is compressed though the request asked for it plain.
    #[error(
        "{place} sent a body in the encoding {encoding:?}, though it was asked for a plain one"
    )]
    Encoded {
        /// `host:port`.
        place: String,
        /// What the server calls it.
        encoding: String,
    },
    /// The connection broke, or what came is no HTTP.
    #[error("the connection to {place} broke: {reason}")]
    Broken {
        /// `host:port`.
        place: String,
        /// The innermost reason.
        reason: String,
    },
    /// The machine lacks what a connection needs.
    #[error("{0}")]
    Setup(String),
}

/// A place that is not public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The name or address as the url has it.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that is not public; none where the name alone says enough.
    pub address: Option<IpAddr>,
    /// What kind of place it is.
    pub class: AddressClass,
}

impl Blocked {
    /// Returns the entry of `[network] allow` that would open the place, if one can.
    #[must_use]
    pub fn opened_by(&self) -> Option<String> {
        if self.class.is_never() {
            return None;
        }
        let opens_by_name = self.class.opens_by_name() || self.address.is_none();
        Some(match self.address.map(|address| address.to_canonical()) {
            Some(address) if !opens_by_name || is_literal(&self.host) => place(address, self.port),
            _ => format!("{}:{}", self.host, self.port),
        })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, address, class } = self;
        write!(f, "refused to connect to {host}:{port}: ")?;
        match address {
            Some(address) if !is_literal(host) => {
                write!(f, "the name resolves to {address}, {class}")?;
            }
            _ => write!(f, "it is {class}")?,
        }
        match self.opened_by() {
            Some(entry) => {
                write!(f, "; to allow it, add {entry:?} to allow in [network] of the settings")
            }
            None => write!(f, ", which no setting allows"),
        }
    }
}

impl std::error::Error for Blocked {}

fn is_literal(host: &str) -> bool {
    host.starts_with('[') || host.parse::<IpAddr>().is_ok()
}

fn place(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The name, the connection and its encryption.
    Connect,
    /// The head of the answer.
    Answer,
    /// The next bytes of the body.
    Body,
    /// All of it together.
    Whole,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::Connect => "connecting",
            Wait::Answer => "the answer",
            Wait::Body => "the next part of the body",
            Wait::Whole => "the request as a whole",
        })
    }
}

/// What is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The body of the request.
    RequestBody,
    /// The head of the answer.
    Headers,
    /// The body of the answer.
    Body,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::RequestBody => "the body of the request",
            Part::Headers => "the head of the answer",
            Part::Body => "the body of the answer",
        })
    }
}

/// An error about an address that cannot be read. What stands behind the host is left out.
pub(crate) fn url(text: &str, reason: impl Into<String>) -> Error {
    let end = text.find("://").map_or(0, |at| at + 3);
    let rest = text.get(end..).unwrap_or_default();
    let host_end = rest.find(['/', '?', '#', '\\']).map_or(text.len(), |at| end + at);
    let shown = text.get(..host_end).unwrap_or(text);
    // A password may stand before the host.
    let shown = match (shown.rfind('@'), shown.get(..end)) {
        (Some(at), Some(scheme)) => format!("{scheme}…{}", shown.get(at..).unwrap_or_default()),
        _ => shown.to_owned(),
    };
    Error::Url { url: shown.chars().take(SHOWN_CHARS_MAX).collect(), reason: reason.into() }
}

/// Returns the innermost cause: those around it only say that something failed.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}
