//! What every request of this door passes behind the lobby: the limits, the token, the method;
//! and how its refusals are worded.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, header};
use http_kit::{Admitted, Caller, Counted, FixedWindow, Peer, RequestId, client_bucket};
use tokio::time::Instant;

use crate::door::{BASE, RateLimits, Shared};
use crate::error::{Code, Refused};

/// Where the limits and the token hold; nothing is anywhere else.
const API: &str = "/api/";

/// The header that tells the version of the program.
const VERSION: HeaderName = HeaderName::from_static("x-nsys-cortex-version");

/// The limits of this door.
#[derive(Debug)]
pub(crate) struct Limits {
    general: Option<FixedWindow>,
    llm: Option<FixedWindow>,
}

impl Limits {
    pub(crate) fn new(rates: &RateLimits) -> Self {
        let window = |limit| FixedWindow::new(limit, rates.window);
        Self { general: window(rates.general), llm: window(rates.llm) }
    }

    /// Counts a request; of several limits the one is returned that is passed, or the tighter.
    fn count(&self, client: IpAddr, is_llm: bool) -> Option<Counted> {
        let now = Instant::now();
        let general = self.general.as_ref().map(|limit| limit.count(client, now));
        if general.is_some_and(|counted| !counted.is_within) || !is_llm {
            return general;
        }
        self.llm.as_ref().map(|limit| limit.count(client, now)).or(general)
    }
}

/// Tells whether a request may spend tokens of a model.
fn is_llm(method: &Method, path: &str) -> bool {
    let below = path.strip_prefix(BASE).and_then(|path| path.strip_prefix("/sessions/"));
    let route = below.and_then(|path| path.split_once('/')).map(|(_, route)| route);
    method == Method::POST && matches!(route, Some("message" | "run"))
}

/// Makes the id of a request. See [`http_kit::LobbyOptions`].
pub(crate) fn identify(headers: &http::HeaderMap) -> RequestId {
    RequestId::prefixed(headers, "ctx-")
}

/// Lets a request in, and words what was refused further in.
pub(crate) async fn pass(State(door): State<Shared>, request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let id = id.unwrap_or_else(|| identify(request.headers()));
    let path = request.uri().path();
    if !path.starts_with(API) {
        return Refused::from(Code::NotFound).worded(&id);
    }
    let counted = door.limits.count(client(&door, &request), is_llm(request.method(), path));
    let mut response = match counted {
        Some(counted) if !counted.is_within => {
            let mut response = Refused::from(Code::RateLimited).worded(&id);
            let seconds = HeaderValue::from(counted.reset_seconds());
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
        _ => known(&door, request, next).await,
    };
    if let Some(refused) = response.extensions_mut().remove::<Refused>() {
        response = refused.worded(&id);
    }
    if let Some(counted) = counted {
        counted.tell(response.headers_mut());
    }
    response
}

/// Checks the token, where one is needed, and the method.
async fn known(door: &Shared, mut request: Request, next: Next) -> Response {
    let mut caller: Option<Caller> = None;
    if let Some(tokens) = &door.tokens {
        let Some(admitted) = Admitted::of(tokens, request.headers()) else {
            return Refused::from(Code::Unauthorized).into_response();
        };
        caller = Some(admitted.caller().clone());
        request.extensions_mut().insert(admitted);
    }
    // A router answers HEAD by itself where there is a GET.
    if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
        return Refused::from(Code::NotFound).into_response();
    }
    door.asked.notify_one();
    let mut response = next.run(request).await;
    if let Some(caller) = caller {
        response.extensions_mut().insert(caller);
    }
    response
}

fn client(door: &Shared, request: &Request) -> IpAddr {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    client_bucket(door.proxies.client(peer, request.headers()))
}

/// What stands on every response.
pub(crate) async fn finished(
    State(version): State<HeaderValue>,
    mut response: Response,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(VERSION, version);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
