//! All servers, each once.

mod keeper;
mod kept;
mod shelf;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Clock, Ids, Place, Tool, ToolSource, Workspace};
use protocol::{NeuronId, Timestamp};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::finder::{self, Finder};
use crate::oauth::{AuthError, Redirect};
use crate::{Launcher, Origin, Server};
use keeper::Keeper;
use kept::{Inside, Kept};
pub(crate) use shelf::Shelf;

/// How long a stop waits for the ends of all servers: twice what one program may take.
const STOP_WAIT: Duration = Duration::from_secs(45);

/// How long a person may take to authorize this client.
const AUTHORIZE_WAIT: Duration = Duration::from_secs(15 * 60);

/// How long a session that begins in a neuron waits for the servers in there: those that take
/// longer bring it no tools.
const ENTER_WAIT: Duration = Duration::from_secs(5);

/// Servers that run in neurons at once: each is a process, and the tools that it has are kept.
const INSIDE_MAX: usize = 512;

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The servers to begin with.
    pub servers: Vec<Server>,
    /// Starts programs.
    pub launcher: Arc<dyn Launcher>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for jitter.
    pub ids: Arc<dyn Ids>,
    /// The guarded way out, with what the settings open; its limits are set per use.
    pub http: outbound::Options,
    /// The folder that `connections/` with the tokens is kept in.
    pub home: PathBuf,
    /// Up to how many tools are offered as they are; above it, `mcp_find_tools` is offered alone.
    pub defer_threshold: usize,
}

impl PoolOptions {
    /// The threshold where nothing else is said.
    pub const DEFER_THRESHOLD: usize = 10;
}

/// How it stands with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is being started or reached.
    Connecting,
    /// It is there.
    Connected,
    /// It is gone, and is tried again after a wait.
    Waiting,
    /// It wants a person to authorize this client.
    Unauthorized,
    /// It was stopped for good.
    Stopped,
}

impl ServerState {
    /// Returns the state as people read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Waiting => "waiting",
            Self::Unauthorized => "unauthorized",
            Self::Stopped => "stopped",
        }
    }
}

/// How it stands with a server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name in the settings.
    pub name: String,
    /// Who configured it.
    pub origin: Origin,
    /// The neuron that it runs in; none outside.
    pub neuron: Option<NeuronId>,
    /// Where it stands.
    pub state: ServerState,
    /// How many tools it has, connected or not.
    pub tools: usize,
    /// What went wrong last, or what was left out of its tools.
    pub error: Option<String>,
    /// Since when it stands so.
    pub since: Timestamp,
}

/// Keeps one connection to each server. Dropping it ends them without a wait.
#[derive(Debug)]
pub struct Pool {
    shelf: Arc<Shelf>,
    /// What keepers share; also makes changes of the servers wait for each other.
    making: Mutex<Making>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What a server's keeper is made of.
#[derive(Debug)]
struct Making {
    launcher: Arc<dyn Launcher>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    http: outbound::Options,
    home: PathBuf,
}

impl Pool {
    /// Starts or reaches all servers, without waiting for any. Needs a running tokio.
    #[must_use]
    pub fn start(options: PoolOptions) -> Arc<Self> {
        let PoolOptions { servers, launcher, clock, ids, http, home, defer_threshold } = options;
        let shelf = Shelf::new(Arc::clone(&clock), defer_threshold);
        let making = Making { launcher, clock: Arc::clone(&clock), ids, http, home };
        let pool = Arc::new(Self {
            shelf: Arc::new(shelf),
            making: Mutex::new(making),
            clock,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let mut origins: Vec<Origin> = servers.iter().map(|server| server.origin.clone()).collect();
        origins.sort();
        origins.dedup();
        for origin in origins {
            let own = servers.iter().filter(|server| server.origin == origin).cloned();
            pool.configure(&origin, own.collect());
        }
        pool
    }

    /// Makes the servers of an origin those given: new ones are started, those that are gone or
    /// have changed are ended, the others stay as they are. A folder's servers are given once
    /// somebody trusts its file. Servers of another origin are passed over.
    pub fn configure(&self, origin: &Origin, servers: Vec<Server>) {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted: Vec<Server> =
            servers.into_iter().filter(|server| server.origin == *origin).collect();
        wanted.sort_by(|one, other| one.name.cmp(&other.name));
        wanted.dedup_by(|one, other| one.name == other.name);
        for gone in self.shelf.remove(origin, |server| !wanted.contains(server)) {
            gone.stop.cancel();
        }
        if self.stop.is_cancelled() {
            return;
        }
        for server in wanted {
            if self.shelf.has(&server) {
                continue;
            }
            let part = self.shelf.free_part(&server);
            if server.is_in_neurons() {
                self.shelf.add_for_neurons(server, part);
            } else {
                self.keep((server, part), None, &making);
            }
        }
    }

    /// Keeps a server connected from now on.
    fn keep(&self, named: (Server, String), inside: Option<Inside>, making: &Making) -> Arc<Kept> {
        let (kept, way) = Kept::new(named, inside, self.stop.child_token(), making);
        let kept = Arc::new(kept);
        self.shelf.add(Arc::clone(&kept));
        let keeper = Keeper {
            kept: Arc::clone(&kept),
            way,
            shelf: Arc::clone(&self.shelf),
            launcher: Arc::clone(&making.launcher),
            ids: Arc::clone(&making.ids),
            tasks: self.tasks.clone(),
        };
        self.tasks.spawn(keeper.run());
        kept
    }

    /// Sees to it that the servers of neurons run in this one, and returns them.
    fn move_in(&self, neuron: &NeuronId, workspace: &Arc<dyn Workspace>) -> Vec<Arc<Kept>> {
        let wanted = self.shelf.for_neurons();
        if wanted.is_empty() {
            return Vec::new();
        }
        // Two sessions that begin at once find one another's.
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for (server, part) in wanted {
            if let Some(kept) = self.shelf.inside(&server, neuron) {
                kept.entered(workspace);
                found.push(kept);
                continue;
            }
            let running = self.shelf.all().iter().filter(|kept| kept.inside.is_some()).count();
            if running >= INSIDE_MAX || self.stop.is_cancelled() {
                tracing::warn!(server = %server.name, %neuron, running, "an MCP server is not \
                    started in a neuron: there are too many, or this process ends");
                continue;
            }
            let inside = Inside::new(neuron.clone(), Arc::clone(workspace));
            found.push(self.keep((server, part), Some(inside), &making));
        }
        found
    }

    /// Returns how it stands with each server; with one of neurons, in each where it was started.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.shelf.all().iter().map(|kept| kept.status()).collect()
    }

    /// Waits until each server was reached once or could not be, at most so long: for whoever has
    /// one session only and would rather begin a moment later with all tools.
    pub async fn settled(&self, limit: Duration) {
        let all = async {
            for kept in self.shelf.all() {
                kept.settled().await;
            }
        };
        tokio::select! {
            () = all => {}
            () = self.clock.sleep(limit) => {}
        }
    }

    /// Lets a person authorize this client at a server.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for a server that there is not or that takes no tokens, else as the
    /// authorization goes.
    pub async fn authorize(
        &self,
        origin: &Origin,
        name: &str,
        redirect: &dyn Redirect,
    ) -> Result<(), AuthError> {
        let kept = self.shelf.get(origin, name).ok_or_else(|| {
            AuthError::Refused(format!("there is no MCP server {name} in these settings"))
        })?;
        let Some(tokens) = &kept.tokens else {
            let reason = format!("the MCP server {name} is a program or has a header of its own");
            return Err(AuthError::Refused(reason));
        };
        tokio::select! {
            done = tokens.authorize(redirect) => done?,
            () = self.clock.sleep(AUTHORIZE_WAIT) => {
                let limit = AUTHORIZE_WAIT.as_secs() / 60;
                let reason = format!("nobody authorized access within {limit} minutes");
                return Err(AuthError::Refused(reason));
            }
        }
        kept.wake.notify_one();
        Ok(())
    }

    /// Forgets the tokens of a server, for every process of this home. Returns whether there were
    /// any.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for a server that there is not or that takes no tokens, else a fault
    /// of the disk.
    pub async fn forget(&self, origin: &Origin, name: &str) -> Result<bool, AuthError> {
        let kept = self.shelf.get(origin, name).ok_or_else(|| {
            AuthError::Refused(format!("there is no MCP server {name} in these settings"))
        })?;
        let Some(tokens) = &kept.tokens else {
            let reason = format!("the MCP server {name} is a program or has a header of its own");
            return Err(AuthError::Refused(reason));
        };
        tokens.forget().await
    }

    /// Ends all servers and waits until their processes are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = self.clock.sleep(STOP_WAIT) => {}
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[async_trait]
impl ToolSource for Pool {
    fn offers(&self, place: Place<'_>) -> Vec<Arc<dyn Tool>> {
        let tools = self.shelf.offered(place);
        if tools.len() > self.shelf.defer_threshold {
            return vec![Arc::new(Finder::new(Arc::clone(&self.shelf), place))];
        }
        tools
    }

    fn find(&self, name: &str, place: Place<'_>) -> Option<Arc<dyn Tool>> {
        if name == finder::NAME {
            return Some(Arc::new(Finder::new(Arc::clone(&self.shelf), place)));
        }
        self.shelf.find(name, place)
    }

    async fn enter(&self, neuron: &NeuronId, workspace: &Arc<dyn Workspace>) {
        let all = async {
            for kept in self.move_in(neuron, workspace) {
                kept.settled().await;
            }
        };
        tokio::select! {
            () = all => {}
            () = self.clock.sleep(ENTER_WAIT) => {}
        }
    }
}
