//! A door with a few routes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Method;
use http_kit::{
    Caller, GateOptions, Json, OneToken, Peer, Problem, RequestId, ServerOptions, gated, serve, sse,
};
use serde::Deserialize;
use stdx::Secret;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::PATIENCE;

pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) inside: Arc<Inside>,
    server: JoinSet<std::io::Result<()>>,
}

/// What the handlers share with the test.
#[derive(Default)]
pub(crate) struct Inside {
    /// Lets one waiting request go on.
    pub(crate) go_on: Notify,
    /// Pieces that the flood has handed out.
    pub(crate) pieces: AtomicUsize,
    /// Requests and streams that live.
    pub(crate) live: watch::Sender<usize>,
}

struct Live(Arc<Inside>);

impl Inside {
    fn enter(self: &Arc<Self>) -> Live {
        self.live.send_modify(|live| *live += 1);
        Live(Arc::clone(self))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.send_modify(|live| *live -= 1);
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thing {
    name: String,
}

impl Door {
    pub(crate) async fn open() -> Self {
        Self::with(ServerOptions::default(), |_| {}).await
    }

    pub(crate) async fn with(
        options: ServerOptions,
        change: impl FnOnce(&mut GateOptions),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::new(Inside::default());
        let stop = CancellationToken::new();
        let mut gate = GateOptions {
            tokens: Arc::new(OneToken::new(&Secret::new("secret".to_owned()), "owner")),
            is_loopback: true,
            origins: Vec::new(),
            open: &[(Method::GET, "/v1/health")],
            render: envelope,
        };
        change(&mut gate);
        let app = gated(routes(Arc::clone(&inside)), gate);
        let mut server = JoinSet::new();
        server.spawn(serve(listener, app, options, stop.clone()));
        Self { address, stop, inside, server }
    }

    /// Waits until so many requests and streams live.
    pub(crate) async fn live(&self, wanted: usize) {
        let mut live = self.inside.live.subscribe();
        let reached = timeout(PATIENCE, live.wait_for(|live| *live == wanted)).await;
        assert!(reached.is_ok(), "{} live, expected {wanted}", *self.inside.live.borrow());
    }

    /// Waits for the end of the server.
    pub(crate) async fn ended(&mut self) {
        let over = timeout(PATIENCE, self.server.join_next()).await;
        over.expect("the server does not end").unwrap().unwrap().unwrap();
    }

    /// The sockets of this door that the system keeps for somebody, as states of `proc(5)`.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let port = format!(":{:04X}", self.address.port());
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[1].ends_with(&port) && !matches!(row[3], "0A" | "06"))
            .map(|row| row[3].to_owned())
            .collect()
    }
}

fn envelope(problem: &Problem, id: &RequestId) -> Response {
    let body = format!(
        r#"{{"code":"{}","message":"{}","id":"{id}"}}"#,
        problem.code,
        problem.message.replace('"', "'")
    );
    (problem.status, body).into_response()
}

/// More than the largest body of any door.
const PROMPT_MAX: usize = 25 * 1024 * 1024;

fn routes(inside: Arc<Inside>) -> Router {
    Router::new()
        .route("/v1/health", get(health).post(health))
        .route("/v1/things", get(async || "things").post(make))
        .route("/v1/things/{id}", get(async |id: RequestId| id.to_string()))
        .route("/v1/prompt", post(prompt))
        .route("/v1/maybe", post(maybe))
        .route("/v1/panic", get(panics))
        .route("/v1/peer", get(async |Extension(peer): Extension<Peer>| peer.0.to_string()))
        .route("/v1/stream", get(stream_of_one))
        .route("/v1/flood", get(flood))
        .route("/v1/wait", get(wait))
        .with_state(inside)
}

async fn health(caller: Option<Caller>) -> String {
    caller.map_or_else(|| "nobody".to_owned(), |caller| caller.name.to_string())
}

async fn make(Json(thing): Json<Thing, 100>) -> String {
    thing.name
}

async fn prompt(Json(thing): Json<Thing, PROMPT_MAX>) -> String {
    thing.name.len().to_string()
}

async fn maybe(thing: Option<Json<Thing, 100>>) -> String {
    thing.map_or_else(|| "none".to_owned(), |Json(thing)| thing.name)
}

async fn panics() -> &'static str {
    panic!("the secret reason")
}

async fn stream_of_one(State(inside): State<Arc<Inside>>) -> Response {
    let live = inside.enter();
    let first = stream::iter([sse::frame(Some("1"), "hello", "{}")]);
    let rest = stream::pending().map(move |bytes: Bytes| {
        let _held = &live;
        bytes
    });
    sse::response_every(first.chain(rest), Duration::from_millis(200))
}

async fn flood(State(inside): State<Arc<Inside>>) -> Response {
    let live = inside.enter();
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    sse::response(stream::repeat(piece).map(move |piece| {
        live.0.pieces.fetch_add(1, Ordering::Relaxed);
        piece
    }))
}

async fn wait(State(inside): State<Arc<Inside>>) -> &'static str {
    let _live = inside.enter();
    inside.go_on.notified().await;
    "went on"
}
