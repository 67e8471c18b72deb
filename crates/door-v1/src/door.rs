//! The door: what it is given, and its router.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};
use http_kit::Problem;
use protocol::{Mode, SessionId};
use runtime_api::{AgentSettings, Handle, SessionInfo};
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::error::{Code, refused};
use crate::idempotency::Answers;
use crate::place::no_session;
use crate::query;
use crate::seat::Seats;

/// Routes that the gate lets pass without a token. `/docs` answers 401 itself then, with a page
/// that asks for the token where a browser asks.
pub const OPEN: &[(Method, &str)] = &[(Method::GET, "/v1/health"), (Method::GET, "/docs")];

/// How many sessions may be opened at once before a slow multiplexed stream takes a new snapshot
/// instead: a hand is enough for people, a burst of scripts costs a list.
const OPENED_MAX: usize = 256;

/// What the door is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// The runtime.
    pub handle: Handle,
    /// The folders that sessions may work in, with links resolved; the first is the default
    /// folder of a session. At least one.
    pub roots: Vec<PathBuf>,
    /// The agent of every session.
    pub agent: AgentSettings,
    /// The mode of sessions that name none; the runtime's own default where absent, which gives
    /// way to a lock that comes later.
    pub mode: Option<Mode>,
    /// The model of sessions that name none; the runtime's own default where absent.
    pub model: Option<String>,
    /// The version of the program.
    pub version: &'static str,
    /// Cancelled when the program begins to stop: health says so, and event streams end once
    /// their sessions have sent their last and the runtime is down, at the latest after ten
    /// seconds.
    pub stopping: CancellationToken,
}

/// What handlers share.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) handle: Handle,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) agent: AgentSettings,
    pub(crate) mode: Option<Mode>,
    pub(crate) model: Option<String>,
    pub(crate) version: &'static str,
    pub(crate) stopping: CancellationToken,
    pub(crate) started: Instant,
    pub(crate) seats: Arc<Seats>,
    pub(crate) answers: Answers,
    /// Sessions that were opened by a request: an event may not tell.
    pub(crate) opened: broadcast::Sender<SessionId>,
    tasks: TaskTracker,
}

/// The state of every handler.
pub(crate) type Shared = Arc<Door>;

/// The routes: `/v1/…`, `/openapi.json` and `/docs`. To be served behind
/// [`gated`](http_kit::gated), with [`OPEN`] and [`problem`](crate::problem).
pub fn router(options: Options) -> Router {
    let door = Arc::new(Door::new(options));
    let mut router = Router::new();
    for operation in crate::routes::operations() {
        let known = operation.queries();
        let route = operation.route.route_layer(from_fn_with_state(known, query::known));
        router = router.route(operation.path, route);
    }
    router.layer(map_response(finished)).with_state(door)
}

/// Seconds after which what was refused for now may be tried again: a stop, a full queue and a
/// last free place are all over in moments, or not soon.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Nothing of this door is to be kept by anybody on the way, and what is refused for now says when
/// to come again.
async fn finished(mut response: Response) -> Response {
    let is_for_now = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_for_now {
        headers.entry(header::RETRY_AFTER).or_insert(RETRY_AFTER_SECONDS);
    }
    response
}

impl Door {
    /// Makes the door.
    pub(crate) fn new(options: Options) -> Self {
        Self {
            handle: options.handle,
            roots: options.roots,
            agent: options.agent,
            mode: options.mode,
            model: options.model,
            version: options.version,
            stopping: options.stopping,
            started: Instant::now(),
            seats: Arc::new(Seats::default()),
            answers: Answers::default(),
            opened: broadcast::Sender::new(OPENED_MAX),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns a session that is open here.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<SessionInfo, Problem> {
        let info = self.handle.info(id).await.map_err(refused)?;
        match (info.is_open, info.owner_pid) {
            (true, _) => Ok(info),
            (false, Some(_)) => Err(elsewhere()),
            (false, None) => Err(no_session()),
        }
    }

    /// Does something to its end, also when the client that asked has gone: it must not be left
    /// half done. As many run at once as there are requests.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let task = self.tasks.spawn(work.in_current_span());
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request's work died");
            Err(Problem::internal())
        })
    }

    /// Tells multiplexed streams that a session is open here.
    pub(crate) fn tell_opened(&self, id: &SessionId) {
        // Nobody listens: nobody needs to know.
        drop(self.opened.send(id.clone()));
    }
}

/// Another process owns the session.
pub(crate) fn elsewhere() -> Problem {
    Code::OwnedElsewhere
        .says("another living process owns this session; ask there, or end it first")
}
