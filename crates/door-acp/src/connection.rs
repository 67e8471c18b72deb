//! One client: what it said of itself, its sessions, its requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol_schema::v1::{ClientCapabilities, Error, RequestId};
use protocol::SessionId;
use runtime_api::{AgentSettings, SessionInfo, SharedLender};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Access;
use crate::door::Options;
use crate::lent::Client;
use crate::live::{Live, Ties};
use crate::outlet::Outlet;
use crate::projection::{Projection, Understands};

/// Requests of the client that are answered at the same time: far more than an editor's windows.
const REQUESTS_MAX: usize = 64;

/// Sessions that one client holds open at the same time.
const SESSIONS_MAX: usize = 64;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    options: Options,
    access: Arc<dyn Access>,
    outlet: Outlet,
    /// Requests of the client.
    answering: TaskTracker,
    /// Everything else.
    tasks: TaskTracker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Facts>,
    sessions: HashMap<SessionId, Arc<Live>>,
    requests: HashMap<RequestId, Asked>,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Asked {
    cancel: CancellationToken,
    /// The session that it prompts.
    prompts: Option<SessionId>,
}

/// What the client said of itself.
#[derive(Clone, Debug)]
struct Facts {
    understands: Understands,
    has_forms: bool,
    lender: Option<SharedLender>,
}

impl Connection {
    pub(crate) fn new(options: Options, access: Arc<dyn Access>, outlet: Outlet) -> Arc<Self> {
        let (answering, tasks) = (TaskTracker::new(), TaskTracker::new());
        Arc::new(Self { options, access, outlet, answering, tasks, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn access(&self) -> &dyn Access {
        &*self.access
    }

    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Runs what answers a request.
    pub(crate) fn answering(&self) -> &TaskTracker {
        &self.answering
    }

    /// Runs everything else.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Takes what the client says of itself.
    ///
    /// # Errors
    /// When it said so before.
    pub(crate) fn meet(self: &Arc<Self>, client: &ClientCapabilities) -> Result<(), Error> {
        let session = client.session.as_ref();
        let lender = Client::of(self, client).map(|client| SharedLender::new(Arc::new(client)));
        let facts = Facts {
            understands: Understands {
                notices: session.is_some_and(|it| it.notices.is_some()),
                compaction: session.is_some_and(|it| it.compaction.is_some()),
            },
            has_forms: client.elicitation.as_ref().is_some_and(|it| it.supports_form()),
            lender,
        };
        let mut state = self.state();
        if state.client.is_some() {
            return Err(Error::new(-32600, "initialize: came before, expected once"));
        }
        state.client = Some(facts);
        Ok(())
    }

    fn facts(&self) -> Result<Facts, Error> {
        let first = || Error::new(-32600, "initialize has to come first");
        self.state().client.clone().ok_or_else(first)
    }

    /// Refuses whatever comes before `initialize`.
    pub(crate) fn check_met(&self) -> Result<(), Error> {
        self.facts().map(drop)
    }

    /// Makes the agent of a session.
    ///
    /// # Errors
    /// Before `initialize`.
    pub(crate) fn agent(&self, roots: Vec<String>) -> Result<AgentSettings, Error> {
        let lender = self.facts()?.lender;
        let mut agent = self.options.agent.clone();
        agent.roots.extend(roots);
        Ok(AgentSettings { lender, is_attended: true, carries_on: true, ..agent })
    }

    /// Makes what shows a session's events.
    ///
    /// # Errors
    /// Before `initialize`.
    pub(crate) fn projection(&self, cwd: &str, shows_prompts: bool) -> Result<Projection, Error> {
        Ok(Projection::new(cwd, self.facts()?.understands, shows_prompts))
    }

    /// Keeps a session that was opened, unless it is kept already; tells which.
    ///
    /// # Errors
    /// Before `initialize`.
    pub(crate) fn enter(
        &self,
        info: &SessionInfo,
        shown: Projection,
    ) -> Result<(Arc<Live>, bool), Error> {
        let facts = self.facts()?;
        let ties = Ties {
            handle: self.access.handle(),
            outlet: self.outlet.clone(),
            has_forms: facts.has_forms,
            has_notices: facts.understands.notices,
            tasks: self.tasks.clone(),
        };
        let sessions = &mut self.state().sessions;
        if let Some(live) = sessions.get(&info.id).filter(|live| !live.is_over()) {
            return Ok((Arc::clone(live), false));
        }
        let live = Live::new(info, ties, shown);
        sessions.insert(info.id.clone(), Arc::clone(&live));
        Ok((live, true))
    }

    /// Refuses a further session where as many are open as may be.
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        let sessions = &mut self.state().sessions;
        sessions.retain(|_, live| !live.is_over());
        if sessions.len() < SESSIONS_MAX {
            return Ok(());
        }
        let what = format!("{SESSIONS_MAX} sessions are open, which is the most; close one");
        Err(Error::new(-32603, what).data(json!({"code": "too_many_sessions"})))
    }

    /// Finds a session that is open here, and was not closed by others since.
    pub(crate) fn find(&self, session: &SessionId) -> Option<Arc<Live>> {
        self.state().sessions.get(session).filter(|live| !live.is_over()).cloned()
    }

    /// Finds a session that is open here.
    ///
    /// # Errors
    /// For one that is not, and before `initialize`.
    pub(crate) fn session(&self, session: &SessionId) -> Result<Arc<Live>, Error> {
        self.check_met()?;
        self.find(session).ok_or_else(|| {
            let what = "sessionId: no such session is open here; a stored one is opened with \
                        session/load or session/resume";
            Error::new(-32002, what).data(json!({"code": "session_not_found"}))
        })
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, session: &SessionId) {
        let live = self.state().sessions.remove(session);
        if let Some(live) = live {
            live.let_go();
        }
    }

    /// Lists the sessions that are open here.
    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.state().sessions.values().cloned().collect()
    }

    /// Notes a request of the client.
    ///
    /// # Errors
    /// For an id that waits already, and for one more than may wait.
    pub(crate) fn begin(
        &self,
        id: &RequestId,
        prompts: Option<SessionId>,
    ) -> Result<CancellationToken, Error> {
        let requests = &mut self.state().requests;
        if requests.contains_key(id) {
            return Err(Error::new(-32600, "id: a request with this id is not answered yet"));
        }
        if requests.len() >= REQUESTS_MAX {
            let what = format!("{REQUESTS_MAX} requests wait for their answers, which is the most");
            return Err(Error::new(-32603, what));
        }
        let cancel = CancellationToken::new();
        requests.insert(id.clone(), Asked { cancel: cancel.clone(), prompts });
        Ok(cancel)
    }

    /// Forgets a request that is about to be answered.
    pub(crate) fn end(&self, id: &RequestId) {
        self.state().requests.remove(id);
    }

    /// The client does not want an answer any more.
    pub(crate) fn cancel_request(&self, id: &RequestId) {
        if let Some(asked) = self.state().requests.get(id) {
            asked.cancel.cancel();
        }
    }

    /// Cancels the prompts of a session, those too that are not with the runtime yet.
    pub(crate) fn cancel_prompts(&self, session: &SessionId) {
        for asked in self.state().requests.values() {
            if asked.prompts.as_ref() == Some(session) {
                asked.cancel.cancel();
            }
        }
    }

    /// Cancels everything that the client waits for.
    pub(crate) fn cancel_all(&self) {
        for asked in self.state().requests.values() {
            asked.cancel.cancel();
        }
    }
}
