//! The door, and requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use door_cortex::{BASE, Options, Preset, RateLimits};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use http_kit::{OneToken, Tokens, TrustedProxies};
use protocol::{Effect, Mode, NeuronId, Timestamp};
use runtime_api::{Handle, NeuronHandle, SessionInfo};
use serde_json::{Value, json};
use stdx::Secret;
use testkit::fake_handle::{FakeRuntime, session_info};
use testkit::fake_neurons::{FakeNeurons, neuron_info};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The core id of the session that most tests use.
pub(crate) const CORE: &str = "06f0000000000000000000000s";

/// Its id at this door.
pub(crate) const ID: &str = "ses-06f0000000000000000000000s";

/// The time of every test: a second after the session was last used.
const NOW: i64 = 1_796_000_061_000;

/// How long sessions live.
pub(crate) const TTL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A session that is open here, in the neuron `worker`.
pub(crate) fn open_session() -> SessionInfo {
    SessionInfo { neuron: Some(NeuronId::new("worker")), ..session_info(CORE, "/workspace") }
}

/// What the door is given, but for the runtime.
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) now: Arc<AtomicI64>,
}

impl Setting {
    pub(crate) fn new() -> Self {
        let now = Arc::new(AtomicI64::new(NOW));
        let clock = now.clone();
        let options = Options {
            version: "1.2.3",
            tokens: None,
            is_loopback: true,
            limits: RateLimits::default(),
            proxies: TrustedProxies::default(),
            preset: Preset::Coding,
            session_ttl: TTL,
            agent: door_cortex::agent(),
            mode: Some(Mode::FullAuto),
            asks_for: vec![Effect::Destructive],
            driver: None,
            places: None,
            now: Arc::new(move || Timestamp(clock.load(Ordering::Relaxed))),
            stopping: CancellationToken::new(),
        };
        Self { options, now }
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        let tokens: Arc<dyn Tokens> =
            Arc::new(OneToken::new(&Secret::new(token.to_owned()), "owner"));
        self.options.tokens = Some(tokens);
        self
    }

    pub(crate) fn with_limits(mut self, general: u32, llm: u32) -> Self {
        self.options.limits = RateLimits { general, llm, ..RateLimits::default() };
        self
    }
}

pub(crate) struct House {
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) neurons: Arc<FakeNeurons>,
    pub(crate) now: Arc<AtomicI64>,
    pub(crate) stopping: CancellationToken,
    router: Router,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{}: {error}: {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// Status and code of a refusal, whose envelope has nothing that it should not have.
    pub(crate) fn code(&self) -> (u16, String) {
        let body = self.json();
        let error = body["error"].as_object().unwrap();
        assert_eq!(error["requestId"], self.headers["x-request-id"].to_str().unwrap());
        let is_known = |key: &String| {
            ["code", "requestId"].contains(&key.as_str())
                || (self.status == 400 && ["message", "details"].contains(&key.as_str()))
        };
        assert!(error.keys().all(is_known), "{body}");
        (self.status.as_u16(), error["code"].as_str().unwrap().to_owned())
    }

    /// The paths of what is wrong.
    pub(crate) fn paths(&self) -> Vec<String> {
        assert_eq!(self.code(), (400, "VALIDATION_ERROR".to_owned()));
        let body = self.json();
        let details = body["error"]["details"].as_array().unwrap();
        assert!(!details.is_empty() && body["error"]["message"].is_string(), "{body}");
        let path = |detail: &Value| {
            assert!(!detail["message"].as_str().unwrap().is_empty(), "{body}");
            detail["path"].as_str().unwrap().to_owned()
        };
        details.iter().map(path).collect()
    }
}

pub(crate) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

impl House {
    pub(crate) fn with(setting: Setting, runtime: FakeRuntime, neurons: FakeNeurons) -> Self {
        Self::over(setting, Arc::new(runtime), Arc::new(neurons))
    }

    /// Opens another door to the same runtime: the next life of the program.
    pub(crate) fn again(&self, setting: Setting) -> Self {
        Self::over(setting, self.runtime.clone(), self.neurons.clone())
    }

    fn over(setting: Setting, runtime: Arc<FakeRuntime>, neurons: Arc<FakeNeurons>) -> Self {
        let Setting { options, now } = setting;
        let stopping = options.stopping.clone();
        let router = door_cortex::router(
            options,
            Handle::new(runtime.clone()),
            NeuronHandle::new(neurons.clone()),
        );
        Self { runtime, neurons, now, stopping, router }
    }

    pub(crate) fn new(runtime: FakeRuntime) -> Self {
        let neurons = FakeNeurons::new().neuron(neuron_info("worker"));
        Self::with(Setting::new(), runtime, neurons)
    }

    /// One session is open, in one neuron.
    pub(crate) fn plain() -> Self {
        Self::new(FakeRuntime::new().session(open_session()))
    }

    pub(crate) async fn raw(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Reply {
        let (parts, body) = self.raw(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        assert_eq!(parts.headers["x-nsys-cortex-version"], "1.2.3");
        assert!(parts.headers.contains_key("x-request-id"));
        Reply { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn send(&self, method: &str, path: &str) -> Reply {
        self.ask(request(method, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Body>) -> Reply {
        self.ask(json_request(path, body)).await
    }

    /// Opens the stream of events.
    pub(crate) async fn events(&self, query: &str, last: Option<&str>) -> Frames {
        let mut request = request("GET", &format!("/sessions/{ID}/events{query}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.stream(request.body(Body::empty()).unwrap()).await
    }

    /// Begins a run as a stream.
    pub(crate) async fn run(&self, message: &str) -> Frames {
        let body = json!({"message": message}).to_string();
        self.stream(json_request(&format!("/sessions/{ID}/run"), body)).await
    }

    async fn stream(&self, request: Request<Body>) -> Frames {
        let response = self.raw(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers();
        assert_eq!(headers["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(headers["cache-control"], "no-cache, no-transform");
        assert_eq!(headers["x-accel-buffering"], "no");
        assert_eq!(headers["x-nsys-cortex-version"], "1.2.3");
        assert!(headers.contains_key("x-request-id"));
        Frames { body: response.into_body(), rest: String::new() }
    }

    /// Lets the door's own tasks go on.
    pub(crate) async fn breathe(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
    let method: Method = method.parse().unwrap();
    Request::builder()
        .method(method)
        .uri(format!("{BASE}{path}"))
        .header("host", "127.0.0.1:3100")
        .header("x-request-id", "req-abc")
}

pub(crate) fn json_request(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = request("POST", path).header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

pub(crate) struct Frames {
    body: Body,
    rest: String,
}

impl Frames {
    /// Reads the next frame, comments passed over; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let (text, rest) = match self.rest.split_once("\n\n") {
                Some((text, rest)) => (text.to_owned(), rest.to_owned()),
                None => {
                    let piece = self.body.frame().await?.unwrap();
                    self.rest.push_str(std::str::from_utf8(piece.data_ref().unwrap()).unwrap());
                    continue;
                }
            };
            self.rest = rest;
            if let Some(frame) = parse(&text) {
                return Some(frame);
            }
        }
    }

    /// Reads a piece as it comes.
    pub(crate) async fn piece(&mut self) -> String {
        let piece = self.body.frame().await.unwrap().unwrap();
        String::from_utf8(piece.data_ref().unwrap().to_vec()).unwrap()
    }

    /// Reads frames up to one of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            let is_last = frame.event == event;
            frames.push(frame);
            if is_last {
                return frames;
            }
        }
        panic!("no {event} in {frames:?}");
    }

    /// Reads frames to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// Reads a frame; none of a comment alone.
fn parse(text: &str) -> Option<Frame> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let data: Value = serde_json::from_str(field("data: ")?).unwrap();
    let event = field("event: ").unwrap().to_owned();
    assert_eq!(data["type"], event, "the type stands in both");
    let id = field("id: ").map(|id| id.parse().unwrap());
    assert_eq!(data.get("seq").and_then(Value::as_u64), id, "the number stands in both");
    Some(Frame { id, event, data })
}

/// Returns what tells two frames apart at a glance.
pub(crate) fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

/// Returns the numbers of the recorded ones.
pub(crate) fn numbers(frames: &[Frame]) -> Vec<u64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}
