//! Requests of the v1 door: the first line of the input is method and target, the second one more
//! header, the rest the body. Nothing panics, nothing is a fault of the server, and what is refused
//! is refused by a code with words.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt;
use http_kit::{GateOptions, OneToken};
use libfuzzer_sys::fuzz_target;
use protocol::Mode;
use runtime_api::{AgentSettings, Handle};
use stdx::Secret;
use testkit::fake_handle::{FakeRuntime, session_info};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// After so many requests the runtime, which keeps what it was asked, is made anew.
const REQUESTS_MAX: usize = 1_000;

struct House {
    runtime: tokio::runtime::Runtime,
    router: Router,
    requests: usize,
}

thread_local! {
    static HOUSE: RefCell<Option<House>> = const { RefCell::new(None) };
}

fn house() -> House {
    let fake = FakeRuntime::new().session(session_info("06f0000000000000000000000s", "/nowhere"));
    let router = door_v1::router(door_v1::Options {
        handle: Handle::new(Arc::new(fake)),
        roots: vec![std::env::temp_dir()],
        agent: AgentSettings::default(),
        mode: Some(Mode::Ask),
        model: Some("anthropic/claude-sonnet-4-6".to_owned()),
        version: "1.2.3",
        stopping: CancellationToken::new(),
    });
    let gate = GateOptions {
        tokens: Arc::new(OneToken::new(&Secret::new("t".to_owned()), "owner")),
        is_loopback: true,
        origins: Vec::new(),
        open: door_v1::OPEN,
        render: door_v1::problem,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime of this thread");
    House { runtime, router: http_kit::gated(router, gate), requests: 0 }
}

/// Reads the request; none where a client could not have sent it.
fn request(data: &[u8]) -> Option<Request<Body>> {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let (line, more, body) = (parts.next()?, parts.next()?, parts.next()?);
    let (method, target) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let mut request = Request::new(Body::from(body.to_vec()));
    *request.method_mut() = method.parse::<Method>().ok()?;
    *request.uri_mut() = target.parse::<Uri>().ok().filter(|uri| uri.path().starts_with('/'))?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer t"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(colon) = more.iter().position(|byte| *byte == b':') {
        let (name, value) = more.split_at(colon);
        let name = HeaderName::from_bytes(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value.get(1..)?).ok()?);
    }
    Some(request)
}

fuzz_target!(|data: &[u8]| {
    let Some(request) = request(data) else { return };
    HOUSE.with_borrow_mut(|slot| {
        let house = slot.get_or_insert_with(house);
        house.requests += 1;
        let (router, is_last) = (house.router.clone(), house.requests >= REQUESTS_MAX);
        house.runtime.block_on(async {
            let response = router.oneshot(request).await.expect("a router does not fail");
            let status = response.status();
            assert!(!status.is_server_error(), "{status}");
            if status.is_client_error() && response.headers().contains_key(header::CONTENT_TYPE) {
                let body = response.into_body().collect().await.expect("a refusal is whole");
                let body = body.to_bytes();
                // An answer to HEAD has none.
                if !body.is_empty() {
                    let said: serde_json::Value =
                        serde_json::from_slice(&body).expect("a refusal is JSON");
                    for field in ["code", "message", "requestId"] {
                        let text = said["error"][field].as_str();
                        assert!(text.is_some_and(|text| !text.is_empty()), "{field}: {said}");
                    }
                }
            }
        });
        if is_last {
            *slot = None;
        }
    });
});
