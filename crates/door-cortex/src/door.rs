//! The door: what it is given, and its router.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::routing::any;
use http::HeaderValue;
use http_kit::{LobbyOptions, Tokens, TrustedProxies, lobby};
use protocol::{Effect, Mode, NeuronId, SessionId, Timestamp};
use runtime_api::neuron::{NeuronDriver, NeuronInfo, NeuronState};
use runtime_api::{AgentSettings, Handle, Limits as TurnLimits, NeuronHandle, SessionInfo};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::error::{Code, Refused, refused};
use crate::gate::{self, Limits};
use crate::preset::Preset;
use crate::record::{PlaceBook, Records};
use crate::request::{approval, command, events, health, neuron, run, session};
use crate::{expiry, place};

/// Where the routes of this door begin.
pub const BASE: &str = "/api/v1/cortex";

/// Steps of a run that says nothing of it: a task of some hours, not one of days.
const STEPS_MAX: u32 = 50;

/// How long an approval waits before it is a no, in milliseconds.
const APPROVAL_TIMEOUT_MS: u64 = 300_000;

/// Viewers of all sessions together: each holds at most a thousand frames that wait.
pub(crate) const VIEWERS_MAX: usize = 1_024;

/// What the door is given.
#[derive(Clone)]
pub struct Options {
    /// The version of the program.
    pub version: &'static str,
    /// Who may come in; everybody where absent, which is for a loopback bind alone.
    pub tokens: Option<Arc<dyn Tokens>>,
    /// Whether the listener is bound to loopback: then only loopback names are answered to.
    pub is_loopback: bool,
    /// How much a client may ask.
    pub limits: RateLimits,
    /// Which proxies are believed about whom they speak for.
    pub proxies: TrustedProxies,
    /// The tools that are offered.
    pub preset: Preset,
    /// How long a session lives that nobody uses: 7 days unless a setting says otherwise.
    pub session_ttl: Duration,
    /// The agent of every session. See [`agent`].
    pub agent: AgentSettings,
    /// The mode of every session; the runtime's own default where absent.
    pub mode: Option<Mode>,
    /// Effects that are asked for, whatever the mode allows.
    pub asks_for: Vec<Effect>,
    /// The driver of new neurons; that of the settings where absent.
    pub driver: Option<NeuronDriver>,
    /// Where it is written down how far sessions have been counted; without, the first list after a
    /// start reads their logs.
    pub places: Option<Arc<dyn PlaceBook>>,
    /// The clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Cancelled when the program begins to stop.
    pub stopping: CancellationToken,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("preset", &self.preset)
            .field("is_loopback", &self.is_loopback)
            .finish_non_exhaustive()
    }
}

/// Requests per client and window. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// All requests.
    pub general: u32,
    /// Those that may spend tokens of a model; they count as requests as well.
    pub llm: u32,
    /// The window; one begins with a client's first request.
    pub window: Duration,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { general: 600, llm: 60, window: Duration::from_secs(15 * 60) }
    }
}

/// Returns the agent of this door's sessions where no setting says more: 50 steps a run, and an
/// approval that nobody decides in 300 s is a no.
pub fn agent() -> AgentSettings {
    AgentSettings {
        limits: TurnLimits { max_turns: STEPS_MAX, ..TurnLimits::default() },
        is_attended: true,
        interaction_timeout_ms: APPROVAL_TIMEOUT_MS,
        // A run belongs to the connection that began it.
        carries_on: false,
        ..AgentSettings::default()
    }
}

/// What handlers share.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) handle: Handle,
    pub(crate) neurons: NeuronHandle,
    pub(crate) version: &'static str,
    pub(crate) tokens: Option<Arc<dyn Tokens>>,
    pub(crate) limits: Limits,
    pub(crate) proxies: TrustedProxies,
    pub(crate) preset: Preset,
    pub(crate) ttl_ms: i64,
    pub(crate) agent: AgentSettings,
    pub(crate) mode: Option<Mode>,
    pub(crate) asks_for: Vec<Effect>,
    pub(crate) driver: Option<NeuronDriver>,
    pub(crate) stopping: CancellationToken,
    pub(crate) started: Instant,
    pub(crate) records: Records,
    /// The sessions in which a run goes on that began here.
    pub(crate) busy: Arc<Mutex<HashSet<SessionId>>>,
    /// Places of viewers.
    pub(crate) seats: Arc<Semaphore>,
    /// Told of the first request.
    pub(crate) asked: Notify,
    /// What goes on when its request has gone.
    pub(crate) tasks: TaskTracker,
    now: Now,
}

/// The clock.
struct Now(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Now")
    }
}

/// The state of every handler.
pub(crate) type Shared = Arc<Door>;

/// The routes, with everything that a request passes before them: to be served as it is. Starts a
/// task that ends left runs and expired sessions, until `options.stopping`; so it has to be called
/// inside of a tokio runtime.
pub fn router(options: Options, handle: Handle, neurons: NeuronHandle) -> Router {
    let version = HeaderValue::from_static(options.version);
    let entrance = LobbyOptions {
        is_loopback: options.is_loopback,
        identify: gate::identify,
        render: crate::error::problem,
    };
    let door = Arc::new(Door::new(options, handle, neurons));
    door.tasks.spawn(expiry::watch(Arc::clone(&door)));
    let routes = routes()
        .fallback(place::nowhere)
        .layer(from_fn_with_state(Arc::clone(&door), gate::pass))
        .with_state(door);
    lobby(routes, entrance).layer(map_response_with_state(version, gate::finished))
}

fn routes() -> Router<Shared> {
    let at = |path: &str| format!("{BASE}{path}");
    let neuron = |path: &str| format!("{BASE}/neurons/{{agentId}}{path}");
    let session = |path: &str| format!("{BASE}/sessions/{{sessionId}}{path}");
    // Another method is as little there as another path, and no method is told.
    let only = || any(place::nowhere);
    Router::new()
        .route(&at("/health"), only().get(health::health))
        .route(&at("/neurons"), only().get(neuron::list).post(neuron::create))
        .route(&neuron(""), only().get(neuron::show).delete(neuron::destroy))
        .route(&neuron("/exec"), only().post(command::exec))
        .route(&neuron("/tool"), only().post(command::tool))
        .route(&neuron("/tools"), only().get(command::tools))
        .route(&neuron("/install"), only().post(command::install))
        .route(&neuron("/snapshot"), only().post(command::snapshot))
        .route(&at("/sessions"), only().get(session::list).post(session::create))
        .route(&session(""), only().get(session::show).delete(session::remove))
        .route(&session("/message"), only().post(run::message))
        .route(&session("/run"), only().post(run::stream))
        .route(&session("/events"), only().get(events::events))
        .route(&session("/approvals"), only().get(approval::list))
        .route(&session("/approvals/{approvalId}"), only().post(approval::decide))
}

impl Door {
    fn new(options: Options, handle: Handle, neurons: NeuronHandle) -> Self {
        Self {
            handle,
            neurons,
            version: options.version,
            tokens: options.tokens,
            limits: Limits::new(&options.limits),
            proxies: options.proxies,
            preset: options.preset,
            ttl_ms: i64::try_from(options.session_ttl.as_millis()).unwrap_or(i64::MAX),
            agent: options.agent,
            mode: options.mode,
            asks_for: options.asks_for,
            driver: options.driver,
            stopping: options.stopping,
            started: Instant::now(),
            records: Records::with(options.places),
            busy: Arc::default(),
            seats: Arc::new(Semaphore::new(VIEWERS_MAX)),
            asked: Notify::new(),
            tasks: TaskTracker::new(),
            now: Now(options.now),
        }
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.now.0)()
    }

    /// Returns when a session ends that nobody uses.
    pub(crate) fn expires_at(&self, info: &SessionInfo) -> Timestamp {
        info.updated_at.plus_ms(self.ttl_ms)
    }

    /// Tells whether a session is one of this door's and has not expired. One in which a run goes
    /// on never expires.
    pub(crate) fn is_there(&self, info: &SessionInfo) -> bool {
        info.neuron.is_some() && (is_active(info) || self.expires_at(info) > self.now())
    }

    /// Returns a session of this door, open here or not.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<SessionInfo, Refused> {
        let info = self.handle.info(id).await.map_err(refused)?;
        if self.is_there(&info) { Ok(info) } else { Err(Code::NotFound.into()) }
    }

    /// Returns a session that is open here: a stored one is opened. A run that it was left with
    /// ends.
    pub(crate) async fn awake(&self, info: SessionInfo) -> Result<SessionInfo, Refused> {
        if info.is_open {
            return Ok(info);
        }
        self.handle.open(&info.id, self.agent.clone()).await.map_err(refused)
    }

    /// Checks that a neuron takes commands here, and returns it.
    pub(crate) async fn running(&self, id: &NeuronId) -> Result<NeuronInfo, Refused> {
        let info = self.neurons.info(id).await.map_err(refused)?;
        match (info.state, info.owner_pid) {
            (NeuronState::Stopped, _) => Err(Code::NotRunning.into()),
            (_, Some(_)) => Err(Code::OwnedElsewhere.into()),
            _ => Ok(info),
        }
    }

    /// Returns the names of the tools that are offered and exist.
    pub(crate) fn offered(&self) -> Vec<String> {
        let tools = self.neurons.tools(&self.preset.names());
        tools.into_iter().map(|tool| crate::preset::shown(&tool.name).to_owned()).collect()
    }

    /// Does something to its end, also when the client that asked has gone: it must not be left
    /// half done. As many run at once as there are requests.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refused>> + Send + 'static,
    ) -> Result<T, Refused> {
        self.tasks.spawn(work.in_current_span()).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request's work died");
            Err(Code::Internal.into())
        })
    }
}

/// Tells whether a run goes on in a session.
pub(crate) fn is_active(info: &SessionInfo) -> bool {
    info.state != runtime_api::SessionState::Idle
}
