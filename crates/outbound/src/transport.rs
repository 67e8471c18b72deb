//! One request and the head of its answer: no redirects, no limits of size.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use crate::connect::{Connector, Way};
use crate::error::{self, Error, Part, root};

/// Largest head of an answer, which is also the read buffer of a connection. Servers themselves
/// send at most 8 to 16 KiB.
pub(crate) const HEADERS_BYTES_MAX: usize = 64 << 10;

/// Sends requests over connections that a [`Way`] opens.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    way: Arc<Way>,
    client: Client<Connector, Full<Bytes>>,
}

/// What is kept of idle connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) per_host_max: usize,
    pub(crate) idle_timeout: Duration,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Transport {
    /// Opens nothing.
    pub(crate) fn new(way: Way, pool: Pool) -> Self {
        let way = Arc::new(way);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(pool.idle_timeout)
            .pool_max_idle_per_host(pool.per_host_max)
            .http1_max_buf_size(HEADERS_BYTES_MAX)
            .build(Connector(Arc::clone(&way)));
        Self { way, client }
    }

    /// Sends a request and waits for the head of the answer. Dropping it ends the connection.
    pub(crate) async fn send(&self, outgoing: &Outgoing) -> Result<Response<Incoming>, Error> {
        let url = &outgoing.url;
        let uri: Uri = url
            .as_str()
            .parse()
            .map_err(|error: http::uri::InvalidUri| error::url(url.as_str(), error.to_string()))?;
        let mut request = Request::new(Full::new(outgoing.body.clone()));
        *request.method_mut() = outgoing.method.clone();
        *request.headers_mut() = outgoing.headers.clone();
        if let Some(auth) = self.way.proxy_header(&uri) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, auth);
        }
        let any = HeaderValue::from_static("*/*");
        request.headers_mut().entry(header::ACCEPT).or_insert(any);
        *request.uri_mut() = uri;
        self.client.request(request).await.map_err(|error| explained(&error, &place(url)))
    }
}

/// Finds our own error among the causes, or says what the stack says.
fn explained(error: &hyper_util::client::legacy::Error, place: &str) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(own) = inner.downcast_ref::<Error>() {
            return own.clone();
        }
        if inner.downcast_ref::<hyper::Error>().is_some_and(is_head_too_large) {
            let limit_bytes = u64::try_from(HEADERS_BYTES_MAX).unwrap_or(u64::MAX);
            return Error::TooLarge { place: place.to_owned(), part: Part::Headers, limit_bytes };
        }
        cause = inner.source();
    }
    let (place, reason) = (place.to_owned(), root(error));
    if error.is_connect() {
        Error::Connect { place, reason }
    } else {
        Error::Broken { place, reason }
    }
}

/// The stack has a question for it in its server half alone; its words are the same in both.
fn is_head_too_large(error: &hyper::Error) -> bool {
    error.is_parse() && error.to_string() == "message head is too large"
}

/// Returns `host:port`.
pub(crate) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
