//! What every request of a door passes before a route sees it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use tracing::Instrument;

use crate::access::Line;
use crate::problem::worded;
use crate::{Admitted, Caller, Problem, Render, RequestId, Tokens};
use crate::{cors, is_loopback_host, is_loopback_origin, request_id};

/// What a gate checks, and how it words what it refuses.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// Who comes in.
    pub tokens: Arc<dyn Tokens>,
    /// Whether the listener is bound to loopback: then only loopback names are answered to, so
    /// that a page whose name resolves to this machine gets nothing (DNS rebinding).
    pub is_loopback: bool,
    /// Pages of other origins that may ask, as `https://host[:port]`. Only these get CORS
    /// headers; loopback pages pass without any.
    pub origins: Vec<String>,
    /// Routes without a token, by method and literal path. `GET` covers `HEAD`. Their handlers
    /// still learn whether a valid token came: `Option<Caller>`.
    pub open: &'static [(Method, &'static str)],
    /// The door's words for problems.
    pub render: Render,
}

/// The router behind the gate. For every request, routes that do not exist included, in order:
///
/// 1. a [`RequestId`](crate::RequestId), in a span, as an extension, and in `x-request-id`;
/// 2. `Host`: 400 `bad_request` without one or with several, 403 `forbidden_host` for a foreign
///    name on a loopback bind, in the header or in the request's target;
/// 3. the bearer: 401 `unauthorized`, else a [`Caller`](crate::Caller) and an
///    [`Admitted`](crate::Admitted) as extensions;
/// 4. `Origin`: 403 `forbidden_origin` unless it is absent, of loopback, or listed.
///
/// Then the route: 404 `not_found`, 405 `method_not_allowed`, and 500 `internal_error` for a
/// handler that panicked. Every [`Problem`](crate::Problem) that comes out of a route is worded
/// by `render`. Each request has one line in the log (target `access`), written when its
/// response has been sent or given up.
///
/// Sets the router's fallbacks itself. No preflight is answered but for a listed origin.
pub fn gated(router: Router, options: GateOptions) -> Router {
    router
        .fallback(|| async {
            Problem::not_found("nothing is here: check the path and its version prefix")
        })
        .method_not_allowed_fallback(|| async {
            Problem::method_not_allowed("this path takes other methods: see the allow header")
        })
        .layer(middleware::from_fn_with_state(Arc::new(options), pass))
}

async fn pass(State(gate): State<Arc<GateOptions>>, mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let mut line = Line::begin(&id, &request);
    let listed = gate.listed_origin(request.headers());
    let span = tracing::info_span!("request", id = %id);
    let inside = async {
        match gate.check(&mut request) {
            Err(problem) => refused(problem),
            Ok(Pass::Preflight) => cors::preflight(),
            Ok(Pass::Request(caller)) => {
                line.by(caller);
                run(request, next).await
            }
        }
    };
    let mut response = worded(inside.instrument(span).await, gate.render, &id);
    response.headers_mut().insert(request_id::HEADER, id.header_value());
    if !gate.origins.is_empty() {
        cors::vary(&mut response);
    }
    if let Some(origin) = listed {
        cors::grant(origin, &mut response);
    }
    line.answered(response)
}

/// A handler that panicked has broken its own request only.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            tracing::error!(panic = panic_text(panic.as_ref()), "a handler panicked");
            Problem::internal().into_response()
        }
    }
}

fn refused(problem: Problem) -> Response {
    let is_unauthorized = problem.status == StatusCode::UNAUTHORIZED;
    let mut response = problem.into_response();
    if is_unauthorized {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// What may go on.
enum Pass {
    Preflight,
    Request(Option<Caller>),
}

impl GateOptions {
    fn check(&self, request: &mut Request) -> Result<Pass, Problem> {
        check_host(request, self.is_loopback)?;
        // A preflight never carries a token.
        let headers = request.headers();
        if cors::is_preflight(request.method(), headers) && self.listed_origin(headers).is_some() {
            return Ok(Pass::Preflight);
        }
        let admitted = bearer(headers).and_then(|token| Admitted::by(&self.tokens, token));
        if admitted.is_none() && !self.is_open(request) {
            return Err(Problem::unauthorized(
                "a valid token is needed: send `authorization: Bearer <token>`",
            ));
        }
        check_origin(headers, &self.origins)?;
        let caller = admitted.as_ref().map(|admitted| admitted.caller().clone());
        if let (Some(caller), Some(admitted)) = (&caller, admitted) {
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(admitted);
        }
        Ok(Pass::Request(caller))
    }

    fn listed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = cors::origin(headers).ok().flatten()?;
        cors::is_listed(origin, &self.origins)
            .then(|| headers.get(header::ORIGIN).cloned())
            .flatten()
    }

    fn is_open(&self, request: &Request) -> bool {
        let method = match *request.method() {
            Method::HEAD => &Method::GET,
            ref method => method,
        };
        let path = request.uri().path();
        self.open.iter().any(|(open, at)| open == method && *at == path)
    }
}

/// Whether a request names this server as it may be named.
pub(crate) fn check_host(request: &Request, is_loopback: bool) -> Result<(), Problem> {
    let mut sent = request.headers().get_all(header::HOST).iter();
    let host = match (sent.next(), sent.next()) {
        (Some(host), None) => host,
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("several host headers: send one"));
        }
        (None, _) if !is_loopback && request.version() < Version::HTTP_11 => {
            return Ok(());
        }
        (None, _) => return Err(Problem::bad_request("the host header is missing")),
    };
    // A target in absolute form has a name of its own, and others may go by that one.
    let target = request.uri().authority();
    let is_ours = host.to_str().is_ok_and(is_loopback_host)
        && target.is_none_or(|target| is_loopback_host(target.as_str()));
    if is_loopback && !is_ours {
        return Err(Problem::forbidden_host(
            "this server answers to loopback names only: localhost, 127.0.0.1 or [::1]",
        ));
    }
    Ok(())
}

/// Whether the page that asks, if any does, may.
pub(crate) fn check_origin(headers: &HeaderMap, origins: &[String]) -> Result<(), Problem> {
    let passes = cors::origin(headers).is_ok_and(|origin| {
        origin.is_none_or(|it| is_loopback_origin(it) || cors::is_listed(it, origins))
    });
    let message = "pages of this origin may not ask: it is neither loopback nor listed";
    if passes { Ok(()) } else { Err(Problem::forbidden_origin(message)) }
}

/// The one bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
