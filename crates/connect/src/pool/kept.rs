//! One server: what is known of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver_api::{Clock, Tool, Workspace};
use protocol::{NeuronId, Timestamp};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Making, ServerState, ServerStatus};
use crate::catalogue::Catalogue;
use crate::http::{self, Wire};
use crate::oauth::Tokens;
use crate::remote_tool::{Access, RemoteTool};
use crate::{Endpoint, Server, StdioServer};

/// How long the tools of a server that is gone are still offered to new sessions: it is mostly
/// back by then, and prompts stay the same.
const OFFERED_FOR: Duration = Duration::from_secs(60);

/// The neuron that a server runs in.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) id: NeuronId,
    /// As it was entered last: a neuron may be made anew under its old name.
    workspace: Mutex<Arc<dyn Workspace>>,
}

impl Inside {
    pub(super) fn new(id: NeuronId, workspace: Arc<dyn Workspace>) -> Self {
        Self { id, workspace: Mutex::new(workspace) }
    }

    pub(super) fn workspace(&self) -> Arc<dyn Workspace> {
        Arc::clone(&self.workspace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn renew(&self, workspace: &Arc<dyn Workspace>) {
        let mut kept = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Arc::clone(workspace);
    }
}

/// A server.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) server: Server,
    /// None for one that runs outside of neurons.
    pub(super) inside: Option<Inside>,
    /// Its part of its tools' names.
    pub(super) part: String,
    pub(super) stop: CancellationToken,
    /// Ends a wait before its time.
    pub(super) wake: Notify,
    pub(super) tokens: Option<Arc<Tokens>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) access: Arc<Access>,
    known: Mutex<Known>,
    settled: watch::Sender<bool>,
}

/// How a server is reached.
#[derive(Debug)]
pub(super) enum Way {
    Program(StdioServer),
    Http {
        wire: Wire,
        url: Arc<str>,
    },
    /// It cannot be, and why.
    None(String),
}

#[derive(Debug)]
struct Known {
    state: ServerState,
    since: Timestamp,
    error: Option<String>,
    tools: Vec<Arc<RemoteTool>>,
    note: Option<String>,
    /// When the last connection was lost.
    lost_at: Option<Duration>,
}

impl Kept {
    /// Takes a server in, under its part of its tools' names. Opens nothing.
    pub(super) fn new(
        (server, part): (Server, String),
        inside: Option<Inside>,
        stop: CancellationToken,
        making: &Making,
    ) -> (Self, Way) {
        let Making { clock, http, home, .. } = making;
        let clock = Arc::clone(clock);
        let mut tokens = None;
        let way = match &server.endpoint {
            Endpoint::Stdio(program) => Way::Program(program.clone()),
            Endpoint::Http(place) => match http::client(http, place, &server.origin) {
                Err(error) => Way::None(error.to_string()),
                Ok(client) => {
                    let header = outbound::header::AUTHORIZATION;
                    if !place.headers.iter().any(|(name, _)| *name == header) {
                        let (url, own) = (place.url.clone(), place.oauth.clone());
                        let clock = Arc::clone(&clock);
                        let own = Tokens::new(url, own, client.clone(), home, clock);
                        tokens = Some(Arc::new(own));
                    }
                    let wire = Wire::new(client, place, tokens.clone());
                    Way::Http { wire, url: place.url.as_str().into() }
                }
            },
        };
        let known = Known {
            state: ServerState::Connecting,
            since: clock.now(),
            error: None,
            tools: Vec::new(),
            note: None,
            lost_at: None,
        };
        let access = Access::new(&server.name, Arc::clone(&clock), stop.clone());
        let kept = Self {
            server,
            inside,
            part,
            stop,
            wake: Notify::new(),
            tokens,
            clock,
            access: Arc::new(access),
            known: Mutex::new(known),
            settled: watch::Sender::new(false),
        };
        (kept, way)
    }

    pub(super) fn status(&self) -> ServerStatus {
        let known = self.known();
        ServerStatus {
            name: self.server.name.clone(),
            origin: self.server.origin.clone(),
            neuron: self.inside.as_ref().map(|inside| inside.id.clone()),
            state: known.state,
            tools: known.tools.len(),
            error: known.error.clone().or_else(|| known.note.clone()),
            since: known.since,
        }
    }

    /// Returns the tools for new sessions.
    pub(super) fn offered(&self, now: Duration) -> Vec<Arc<dyn Tool>> {
        let known = self.known();
        let is_near = known.lost_at.is_none_or(|at| now.saturating_sub(at) < OFFERED_FOR);
        if known.state != ServerState::Connected && !is_near {
            return Vec::new();
        }
        known.tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn Tool>).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let known = self.known();
        let tool = known.tools.iter().find(|tool| tool.spec().name == name)?;
        Some(Arc::clone(tool) as Arc<dyn Tool>)
    }

    /// Takes note that its neuron was entered. One that waits to be tried again is tried at once:
    /// the neuron may have been made anew.
    pub(super) fn entered(&self, workspace: &Arc<dyn Workspace>) {
        let Some(inside) = &self.inside else { return };
        inside.renew(workspace);
        if self.known().state == ServerState::Waiting {
            self.wake.notify_one();
        }
    }

    /// Takes note of where the server stands. Tells whether its error is another one than before.
    pub(super) fn set_state(&self, state: ServerState, error: Option<String>) -> bool {
        let (now, at) = (self.clock.now(), self.clock.elapsed());
        let mut known = self.known();
        if known.state == ServerState::Connected && state != ServerState::Connected {
            known.lost_at = Some(at);
        }
        if known.state != state {
            known.since = now;
        }
        known.state = state;
        // What went wrong stays readable while the server is tried again.
        let is_other = state != ServerState::Connecting && known.error != error;
        if is_other {
            known.error = error;
        }
        let is_settled = state != ServerState::Connecting;
        drop(known);
        if is_settled {
            self.settled.send_if_modified(|settled| !std::mem::replace(settled, true));
        }
        is_other
    }

    /// Takes the server's tools.
    pub(super) fn set_tools(&self, catalogue: Catalogue) {
        let Catalogue { entries, note } = catalogue;
        let tools = entries.into_iter();
        let tools = tools.map(|entry| RemoteTool::new(entry, Arc::clone(&self.access)));
        let tools = tools.map(Arc::new).collect();
        let mut known = self.known();
        known.tools = tools;
        known.note = note;
    }

    /// Waits until the server was reached or could not be.
    pub(super) async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // An error means that it was stopped for good.
        let _settled = settled.wait_for(|settled| *settled).await;
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
