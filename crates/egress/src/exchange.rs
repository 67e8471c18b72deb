//! One connection of a neuron: its requests, one after the other, and what it turns into.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::Answer;
use crate::audit::Seen;
use crate::forward::{Route, forward};
use crate::proxy::{Link, Proxy};
use crate::refusal::{Refusal, shown};
use crate::rules::Passage;
use crate::target::Target;
use crate::tunnel;
use crate::wire::{Pulse, Wire};

/// Headers of one request: browsers send some twenty.
const HEADERS_MAX: usize = 100;

/// Bytes of a request line with its headers: tokens, cookies and signed addresses fit.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// Bytes that a connection holds for each direction before it waits for the other side.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// How much longer than a request a whole connection may stand still: the request ends first,
/// with an answer that says so.
const SILENCE_GRACE: std::time::Duration = std::time::Duration::from_secs(5);

/// What a connection turns into when its requests are over.
#[derive(Debug)]
pub(crate) enum Next {
    /// Bytes pass through, once the hello has shown whom they are for.
    Through { target: Target, client: OnUpgrade, server: Box<Link>, seen: Seen },
    /// TLS ends here, and requests go on inside.
    Inside { target: Target, client: OnUpgrade, seen: Seen },
    /// A web socket: bytes pass between two connections that were HTTP.
    Joined { client: OnUpgrade, server: OnUpgrade, connection: AbortOnDropHandle<()> },
}

/// Where requests come in.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// At the door: they name their place.
    Door,
    /// Inside of a tunnel whose TLS ends here: they are all for one place.
    Tunnel(Target),
}

/// One connection, or the inside of one.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) pulse: Arc<Pulse>,
    scope: Scope,
    next: Mutex<Option<Next>>,
}

/// Serves a connection of the neuron to its end.
pub(crate) async fn run(proxy: &Arc<Proxy>, stream: UnixStream) {
    let pulse = Arc::new(Pulse::new());
    let wire = Wire::new(stream, &pulse);
    let Some(next) = serve(proxy, &pulse, Scope::Door, wire).await else { return };
    let Some((target, inner)) = Box::pin(tunnel::run(proxy, &pulse, next)).await else { return };
    let inside = Box::pin(serve(proxy, &pulse, Scope::Tunnel(target), inner));
    if let Some(next) = inside.await {
        // What goes on inside of a tunnel opens no further one.
        drop(Box::pin(tunnel::run(proxy, &pulse, next)).await);
    }
}

/// Serves the requests of a stream. Returns what it turns into after the last one.
async fn serve<S>(proxy: &Arc<Proxy>, pulse: &Arc<Pulse>, scope: Scope, stream: S) -> Option<Next>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = proxy.options.limits;
    let (own, beat) = (Arc::clone(proxy), Arc::clone(pulse));
    let exchange = Arc::new(Exchange { proxy: own, pulse: beat, scope, next: Mutex::new(None) });
    let service = service_fn(|request| {
        let exchange = Arc::clone(&exchange);
        let answer: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(
                async move { Ok::<_, std::convert::Infallible>(exchange.answer(request).await) },
            );
        answer
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_max)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        over = connection => if let Err(error) = over {
            tracing::debug!(%error, "a connection of a neuron broke");
            if error.is_parse() {
                // The stack has answered already, with a status of its own.
                let refusal = Refusal::malformed(format!("the request cannot be read: {error}"));
                exchange.seen_nothing().refused(&refusal);
            }
        },
        () = pulse.quiet(limits.silence_max + SILENCE_GRACE) => return None,
    }
    exchange.next.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Exchange {
    /// Has a connection turn into something else when its answer is out.
    pub(crate) fn turn_into(&self, next: Next) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let answered = match &self.scope {
            Scope::Door if request.method() == Method::CONNECT => {
                self.connect(request).await.map(|response| response.map(Either::Left))
            }
            Scope::Door => self.plain(request).await,
            Scope::Tunnel(target) => self.inner(request, target).await,
        };
        answered.unwrap_or_else(|refusal| refusal.response().map(Either::Left))
    }

    /// A request for `http://`.
    async fn plain(&self, request: Request<Incoming>) -> Result<Response<Answer>, Refusal> {
        let target = match plain_target(request.uri()) {
            Ok(target) => target,
            Err(reason) => return Err(self.unreadable(&request, reason)),
        };
        let seen = Seen::new(&self.proxy, request.method(), &target);
        let route = Route { target, is_encrypted: false, seen };
        Box::pin(forward(self, request, route)).await
    }

    /// A request inside of a tunnel, which must be for the place of the tunnel.
    async fn inner(
        &self,
        request: Request<Incoming>,
        target: &Target,
    ) -> Result<Response<Answer>, Refusal> {
        let seen = Seen::new(&self.proxy, request.method(), target);
        if let Err(refusal) = for_tunnel(request.uri(), request.headers(), target) {
            seen.refused(&refusal);
            return Err(refusal);
        }
        let route = Route { target: target.clone(), is_encrypted: true, seen };
        Box::pin(forward(self, request, route)).await
    }

    async fn connect(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let target = match tunnel_target(request.uri()) {
            Ok(target) => target,
            Err(reason) => return Err(self.unreadable(&request, reason)),
        };
        let mut seen = Seen::new(&self.proxy, request.method(), &target);
        let client = hyper::upgrade::on(&mut request);
        let opened = match self.proxy.rules.connect(&target) {
            Ok(Passage::Inside) => Ok(None),
            Ok(Passage::Through(guard)) => {
                self.proxy.connect(&target, &guard, &self.pulse).await.map(Some)
            }
            Err(refusal) => Err(refusal),
        };
        match opened {
            Err(refusal) => {
                seen.refused(&refusal);
                return Err(refusal);
            }
            Ok(None) => self.turn_into(Next::Inside { target, client, seen }),
            Ok(Some(server)) => {
                seen.at(server.address.ip());
                let server = Box::new(server);
                self.turn_into(Next::Through { target, client, server, seen });
            }
        }
        Ok(Response::new(Full::default()))
    }

    /// A request of which nothing was read.
    fn seen_nothing(&self) -> Seen {
        match &self.scope {
            Scope::Door => Seen::unreadable(&self.proxy, "", ""),
            Scope::Tunnel(target) => Seen::unreadable(&self.proxy, "", &target.place.to_string()),
        }
    }

    /// Something that is no request for a place.
    fn unreadable(&self, request: &Request<Incoming>, reason: String) -> Refusal {
        let refusal = Refusal::malformed(reason);
        let place = request.uri().authority().map(|authority| shown(authority.as_str()));
        let place = place.unwrap_or_default();
        Seen::unreadable(&self.proxy, request.method().as_str(), &place).refused(&refusal);
        refusal
    }
}

fn plain_target(uri: &Uri) -> Result<Target, String> {
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err("this is a proxy: ask for a whole address, as http://host/path".to_owned());
    };
    if *scheme == Scheme::HTTPS {
        return Err("ask for https:// through CONNECT, so that it is encrypted".to_owned());
    }
    if *scheme != Scheme::HTTP {
        return Err(format!("{}: is not known here, only http:// is", shown(scheme.as_str())));
    }
    Target::parse(authority.as_str(), Some(80))
}

fn tunnel_target(uri: &Uri) -> Result<Target, String> {
    match (uri.scheme(), uri.authority(), uri.path_and_query()) {
        (None, Some(authority), None) => Target::parse(authority.as_str(), None),
        _ => Err("CONNECT is for host:port".to_owned()),
    }
}

/// Checks that a request inside of a tunnel names no other place than the tunnel.
fn for_tunnel(uri: &Uri, headers: &HeaderMap, target: &Target) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(Refusal::malformed("a request has one Host header")),
    };
    let in_uri = uri.authority().map(http::uri::Authority::as_str);
    if uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTPS) {
        return Err(Refusal::malformed("a request inside of TLS is for https://"));
    }
    for named in in_uri.into_iter().chain([host]) {
        let read = Target::parse(named, Some(target.port)).map_err(Refusal::malformed)?;
        if read != *target {
            let mut refusal = Refusal::forbidden(format!(
                "a tunnel to {target} is not for {read}, which a request inside names"
            ));
            refusal.status = StatusCode::MISDIRECTED_REQUEST;
            return Err(refusal);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_address_is_checked() {
        for (uri, expected) in [
            ("http://Example.com/x", Ok("example.com:80")),
            ("http://example.com:8080", Ok("example.com:8080")),
            ("HTTP://example.com/", Ok("example.com:80")),
            ("/x", Err("whole address")),
            ("*", Err("whole address")),
            ("https://example.com/", Err("CONNECT")),
            ("ftp://example.com/", Err("only http://")),
            ("http://user:pass@example.com/", Err("password")),
        ] {
            let read = plain_target(&uri.parse().unwrap()).map(|target| target.to_string());
            match expected {
                Ok(spelling) => assert_eq!(read.as_deref(), Ok(spelling), "{uri}"),
                Err(part) => assert!(read.unwrap_err().contains(part), "{uri}"),
            }
        }
        for (uri, is_fine) in [
            ("example.com:443", true),
            ("[::1]:443", true),
            ("example.com", false),
            ("http://example.com:443/", false),
            ("/example.com:443", false),
        ] {
            assert_eq!(tunnel_target(&uri.parse().unwrap()).is_ok(), is_fine, "{uri}");
        }
    }

    #[test]
    fn a_request_inside_names_the_place_of_its_tunnel() {
        let target = Target::parse("example.com:8443", None).unwrap();
        for (uri, hosts, status) in [
            ("/", &["example.com:8443"][..], 200),
            ("/", &["EXAMPLE.com."], 200),
            ("https://example.com:8443/x", &["example.com"], 200),
            ("/", &["other.example"], 421),
            ("/", &["example.com:443"], 421),
            ("https://other.example/", &["example.com:8443"], 421),
            ("http://example.com:8443/", &["example.com:8443"], 400),
            ("/", &[], 400),
            ("/", &["example.com:8443", "example.com:8443"], 400),
            ("/", &[""], 400),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            let judged = for_tunnel(&uri.parse().unwrap(), &headers, &target);
            let judged = judged.map_or_else(|refusal| refusal.status.as_u16(), |()| 200);
            assert_eq!(judged, status, "{uri} {hosts:?}");
        }
    }
}
