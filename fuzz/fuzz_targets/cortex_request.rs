//! Requests of the cortex door: the first line of the input is method and target, the second one
//! more header, the rest the body. Nothing panics, nothing is a fault of the server, and what is
//! refused has the envelope of this door and no more.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use door_cortex::{Options, Preset, RateLimits};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt;
use http_kit::TrustedProxies;
use libfuzzer_sys::fuzz_target;
use protocol::{Effect, Mode, NeuronId, Timestamp};
use runtime_api::{Handle, NeuronHandle, SessionInfo};
use testkit::fake_handle::{FakeRuntime, session_info};
use testkit::fake_neurons::{FakeNeurons, neuron_info};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// After so many requests the runtime, which keeps what it was asked, is made anew.
const REQUESTS_MAX: usize = 1_000;

/// The time of all requests: a minute after the session was last used.
const NOW: Timestamp = Timestamp(1_796_000_061_000);

struct House {
    runtime: tokio::runtime::Runtime,
    router: Router,
    requests: usize,
    stopping: CancellationToken,
}

thread_local! {
    static HOUSE: RefCell<Option<House>> = const { RefCell::new(None) };
}

fn house() -> House {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime of this thread");
    let neuron = NeuronId::new("worker");
    let id = "06f0000000000000000000000s";
    let session = SessionInfo { neuron: Some(neuron), ..session_info(id, "/workspace") };
    let handle = Handle::new(Arc::new(FakeRuntime::new().session(session)));
    let neurons = FakeNeurons::new().neuron(neuron_info("worker"));
    let neurons = NeuronHandle::new(Arc::new(neurons));
    let stopping = CancellationToken::new();
    let options = Options {
        version: "1.2.3",
        tokens: None,
        is_loopback: true,
        limits: RateLimits { general: 0, llm: 0, window: Duration::from_secs(1) },
        proxies: TrustedProxies::default(),
        preset: Preset::Admin,
        session_ttl: Duration::from_secs(7 * 24 * 3_600),
        agent: door_cortex::agent(),
        mode: Some(Mode::FullAuto),
        asks_for: vec![Effect::Destructive],
        driver: None,
        places: None,
        now: Arc::new(|| NOW),
        stopping: stopping.clone(),
    };
    let router = {
        let _inside = runtime.enter();
        door_cortex::router(options, handle, neurons)
    };
    House { runtime, router, requests: 0, stopping }
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
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(colon) = more.iter().position(|byte| *byte == b':') {
        let (name, value) = more.split_at(colon);
        let name = HeaderName::from_bytes(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value.get(1..)?).ok()?);
    }
    Some(request)
}

/// What `message` waits for never comes here.
const PATIENCE: Duration = Duration::from_millis(20);

fuzz_target!(|data: &[u8]| {
    let Some(request) = request(data) else { return };
    HOUSE.with_borrow_mut(|slot| {
        let house = slot.get_or_insert_with(house);
        house.requests += 1;
        let (router, is_last) = (house.router.clone(), house.requests >= REQUESTS_MAX);
        house.runtime.block_on(async {
            let Ok(response) = tokio::time::timeout(PATIENCE, router.oneshot(request)).await else {
                return;
            };
            let response = response.expect("a router does not fail");
            let (status, headers) = (response.status(), response.headers());
            assert!(headers.contains_key("x-nsys-cortex-version"), "{status}");
            let id = headers.get("x-request-id").expect("an id").clone();
            let is_known = [StatusCode::NOT_IMPLEMENTED, StatusCode::SERVICE_UNAVAILABLE];
            assert!(!status.is_server_error() || is_known.contains(&status), "{status}");
            if status.is_success() {
                return;
            }
            let body = response.into_body().collect().await.expect("a refusal is whole");
            let body = body.to_bytes();
            // An answer to HEAD has none.
            if body.is_empty() {
                return;
            }
            let said: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
            let error = said["error"].as_object().expect("an envelope");
            assert_eq!(error["requestId"].as_str().map(str::as_bytes), Some(id.as_bytes()));
            assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{said}");
            let known = ["code", "requestId", "message", "details"];
            assert!(error.keys().all(|key| known.contains(&key.as_str())), "{said}");
        });
        if is_last {
            house.stopping.cancel();
            *slot = None;
        }
    });
});
