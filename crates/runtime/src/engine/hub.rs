//! The hub: which sessions are open here, and the way to each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use driver_api::{Fault, LogRow, NewSession};
use futures_util::FutureExt;
use protocol::event::{Answer, SessionEnd, SessionStart};
use protocol::{
    Event, EventBody, FrameId, Life, Message as Said, Mode, Refusal, RefusalCode, RequestId, Seq,
    SessionId,
};
use runtime_api::{
    AgentSettings, CreateSession, Error, ExportedSession, Overflow, Position, Prompt,
    PromptAccepted, Runtime, SessionFilter, SessionInfo, Subscription,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::mailbox::{MAILBOX, Message, Reply};
use super::opening::{self, Why};
use super::options::Services;
use super::outbox::head_of;
use super::session::{Ended, Parts, Session, session_policy};
use super::stored::{self, refused};
use super::viewers::Viewers;
use crate::kernel::{State, evolve};

/// Every session that is open here.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    services: Arc<Services>,
    sessions: Mutex<HashMap<SessionId, Slot>>,
    /// One opening at a time: two askers of a sleeping session must not both wake it.
    opening: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

/// A session that was opened here and not closed.
#[derive(Clone, Debug)]
struct Slot {
    /// The way to its task; closed while it hibernates.
    mailbox: mpsc::Sender<Message>,
    agent: AgentSettings,
    viewers: Arc<Viewers>,
}

impl Hub {
    pub(crate) fn new(services: Arc<Services>) -> Self {
        let inner = Inner {
            services,
            sessions: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends a message to an open session, waking it where it sleeps, and waits for the answer.
    async fn ask<T>(
        &self,
        id: &SessionId,
        message: impl Fn(Reply<T>) -> Message + Send,
    ) -> Result<T, Error> {
        // A session may fall asleep between the look and the message: it is woken once more.
        for _ in 0..2 {
            let mailbox = self.inner.awake(id).await?;
            let (reply, answer) = oneshot::channel();
            if mailbox.send(message(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return answer;
            }
        }
        Err(Fault::new(format!("session {id} did not answer")).into())
    }
}

impl Inner {
    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Slot>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &SessionId) -> Option<Slot> {
        self.slots().get(id).cloned()
    }

    /// Returns the way to an open session's task; starts the task where it sleeps.
    async fn awake(self: &Arc<Self>, id: &SessionId) -> Result<mpsc::Sender<Message>, Error> {
        let slot = self.slot(id).ok_or_else(|| not_open(id))?;
        if !slot.mailbox.is_closed() {
            return Ok(slot.mailbox);
        }
        let _one = self.opening.lock().await;
        let slot = self.slot(id).ok_or_else(|| not_open(id))?;
        if !slot.mailbox.is_closed() {
            return Ok(slot.mailbox);
        }
        let Slot { agent, viewers, .. } = slot;
        let session = opening::open(&self.services, id, agent, viewers, Why::Woken).await?;
        Ok(self.start(session))
    }

    /// Starts the task of an opened session.
    fn start(self: &Arc<Self>, session: Session) -> mpsc::Sender<Message> {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let id = session.id.clone();
        let agent = session.agent.clone();
        let viewers = Arc::clone(&session.viewers);
        let slot = Slot { mailbox: mailbox.clone(), agent, viewers };
        self.slots().insert(id.clone(), slot);
        let inner = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let lived = std::panic::AssertUnwindSafe(session.run(messages)).catch_unwind().await;
            let Some(inner) = Weak::upgrade(&inner) else { return };
            match lived {
                Ok(Ended::Hibernated) => {}
                Ok(Ended::Closed | Ended::Lost) => {
                    inner.slots().remove(&id);
                }
                Err(_) => inner.reopen(&id).await,
            }
        });
        mailbox
    }

    /// Opens a session again whose task broke: its turn ends with an error, its viewers stay.
    async fn reopen(self: &Arc<Self>, id: &SessionId) {
        tracing::error!(session = %id, "the task of a session broke");
        let _one = self.opening.lock().await;
        let Some(Slot { agent, viewers, .. }) = self.slot(id) else { return };
        match opening::open(&self.services, id, agent, viewers, Why::Broken).await {
            Ok(session) => {
                let _mailbox = self.start(session);
            }
            Err(error) => {
                tracing::error!(session = %id, %error, "reopen a broken session");
                self.slots().remove(id);
            }
        }
    }

    async fn create(self: &Arc<Self>, wanted: CreateSession) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        let mode = wanted.mode.unwrap_or(options.default_mode);
        options.policy.check_mode(mode)?;
        let name = wanted.model.or_else(|| options.default_model.clone()).ok_or_else(|| {
            Refusal::new(RefusalCode::InvalidModel, "model: no model is set and none was named")
        })?;
        let model = options.models.resolve(&name)?.info().id.clone();
        options.policy.check_model(&model)?;
        let policy = session_policy(&options.policy, &wanted.agent, &[])?;
        let opened = options.workspaces.open(&wanted.cwd, &wanted.agent.roots).await;
        let workspace = opened.map_err(opening::unfit)?;
        let id = SessionId::new(self.services.fresh_id());
        let cwd = workspace.cwd().display().to_string();
        let tools = options.tools.iter().map(|tool| tool.spec().name.clone()).collect();
        let (title, parent) = (wanted.title, None);
        let body = SessionStart { cwd: cwd.clone(), model, mode, tools, title, parent }.into();
        let now = options.clock.now();
        let mut state = State::default();
        evolve(&mut state, Seq(1), now, &body);
        let frame = FrameId::first_of(Life(1));
        let row = row(Seq(1), frame, now, &body)?;
        let head = head_of(&state);
        let new = NewSession { id: id.clone(), cwd, at: now, head: head.clone(), rows: vec![row] };
        let lease = options.store.create(new).await.map_err(refused)?;
        let mut session = Session::new(Parts {
            services: Arc::clone(&self.services),
            id: id.clone(),
            state,
            lease,
            workspace,
            agent: wanted.agent,
            policy,
            viewers: Arc::default(),
        });
        session.created_at = now;
        session.frame = frame.next();
        session.outbox.knows(head.clone());
        session.begins_empty();
        let (session_id, seq) = (id.clone(), Some(Seq(1)));
        session.remember(Arc::new(Event { body, session_id, seq, frame, ts: now }));
        let info =
            SessionInfo { last_seq: 1, ..stored::info(&id, &session.state.cwd.clone(), head, now) };
        let _mailbox = self.start(session);
        Ok(info)
    }

    /// Stores a log under a new id.
    async fn copy(
        &self,
        mut rows: Vec<LogRow>,
        parent: Option<SessionId>,
    ) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        if let Some(first) = rows.first_mut()
            && let Ok(EventBody::SessionStart(mut start)) =
                EventBody::decode(first.kind, &first.body)
        {
            start.parent = parent;
            first.body = encode(&EventBody::SessionStart(start))?;
        }
        let state = stored::fold(&rows)?;
        if rows.is_empty() {
            let message = "log: it is empty";
            return Err(Refusal::new(RefusalCode::Invalid, message).into());
        }
        let id = SessionId::new(self.services.fresh_id());
        let (at, head, cwd) = (options.clock.now(), head_of(&state), state.cwd.clone());
        let new = NewSession { id: id.clone(), cwd, at, head: head.clone(), rows };
        let lease = options.store.create(new).await.map_err(refused)?;
        options.store.release(&lease).await.map_err(refused)?;
        let last_seq = state.seq.0;
        Ok(SessionInfo { last_seq, ..stored::info(&id, &state.cwd, head, at) })
    }
}

fn not_open(id: &SessionId) -> Error {
    Refusal::new(RefusalCode::SessionNotFound, format!("no session {id} is open here")).into()
}

fn encode(body: &EventBody) -> Result<String, Error> {
    body.encode().map_err(|error| Fault::with("encode an event", error).into())
}

fn row(
    seq: Seq,
    frame: FrameId,
    at: protocol::Timestamp,
    body: &EventBody,
) -> Result<LogRow, Error> {
    Ok(LogRow { seq, frame, at, kind: body.kind(), body: encode(body)? })
}

#[async_trait]
impl Runtime for Hub {
    async fn create(&self, session: CreateSession) -> Result<SessionInfo, Error> {
        self.inner.create(session).await
    }

    async fn open(&self, id: &SessionId, agent: AgentSettings) -> Result<SessionInfo, Error> {
        let opened = {
            let _one = self.inner.opening.lock().await;
            match self.inner.slot(id) {
                Some(_) => None,
                None => {
                    let services = &self.inner.services;
                    let viewers = Arc::default();
                    let session =
                        opening::open(services, id, agent.clone(), viewers, Why::Asked).await?;
                    Some(self.inner.start(session))
                }
            }
        };
        if opened.is_some() {
            return self.ask(id, Message::Info).await;
        }
        self.ask(id, |reply| Message::Configure(Box::new(agent.clone()), reply)).await
    }

    async fn close(&self, session: &SessionId) -> Result<(), Error> {
        self.ask(session, |reply| Message::Close(SessionEnd::Closed, reply)).await
    }

    async fn prompt(&self, session: &SessionId, prompt: Prompt) -> Result<PromptAccepted, Error> {
        self.ask(session, |reply| Message::Prompt(prompt.clone(), reply)).await
    }

    async fn interrupt(&self, session: &SessionId, clear_queue: bool) -> Result<bool, Error> {
        self.ask(session, |reply| Message::Interrupt { clear_queue, reply }).await
    }

    async fn answer(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        let message = |reply| Message::Answer(request.clone(), answer.clone(), reply);
        self.ask(session, message).await
    }

    async fn set_mode(&self, session: &SessionId, mode: Mode) -> Result<(), Error> {
        self.ask(session, |reply| Message::SetMode(mode, reply)).await
    }

    async fn set_model(&self, session: &SessionId, model: &str) -> Result<(), Error> {
        self.ask(session, |reply| Message::SetModel(model.to_owned(), reply)).await
    }

    async fn subscribe(
        &self,
        session: &SessionId,
        position: Position,
        overflow: Overflow,
    ) -> Result<Subscription, Error> {
        self.ask(session, |reply| Message::Subscribe(position, overflow, reply)).await
    }

    async fn info(&self, session: &SessionId) -> Result<SessionInfo, Error> {
        if self.inner.slot(session).is_some_and(|slot| !slot.mailbox.is_closed()) {
            return self.ask(session, Message::Info).await;
        }
        let row = self.inner.services.options.store.get(session).await.map_err(refused)?;
        Ok(stored::info_of(row))
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, Error> {
        stored::list(&*self.inner.services.options.store, filter).await
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Said>, Error> {
        stored::messages(&*self.inner.services.options.store, session, after, limit).await
    }

    async fn export(&self, session: &SessionId) -> Result<ExportedSession, Error> {
        stored::export(&*self.inner.services.options.store, session).await
    }

    async fn import(&self, session: ExportedSession) -> Result<SessionInfo, Error> {
        self.inner.copy(session.rows, Some(session.info.id)).await
    }

    async fn fork(&self, session: &SessionId, until: Option<Seq>) -> Result<SessionInfo, Error> {
        let store = &self.inner.services.options.store;
        let (_, mut rows) = opening::fold_whole(&**store, session).await?;
        if let Some(until) = until {
            let count = usize::try_from(until.0).unwrap_or(usize::MAX);
            if count == 0 || count > rows.len() {
                let message = format!("until: the log has events 1 to {}", rows.len());
                return Err(Refusal::new(RefusalCode::Invalid, message).into());
            }
            rows.truncate(count);
        }
        if until.is_none() && stored::fold(&rows)?.turn.is_some() {
            let message = "the session is in the middle of a turn: stop it or wait for its end";
            return Err(Refusal::new(RefusalCode::SessionBusy, message).into());
        }
        self.inner.copy(rows, Some(session.clone())).await
    }

    async fn remove(&self, session: &SessionId) -> Result<(), Error> {
        if self.inner.slot(session).is_some() {
            self.close(session).await?;
        }
        let store = &self.inner.services.options.store;
        let lease = store.claim(session).await.map_err(refused)?;
        store.remove(&lease).await.map_err(refused)?;
        let spill = self.inner.services.options.spill.join(session.as_str());
        match std::fs::remove_dir_all(&spill) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("remove {}", spill.display());
                Err(Fault::with(what, error).into())
            }
            _ => Ok(()),
        }
    }

    async fn shutdown(&self) {
        let open: Vec<(SessionId, Slot)> = self.inner.slots().drain().collect();
        for (id, slot) in open {
            let (reply, answer) = oneshot::channel();
            let closing = Message::Close(SessionEnd::Shutdown, reply);
            if slot.mailbox.send(closing).await.is_ok() && answer.await.is_err() {
                tracing::error!(session = %id, "a session did not close");
            }
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        if let Err(error) = self.inner.services.options.store.close().await {
            tracing::error!(%error, "close the store");
        }
    }
}
