//! The client for servers that the settings name: model servers and the like.
//!
//! Whoever writes the settings may mean their own machine or network, so that no place is refused.
//! In return nothing that comes from outside may choose the address: redirects are answers here.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::Url;

use crate::client::USER_AGENT;
use crate::connect::{Gate, Way};
use crate::error::{Error, Wait};
use crate::resolve::{SystemResolver, TcpDial};
use crate::response::{Bounds, Response};
use crate::transport::{Outgoing, Pool, Transport, place};

/// Most idle connections that are kept per server: as many as the steps that end together.
const IDLE_PER_HOST_MAX: usize = 32;

/// How long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For name, connection and encryption together.
    pub connect: Duration,
    /// For a server that says nothing, before its answer and within it.
    pub silence: Duration,
    /// How long an idle connection is kept for the next request.
    pub keep_alive: Duration,
}

/// Talks to servers that the settings name, wherever they are. Proxies of the environment are
/// honoured but for this machine: the user means these servers, and may reach them no other way.
/// Follows no redirect. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Servers {
    transport: Transport,
    silence: Duration,
}

impl Servers {
    /// Makes a client. Opens nothing, and reads nothing but the proxy variables.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        Self::with(waits, Some(Matcher::from_env()))
    }

    /// Makes a client that knows no proxy: for servers of this machine.
    #[must_use]
    pub fn local(waits: Waits) -> Self {
        Self::with(waits, None)
    }

    fn with(waits: Waits, proxies: Option<Matcher>) -> Self {
        let way = Way {
            gate: Gate::Open,
            resolver: Arc::new(SystemResolver::default()),
            dial: Arc::new(TcpDial),
            proxies,
            connect_timeout: waits.connect,
        };
        let pool = Pool { per_host_max: IDLE_PER_HOST_MAX, idle_timeout: waits.keep_alive };
        Self { transport: Transport::new(way, pool), silence: waits.silence }
    }

    /// Asks for a page.
    ///
    /// # Errors
    /// [`Error::Lookup`], [`Error::Connect`], [`Error::Timeout`], [`Error::Broken`],
    /// [`Error::Setup`]; a status is none.
    pub async fn get(&self, url: &Url, headers: HeaderMap) -> Result<Response, Error> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    /// Sends a body. The answer's body streams and has no limit but the wait for each piece.
    ///
    /// # Errors
    /// As [`Servers::get`].
    pub async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Response, Error> {
        self.send(Method::POST, url, headers, body.into()).await
    }

    /// Sends a request of any method.
    ///
    /// # Errors
    /// As [`Servers::get`].
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, Error> {
        let mut url = url.clone();
        if let Some(login) = take_login(&mut url) {
            headers.entry(header::AUTHORIZATION).or_insert(login);
        }
        let agent = HeaderValue::from_static(USER_AGENT);
        headers.entry(header::USER_AGENT).or_insert(agent);
        let outgoing = Outgoing { method, url, headers, body };
        let limit = self.silence;
        let sent = timeout(limit, self.transport.send(&outgoing)).await;
        let response = sent.map_err(|_| Error::Timeout {
            place: place(&outgoing.url),
            wait: Wait::Answer,
            limit,
        })??;
        let bounds = Bounds { bytes_max: u64::MAX, idle: limit, whole: None };
        Ok(Response::new(response, outgoing.url, bounds))
    }
}

/// Takes a name and password out of a url and returns the header that says them.
fn take_login(url: &mut Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut login: Vec<u8> = percent_decode_str(url.username()).collect();
    login.push(b':');
    login.extend(percent_decode_str(url.password().unwrap_or_default()));
    // Neither can fail on a url that has a host.
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(login))).ok()?;
    value.set_sensitive(true);
    Some(value)
}
