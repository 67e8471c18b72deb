//! The one place where a socket is opened.
//!
//! The HTTP stack asks here for each new connection. Name, port and addresses are checked anew
//! each time, and what was checked is what is dialled, so that neither a name that changes its
//! address nor another reading of the url gets past.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Host;

use crate::error::{Error, Wait, root};
use crate::guard::{Guard, lookup};
use crate::resolve::{Dial, Resolve, connect_first};
use crate::{tls, tunnel};

/// Who is let through.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// Public places and those of the settings.
    Guarded(Guard),
    /// Every place: it was named by the settings.
    Open,
}

/// How connections are made.
pub(crate) struct Way {
    pub(crate) gate: Gate,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) proxies: Option<Matcher>,
    pub(crate) connect_timeout: Duration,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy's address may hold its password.
        f.debug_struct("Way").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// Where a connection ends.
struct Target {
    host: String,
    port: u16,
    is_encrypted: bool,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self, Error> {
        let is_encrypted = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| Error::Setup("connect: the url has no host".to_owned()))?;
        Ok(Self { host: host.to_owned(), port, is_encrypted })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Way {
    /// Returns the proxy that stands before an address. This machine has none before it.
    pub(crate) fn proxy_for(&self, uri: &Uri) -> Option<Intercept> {
        let is_here = uri.host().is_some_and(is_loopback);
        if is_here { None } else { self.proxies.as_ref()?.intercept(uri) }
    }

    /// Returns the header that opens the proxy of a request that is not encrypted; in a tunnel it
    /// goes with the opening of the tunnel.
    pub(crate) fn proxy_header(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme_str() == Some("https") {
            return None;
        }
        self.proxy_for(uri)?.basic_auth().cloned()
    }

    async fn open(&self, uri: &Uri) -> Result<Stream, Error> {
        let target = Target::of(uri)?;
        let Some(proxy) = self.proxy_for(uri) else {
            let plain = match &self.gate {
                Gate::Guarded(guard) => {
                    let addresses =
                        guard.addresses(&target.host, target.port, &*self.resolver).await?;
                    self.dial_any(&target, &addresses).await?
                }
                Gate::Open => self.dial_unchecked(&target).await?,
            };
            return Ok(Stream::new(encrypted(plain, &target).await?, false));
        };
        if let Gate::Guarded(guard) = &self.gate {
            match guard.addresses(&target.host, target.port, &*self.resolver).await {
                // Behind a proxy names are often known to the proxy alone.
                Ok(_) | Err(Error::Lookup { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let before = Target::of(proxy.uri())?;
        if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
            let scheme = proxy.uri().scheme_str().unwrap_or_default();
            return Err(failed(&before, format!("no proxy of the kind {scheme} is known")));
        }
        let mut stream = encrypted(self.dial_unchecked(&before).await?, &before).await?;
        if !target.is_encrypted {
            return Ok(Stream::new(stream, true));
        }
        tunnel::open(&mut stream, &target.place(), proxy.basic_auth())
            .await
            .map_err(|reason| failed(&before, reason))?;
        Ok(Stream::new(encrypted(stream, &target).await?, false))
    }

    /// Dials a place that the settings name.
    async fn dial_unchecked(&self, target: &Target) -> Result<Box<dyn Duplex>, Error> {
        let host = Host::parse(&target.host).map_err(|error| failed(target, error.to_string()))?;
        let found = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => lookup(&name, &*self.resolver).await?,
        };
        let addresses: Vec<_> =
            found.into_iter().map(|address| (address, target.port).into()).collect();
        self.dial_any(target, &addresses).await
    }

    async fn dial_any(
        &self,
        target: &Target,
        addresses: &[std::net::SocketAddr],
    ) -> Result<Box<dyn Duplex>, Error> {
        let dialled = connect_first(&*self.dial, addresses).await;
        let (stream, _) = dialled.map_err(|error| failed(target, root(&error)))?;
        Ok(Box::new(stream))
    }
}

fn failed(target: &Target, reason: String) -> Error {
    Error::Connect { place: target.place(), reason }
}

async fn encrypted(plain: Box<dyn Duplex>, target: &Target) -> Result<Box<dyn Duplex>, Error> {
    if !target.is_encrypted {
        return Ok(plain);
    }
    Ok(Box::new(tls::encrypt(plain, &target.host, &target.place()).await?))
}

/// Tells whether a host is this machine, by its name or its address.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What the HTTP stack asks for a connection.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) Arc<Way>);

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let way = Arc::clone(&self.0);
        Box::pin(async move {
            let limit = way.connect_timeout;
            match tokio::time::timeout(limit, way.open(&uri)).await {
                Ok(opened) => opened,
                Err(_) => {
                    let place = Target::of(&uri)?.place();
                    Err(Error::Timeout { place, wait: Wait::Connect, limit })
                }
            }
        })
    }
}

/// What bytes go over: plain, encrypted, or encrypted twice through a proxy.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection, ready for HTTP.
pub(crate) struct Stream {
    io: TokioIo<Box<dyn Duplex>>,
    is_proxied: bool,
}

impl Stream {
    fn new(io: Box<dyn Duplex>, is_proxied: bool) -> Self {
        Self { io: TokioIo::new(io), is_proxied }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_by_name_and_address() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("[::1]", true),
            ("localhost", true),
            ("a.localhost", true),
            ("127.9.9.9", true),
            ("api.openai.com", false),
            ("notlocalhost", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
