//! A gate for doors that have an order of their own behind the first checks.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use tracing::Instrument;

use crate::access::Line;
use crate::gate::{check_host, check_origin, run};
use crate::problem::worded;
use crate::{Caller, Render, RequestId, request_id};

/// What a lobby checks, and how it words what it refuses.
#[derive(Debug, Clone, Copy)]
pub struct LobbyOptions {
    /// Whether the listener is bound to loopback: then only loopback names are answered to.
    pub is_loopback: bool,
    /// How a request gets its id.
    pub identify: fn(&HeaderMap) -> RequestId,
    /// The door's words for problems.
    pub render: Render,
}

/// The router behind a lobby. For every request, in order:
///
/// 1. a [`RequestId`](crate::RequestId), in a span, as an extension, and in `x-request-id`;
/// 2. `Host`, as in [`gated`](crate::gated);
/// 3. `Origin`: 403 `forbidden_origin` unless it is absent or of loopback. No CORS headers are
///    ever sent.
///
/// Tokens are the router's business, and what it answers to unknown routes. Panics, problems and
/// the access log are as in [`gated`](crate::gated); a [`Caller`](crate::Caller) that the
/// response has as an extension is logged.
pub fn lobby(router: Router, options: LobbyOptions) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(options), pass))
}

async fn pass(
    State(options): State<Arc<LobbyOptions>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = (options.identify)(request.headers());
    request.extensions_mut().insert(id.clone());
    let mut line = Line::begin(&id, &request);
    let span = tracing::info_span!("request", id = %id);
    let inside = async {
        let checked = check_host(&request, options.is_loopback)
            .and_then(|()| check_origin(request.headers(), &[]));
        match checked {
            Err(problem) => problem.into_response(),
            Ok(()) => run(request, next).await,
        }
    };
    let mut response = worded(inside.instrument(span).await, options.render, &id);
    line.by(response.extensions().get::<Caller>().cloned());
    response.headers_mut().insert(request_id::HEADER, id.header_value());
    line.answered(response)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http::{Request as HttpRequest, StatusCode};
    use http_body_util::BodyExt;
    use tower_service::Service;

    use super::*;
    use crate::Problem;

    async fn panics() -> &'static str {
        panic!("the secret reason")
    }

    /// Asks and returns the status, the id in the header and the body.
    async fn ask(is_loopback: bool, request: HttpRequest<Body>) -> (u16, String, String) {
        let routes = Router::new()
            .route("/id", get(async |id: RequestId| id.to_string()))
            .route("/no", get(async || Problem::not_found("nowhere")))
            .route("/panic", get(panics));
        let options = LobbyOptions {
            is_loopback,
            identify: |headers| RequestId::prefixed(headers, "x-"),
            render: |problem, id| {
                (problem.status, format!("{} {id}", problem.code)).into_response()
            },
        };
        let response = lobby(routes, options).call(request).await.unwrap();
        let status = response.status().as_u16();
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let has_cors = response.headers().keys().any(|it| it.as_str().starts_with("access-"));
        assert!(!has_cors);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, id, String::from_utf8(body.to_vec()).unwrap())
    }

    fn request(path: &str) -> http::request::Builder {
        HttpRequest::get(path).header("x-request-id", "a:1")
    }

    #[tokio::test]
    async fn what_comes_in_has_an_id_and_what_goes_out_is_worded() {
        let local = |path| request(path).header("host", "localhost").body(Body::empty()).unwrap();
        let answer = |status: StatusCode, body: &str| (status.as_u16(), "a:1".into(), body.into());
        assert_eq!(ask(true, local("/id")).await, answer(StatusCode::OK, "a:1"));
        let nowhere = answer(StatusCode::NOT_FOUND, "not_found a:1");
        assert_eq!(ask(true, local("/no")).await, nowhere);
        let broken = answer(StatusCode::INTERNAL_SERVER_ERROR, "internal_error a:1");
        assert_eq!(ask(true, local("/panic")).await, broken);
    }

    #[tokio::test]
    async fn foreign_names_and_pages_stay_outside() {
        let with = |host: &str, origin: &str| {
            let request = request("/id").header("host", host).header("origin", origin);
            request.body(Body::empty()).unwrap()
        };
        let (home, evil) = ("http://localhost:1", "https://evil.example");
        for (is_loopback, host, origin, expected) in [
            (true, "localhost", home, "a:1"),
            (true, "evil.example", home, "forbidden_host a:1"),
            (true, "localhost", evil, "forbidden_origin a:1"),
            (false, "evil.example", home, "a:1"),
            (false, "evil.example", evil, "forbidden_origin a:1"),
        ] {
            let (_, _, body) = ask(is_loopback, with(host, origin)).await;
            assert_eq!(body, expected, "{is_loopback} {host} {origin}");
        }
        let nameless = request("/id").body(Body::empty()).unwrap();
        assert_eq!(ask(false, nameless).await.2, "bad_request a:1");
    }
}
