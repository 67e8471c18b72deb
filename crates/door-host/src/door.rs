//! The door: what all connections share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonrpc::{ErrorObject, Peer};
use protocol::event::SessionEnd;
use protocol::{Mode, RequestId, SessionId};
use runtime_api::{
    AgentSettings, Handle, Interrupt, PolicyTag, SessionInfo, SessionState, SharedLender,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::capabilities::Capabilities;
use crate::error::{no_session, refused};
use crate::fields::put;
use crate::surroundings::Surroundings;

/// How often is looked whether turns have ended before the program does.
const LOOK: Duration = Duration::from_millis(50);

/// How long connections may take to write their last.
const FAREWELL: Duration = Duration::from_secs(6);

/// What the door is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// The runtime. Its sessions are this door's alone.
    pub handle: Handle,
    /// The agent of every session, as flags and settings say; what a host declares comes on top.
    pub agent: AgentSettings,
    /// The mode of sessions that name none; the runtime's own default where absent.
    pub mode: Option<Mode>,
    /// The version of the program.
    pub version: &'static str,
    /// How many recorded events of a session are replayed at most.
    pub event_buffer: usize,
    /// How long running turns may go on after the host has gone.
    pub grace: Duration,
    /// The program around the door.
    pub surroundings: Arc<dyn Surroundings>,
}

/// The door. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Door(pub(crate) Arc<Inner>);

/// What connections share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) started: Instant,
    /// Cancelled when a host or the program said that it shall end.
    pub(crate) stopping: CancellationToken,
    /// How long running turns may go on then.
    last_grace: Mutex<Duration>,
    /// Ends connections and what goes on beside them.
    pub(crate) over: CancellationToken,
    /// Everything that goes on beside; waited for at the end.
    pub(crate) tasks: TaskTracker,
    sessions: Mutex<HashMap<SessionId, Seated>>,
    connections: Mutex<HashMap<u64, Arc<Host>>>,
    last_connection: AtomicU64,
    /// Numbers what hosts are told of sessions.
    pub(crate) told: AtomicU64,
    /// Whether a policy was pushed.
    pub(crate) has_policy: std::sync::atomic::AtomicBool,
}

/// A session of this door.
#[derive(Debug, Default)]
struct Seated {
    /// The connection that answers for it.
    connection: u64,
    /// What bound sessions when it began here.
    policy: Option<PolicyTag>,
    /// What the host is being asked; cancelled when it was decided otherwise.
    asks: HashMap<RequestId, CancellationToken>,
}

/// A host that is connected and has said who it is.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) capabilities: Capabilities,
    /// What it lends; none where it lends nothing.
    pub(crate) lender: Option<SharedLender>,
    pub(crate) activity: Option<Activity>,
    /// What it watches, each until it is watched anew.
    pub(crate) watched: Mutex<HashMap<SessionId, CancellationToken>>,
}

impl Door {
    /// Makes the door, and begins to watch the runtime's sessions.
    pub fn new(options: Options) -> Self {
        let (tasks, sessions, connections, last_connection, told, has_policy) = Default::default();
        let inner = Arc::new(Inner {
            started: Instant::now(),
            stopping: CancellationToken::new(),
            last_grace: Mutex::new(options.grace),
            over: CancellationToken::new(),
            tasks,
            sessions,
            connections,
            last_connection,
            told,
            has_policy,
            options,
        });
        let (watching, over) = (Arc::clone(&inner), inner.over.clone());
        let watch = inner.options.handle.watch();
        inner.tasks.spawn(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = crate::attend::watch(&watching, watch) => {}
            }
        });
        Self(inner)
    }

    /// Waits until a host asked for the end of the program.
    pub async fn stopped(&self) {
        self.0.stopping.cancelled().await;
    }

    /// Takes no new work from now on, and waits until no turn runs: as long as turns may go on
    /// after the host has gone, or as long as it asked for. Turns that wait for a person are not
    /// waited for: they go on when they are opened again.
    pub async fn wind_down(&self) {
        self.0.stopping.cancel();
        let grace = *self.0.last_grace.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = async {
            while self.0.runs().await {
                sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(grace, idle).await.is_err() {
            tracing::info!("turns that still run are stopped: their grace is over");
        }
    }

    /// Ends all connections once what waits was written. To be called when the runtime is down.
    pub async fn close(&self) {
        self.0.over.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(FAREWELL, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("a host did not read the last of its events");
        }
    }
}

impl Inner {
    fn seats(&self) -> MutexGuard<'_, HashMap<SessionId, Seated>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<u64, Arc<Host>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the program end; `grace` is how long running turns may go on.
    pub(crate) fn stop(&self, grace: Option<Duration>) {
        if let Some(grace) = grace {
            *self.last_grace.lock().unwrap_or_else(PoisonError::into_inner) = grace;
        }
        self.stopping.cancel();
    }

    /// Tells whether any session works.
    async fn runs(&self) -> bool {
        let opened = self.options.handle.opened().await.unwrap_or_default();
        opened.iter().any(|info| info.state == SessionState::Running)
    }

    /// Takes a number for a connection.
    pub(crate) fn number(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn enter(&self, host: Arc<Host>) {
        self.hosts().insert(host.number, host);
    }

    /// Lets a host go. When it was the last one, turns that still run after the grace are stopped,
    /// unless another host has come by then.
    pub(crate) fn leave(self: &Arc<Self>, number: u64) {
        self.hosts().remove(&number);
        if !self.hosts().is_empty() || self.stopping.is_cancelled() {
            return;
        }
        let (inner, last) = (Arc::clone(self), self.last_connection.load(Ordering::Relaxed));
        self.tasks.spawn(async move {
            tokio::select! {
                () = inner.stopping.cancelled() => return,
                () = sleep(inner.options.grace) => {}
            }
            let has_come = inner.last_connection.load(Ordering::Relaxed) != last;
            if !has_come && inner.hosts().is_empty() {
                inner.interrupt_all().await;
            }
        });
    }

    async fn interrupt_all(&self) {
        let opened = self.options.handle.opened().await.unwrap_or_default();
        for info in opened.iter().filter(|info| info.state == SessionState::Running) {
            tracing::info!(session = %info.id, "the host has gone: its turn is stopped");
            if let Err(error) = self.options.handle.interrupt(&info.id, Interrupt::All).await {
                tracing::warn!(session = %info.id, %error, "stop a turn");
            }
        }
    }

    /// Returns a session that is open here.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<SessionInfo, ErrorObject> {
        let info = self.options.handle.info(id).await.map_err(refused)?;
        if info.is_open { Ok(info) } else { Err(no_session()) }
    }

    /// Makes the agent of a session that a host answers for.
    pub(crate) fn agent(&self, host: &Host, policy: Option<PolicyTag>) -> AgentSettings {
        let capabilities = &host.capabilities;
        AgentSettings {
            is_attended: capabilities.takes_approvals()
                || capabilities.takes_questions()
                || capabilities.takes_plans(),
            is_hosted: true,
            carries_on: true,
            asks_for: capabilities.review().asks_for().to_vec(),
            lender: host.lender.clone(),
            policy,
            ..self.options.agent.clone()
        }
    }

    /// Notes who answers for a session that was opened here.
    pub(crate) fn seat(&self, id: &SessionId, host: &Host, policy: Option<PolicyTag>) {
        let mut seats = self.seats();
        let seat = seats.entry(id.clone()).or_default();
        (seat.connection, seat.policy) = (host.number, policy);
    }

    /// Lets a host answer for a session whose own has gone; nothing changes where another one
    /// does.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        id: &SessionId,
        host: &Arc<Host>,
    ) -> Result<(), ErrorObject> {
        let policy = {
            let mut seats = self.seats();
            let seat = seats.entry(id.clone()).or_default();
            if self.hosts().contains_key(&seat.connection) {
                return Ok(());
            }
            seat.connection = host.number;
            seat.policy.clone()
        };
        self.options.handle.open(id, self.agent(host, policy)).await.map_err(refused)?;
        crate::attend::ask_what_waits(self, id).await;
        Ok(())
    }

    /// Returns the host that answers for a session.
    pub(crate) fn host_of(&self, id: &SessionId) -> Option<Arc<Host>> {
        let number = self.seats().get(id)?.connection;
        self.hosts().get(&number).cloned()
    }

    /// Returns a host that was connected with this number.
    pub(crate) fn host(&self, number: u64) -> Option<Arc<Host>> {
        self.hosts().get(&number).cloned()
    }

    /// Notes that a request is put to the host; none where it is already, or the session is not
    /// of this door.
    pub(crate) fn begin_asking(
        &self,
        id: &SessionId,
        request: &RequestId,
    ) -> Option<CancellationToken> {
        let mut seats = self.seats();
        let asks = &mut seats.get_mut(id)?.asks;
        if asks.contains_key(request) {
            return None;
        }
        let token = CancellationToken::new();
        asks.insert(request.clone(), token.clone());
        Some(token)
    }

    /// Forgets a request that is put to the host no more.
    pub(crate) fn end_asking(&self, id: &SessionId, request: &RequestId) {
        let token = self.seats().get_mut(id).and_then(|seat| seat.asks.remove(request));
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Forgets a session that was closed, unless it is open again by now.
    pub(crate) async fn forget(&self, id: &SessionId) {
        if self.session(id).await.is_err() {
            self.unseat(id);
        }
    }

    /// Forgets a session.
    pub(crate) fn unseat(&self, id: &SessionId) {
        let seated = self.seats().remove(id);
        for token in seated.into_iter().flat_map(|seated| seated.asks.into_values()) {
            token.cancel();
        }
    }

    /// Tells every host that wants to know what no session did.
    pub(crate) fn tell_all(&self, kind: &str, event: &str, facts: &serde_json::Value) {
        let hosts: Vec<_> = self.hosts().values().cloned().collect();
        for activity in hosts.iter().filter_map(|host| host.activity.as_ref()) {
            let mut entry = facts.clone();
            put(&mut entry, "seq", self.told.fetch_add(1, Ordering::Relaxed) + 1);
            put(&mut entry, "ts", self.options.surroundings.now().to_string());
            put(&mut entry, "kind", kind);
            put(&mut entry, "event", event);
            activity.push(entry);
        }
    }

    /// Closes a session.
    pub(crate) async fn close_session(&self, id: &SessionId) -> Result<(), ErrorObject> {
        self.options.handle.close(id, SessionEnd::Deleted).await.map_err(refused)
    }
}
