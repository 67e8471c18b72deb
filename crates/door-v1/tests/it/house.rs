//! The door behind its gate. Every answer is held against the OpenAPI document.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use http_kit::{Caller, GateOptions, Tokens};
use protocol::Mode;
use runtime_api::{AgentSettings, Handle, SessionInfo};
use serde_json::{Value, json};
use testkit::fake_handle::{FakeRuntime, session_info};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const TOKEN: &str = "the-token";
/// The token of another caller.
pub(crate) const OTHER_TOKEN: &str = "the-other-token";
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(door_v1::openapi);

/// The id of the session that most tests use.
pub(crate) const ID: &str = "06f0000000000000000000000s";

/// A session that is open here.
pub(crate) fn open_session() -> SessionInfo {
    session_info(ID, "/nowhere")
}

/// A session that is stored only, in a folder.
pub(crate) fn stored_session(id: &str, cwd: &str) -> SessionInfo {
    SessionInfo { is_open: false, ..session_info(id, cwd) }
}

/// Admits two callers, until the tokens are revoked.
#[derive(Debug, Default)]
pub(crate) struct TwoTokens {
    pub(crate) are_revoked: AtomicBool,
}

impl Tokens for TwoTokens {
    fn admits(&self, presented: &str) -> Option<Caller> {
        let name = match presented {
            _ if self.are_revoked.load(Ordering::Relaxed) => return None,
            TOKEN => "owner",
            OTHER_TOKEN => "other",
            _ => return None,
        };
        Some(Caller { name: name.into() })
    }
}

pub(crate) struct House {
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) tokens: Arc<TwoTokens>,
    pub(crate) stopping: CancellationToken,
    /// Real; holds `in` (a folder), `file`, and `door`, a link that leads outside.
    pub(crate) root: PathBuf,
    router: Router,
    _place: tempfile::TempDir,
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

    /// Status, code and message of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let body = self.json();
        let field = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
        assert!(!field("message").is_empty() && !field("requestId").is_empty(), "{body}");
        (self.status.as_u16(), field("code"), field("message"))
    }

    pub(crate) fn code(&self) -> (u16, String) {
        let (status, code, _) = self.refusal();
        (status, code)
    }
}

impl House {
    pub(crate) fn new(runtime: FakeRuntime) -> Self {
        Self::with(|_| runtime)
    }

    /// Makes a house whose runtime knows the root.
    pub(crate) fn with(runtime: impl FnOnce(&str) -> FakeRuntime) -> Self {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().canonicalize().unwrap();
        let root = base.join("root");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::create_dir_all(base.join("outside")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        std::os::unix::fs::symlink(base.join("outside"), root.join("door")).unwrap();
        let runtime = Arc::new(runtime(root.to_str().unwrap()));
        let stopping = CancellationToken::new();
        let tokens = Arc::new(TwoTokens::default());
        let router = door_v1::router(door_v1::Options {
            handle: Handle::new(runtime.clone()),
            roots: vec![root.clone()],
            agent: AgentSettings { is_attended: true, ..AgentSettings::default() },
            mode: Some(Mode::Ask),
            model: Some("anthropic/claude-sonnet-4-6".to_owned()),
            version: "1.2.3",
            stopping: stopping.clone(),
        });
        let router = http_kit::gated(
            router,
            GateOptions {
                tokens: tokens.clone(),
                is_loopback: true,
                origins: Vec::new(),
                open: door_v1::OPEN,
                render: door_v1::problem,
            },
        );
        Self { runtime, tokens, stopping, root, router, _place: place }
    }

    /// Moves a folder of the root away and puts a link in its place that leads outside.
    pub(crate) fn replace_by_a_link(&self, folder: &str) {
        let (old, outside) = (self.root.join(folder), self.root.with_file_name("outside"));
        std::fs::rename(&old, outside.join("moved")).unwrap();
        std::os::unix::fs::symlink(outside, old).unwrap();
    }

    /// One session is open.
    pub(crate) fn plain() -> Self {
        Self::new(FakeRuntime::new().session(open_session()))
    }

    pub(crate) async fn raw(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Reply {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (parts, body) = self.raw(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let reply = Reply { status: parts.status, headers: parts.headers, body };
        check(&method, &path, &reply);
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.ask(request(Method::DELETE, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        match body {
            Some(body) => self.post(path, &body).await,
            None => {
                let method = method.parse().unwrap();
                self.ask(request(method, path).body(Body::empty()).unwrap()).await
            }
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(json_request(path, body.to_string())).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Body>) -> Reply {
        self.ask(json_request(path, body)).await
    }

    /// Opens a stream.
    pub(crate) async fn stream(&self, path: &str, last: Option<&str>) -> Frames {
        let mut request = request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.raw(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Frames { body: response.into_body(), rest: String::new() }
    }
}

/// A path below a session.
pub(crate) fn at(path: &str) -> String {
    format!("/v1/sessions/{ID}{path}")
}

pub(crate) fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:7420")
        .header("authorization", format!("Bearer {TOKEN}"))
}

pub(crate) fn json_request(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = request(Method::POST, path).header("content-type", "application/json");
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
    /// Reads the next frame; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.rest.split_once("\n\n") {
                let (frame, rest) = (parse(frame), rest.to_owned());
                self.rest = rest;
                match frame {
                    Some(frame) => return Some(frame),
                    None => continue,
                }
            }
            let piece = self.body.frame().await?.unwrap();
            self.rest.push_str(std::str::from_utf8(piece.data_ref().unwrap()).unwrap());
        }
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
    Some(Frame { id: field("id: ").map(|id| id.parse().unwrap()), event, data })
}

/// Returns what tells two frames apart at a glance.
pub(crate) fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

/// Holds data against a schema of the document.
pub(crate) fn fits(schema: &Value, data: &Value) -> Result<(), String> {
    let root = json!({"allOf": [schema], "components": DOCUMENT["components"]});
    let validator = jsonschema::draft202012::new(&root).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(data)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(format!("{}\nin {data:#}", errors.join("\n"))) }
}

/// Finds the operation of a path that the document describes.
pub(crate) fn described(method: &Method, path: &str) -> Option<&'static Value> {
    let pieces: Vec<_> = path.split('/').collect();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let found = paths.iter().find(|(template, _)| {
        let own: Vec<_> = template.split('/').collect();
        let is_same = |(own, piece): (&&str, &&str)| own.starts_with('{') || own == piece;
        own.len() == pieces.len() && own.iter().zip(&pieces).all(is_same)
    });
    found?.1.get(method.as_str().to_ascii_lowercase())
}

/// Follows a reference within the document.
pub(crate) fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(place) => DOCUMENT.pointer(place.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// Holds an answer against what the document says of its operation.
fn check(method: &Method, path: &str, reply: &Reply) {
    let place = format!("{method} {path} answered {}", reply.status);

    let Some(operation) = described(method, path) else { return };
    let response = resolve(&operation["responses"][reply.status.as_str()]);
    assert!(response.is_object(), "{place}, which the document does not know");
    let Some(content) = response["content"].as_object() else {
        assert!(reply.body.is_empty(), "{place} with a body");
        return;
    };
    let kind = reply.headers["content-type"].to_str().unwrap();
    let kind = kind.split(';').next().unwrap();
    let media = content.get(kind).unwrap_or_else(|| panic!("{place} with {kind}"));
    if kind == "application/json" {
        fits(&media["schema"], &reply.json()).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
}
