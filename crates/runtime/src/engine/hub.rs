//! The hub: which sessions are open here, and the way to each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use driver_api::{Fault, LogRow, NewSession};
use futures_util::FutureExt;
use protocol::event::{Answer, RewindScope, SessionEnd, SessionStart};
use protocol::{
    CheckpointId, Event, EventBody, FrameId, Life, Message as Said, Mode, Refusal, RefusalCode,
    RequestId, Seq, SessionId, Timestamp, TurnEnd,
};
use runtime_api::{
    AgentSettings, CreateSession, Error, ExportedSession, GoBack, Overflow, Pending, PointInfo,
    Position, Prompt, PromptAccepted, Runtime, SessionFilter, SessionInfo, SlashCommand, Spent,
    Subscription, WentBack,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::foreign;
use super::letters;
use super::mailbox::{MAILBOX, Message, Reply};
use super::opening::{self, Why};
use super::options::Services;
use super::outbox::head_of;
use super::session::{Ended, Parts, Session, session_policy};
use super::slash;
use super::stored::{self, refused};
use super::viewers::Viewers;
use crate::kernel::{Command, Ending, State, decide, evolve};

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
    is_closing: AtomicBool,
}

/// A session that was opened here and not closed.
#[derive(Clone, Debug)]
struct Slot {
    /// The way to its task; closed while it sleeps.
    mailbox: mpsc::Sender<Message>,
    agent: AgentSettings,
    viewers: Arc<Viewers>,
    /// Whether its task went to sleep. A task that ended without broke.
    sleeping: Arc<AtomicBool>,
}

impl Slot {
    fn is_awake(&self) -> bool {
        !self.mailbox.is_closed()
    }

    /// Says why a session without a task is opened again.
    fn why(&self) -> Why {
        if self.sleeping.load(Ordering::Acquire) { Why::Woken } else { Why::Broken }
    }
}

impl Hub {
    pub(crate) fn new(services: Arc<Services>) -> Self {
        let inner = Inner {
            services,
            sessions: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            is_closing: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends a message to an open session, waking it where it sleeps, and waits for the answer.
    async fn ask<T>(
        &self,
        id: &SessionId,
        message: impl Fn(Reply<T>) -> Message + Send,
    ) -> Result<T, Error> {
        loop {
            let slot = self.inner.awake(id).await?;
            let (reply, answer) = oneshot::channel();
            if slot.mailbox.send(message(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            // It fell asleep between the look and the message and has read nothing of it. A task
            // that ended otherwise may have: the message is not said twice.
            if !slot.sleeping.load(Ordering::Acquire) {
                return Err(Fault::new(format!("session {id} ended before it answered")).into());
            }
        }
    }
}

impl Inner {
    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Slot>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &SessionId) -> Option<Slot> {
        self.slots().get(id).cloned()
    }

    /// Returns an open session whose task runs; starts the task where it sleeps.
    async fn awake(self: &Arc<Self>, id: &SessionId) -> Result<Slot, Error> {
        let slot = self.slot(id).ok_or_else(|| not_open(id))?;
        if slot.is_awake() {
            return Ok(slot);
        }
        let _one = self.opening.lock().await;
        self.refuse_if_closing()?;
        let slot = self.slot(id).ok_or_else(|| not_open(id))?;
        if slot.is_awake() {
            return Ok(slot);
        }
        let why = slot.why();
        let Slot { agent, viewers, .. } = slot;
        let session = opening::open(&self.services, id, agent, viewers, why).await?;
        Ok(self.start(session))
    }

    fn refuse_if_closing(&self) -> Result<(), Refusal> {
        if self.is_closing.load(Ordering::Acquire) {
            let message = "the program is about to stop";
            return Err(Refusal::new(RefusalCode::ShuttingDown, message));
        }
        Ok(())
    }

    /// Starts the task of an opened session.
    fn start(self: &Arc<Self>, session: Session) -> Slot {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let id = session.id.clone();
        let slot = Slot {
            mailbox: mailbox.clone(),
            agent: session.agent.clone(),
            viewers: Arc::clone(&session.viewers),
            sleeping: Arc::clone(&session.sleeping),
        };
        self.slots().insert(id.clone(), slot.clone());
        let inner = Arc::downgrade(self);
        let own = mailbox.downgrade();
        drop(mailbox);
        self.tasks.spawn(async move {
            let lived = std::panic::AssertUnwindSafe(session.run(messages)).catch_unwind().await;
            let Some(inner) = Weak::upgrade(&inner) else { return };
            match lived {
                Ok(Ended::Hibernated) => {}
                Ok(Ended::Closed | Ended::Lost) => inner.forget(&id, &own),
                Err(_) => inner.reopen(&id).await,
            }
        });
        slot
    }

    /// Removes the slot of a task that ended, unless another task has its place already.
    fn forget(&self, id: &SessionId, own: &mpsc::WeakSender<Message>) {
        let mut slots = self.slots();
        let is_own = |slot: &Slot| own.upgrade().is_some_and(|own| own.same_channel(&slot.mailbox));
        if slots.get(id).is_some_and(is_own) {
            slots.remove(id);
        }
    }

    /// Opens a session again whose task broke: its turn ends with an error, its viewers stay.
    async fn reopen(self: &Arc<Self>, id: &SessionId) {
        tracing::error!(session = %id, "the task of a session broke");
        let _one = self.opening.lock().await;
        let Some(slot) = self.slot(id).filter(|slot| !slot.is_awake()) else { return };
        let Slot { agent, viewers, .. } = slot;
        match opening::open(&self.services, id, agent, viewers, Why::Broken).await {
            Ok(session) => {
                let _slot = self.start(session);
            }
            Err(error) => {
                tracing::error!(session = %id, %error, "reopen a broken session");
                self.slots().remove(id);
            }
        }
    }

    /// Closes a session: whoever asks for it from now on opens it anew.
    async fn close(&self, id: &SessionId, reason: SessionEnd) -> Result<(), Error> {
        let slot = self.slots().remove(id).ok_or_else(|| not_open(id))?;
        let (reply, answer) = oneshot::channel();
        if slot.mailbox.send(Message::Close(reason, reply)).await.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        let _one = self.opening.lock().await;
        let (agent, viewers, why) = (slot.agent.clone(), Arc::clone(&slot.viewers), slot.why());
        let mut session = opening::open(&self.services, id, agent, viewers, why).await?;
        session.close(reason).await.map_err(refused)
    }

    async fn create(self: &Arc<Self>, wanted: CreateSession) -> Result<SessionInfo, Error> {
        self.refuse_if_closing()?;
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
        let bytes = row.body.len();
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
        session.remember(Arc::new(Event { body, session_id, seq, frame, ts: now }), bytes);
        let info =
            SessionInfo { last_seq: 1, ..stored::info(&id, &session.state.cwd.clone(), head, now) };
        let _slot = self.start(session);
        Ok(info)
    }

    /// Leaves an answer for the process that owns a session, where one does.
    async fn answer_by_letter(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        let options = &self.services.options;
        let store = &*options.store;
        let row = store.get(session).await.map_err(refused)?;
        if row.owner.is_none() {
            return Err(not_open(session));
        }
        let waiting = stored::pending(store, &row).await?;
        if !waiting.iter().any(|it| stored::request_id(&it.request) == Some(request)) {
            let state = opening::fold_now(store, session, row.last_seq).await.map_err(refused)?;
            let is_decided = state.resolved.contains(request);
            let (code, what) = match is_decided {
                true => (RefusalCode::RequestResolved, "was decided before"),
                false => (RefusalCode::RequestNotFound, "does not wait"),
            };
            return Err(Refusal::new(code, format!("request {request} {what}")).into());
        }
        let id = self.services.fresh_id();
        letters::send(store, &options.clock, session, (id, request, answer)).await
    }

    /// Stores a log under a new id. A turn that was cut ends in the copy, and prompts that wait
    /// stay with the original.
    async fn copy(
        &self,
        mut rows: Vec<LogRow>,
        parent: Option<SessionId>,
    ) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        let origin = parent.clone();
        let Some(first) = rows.first_mut() else {
            return Err(Refusal::new(RefusalCode::Invalid, "log: it is empty").into());
        };
        if let Ok(EventBody::SessionStart(mut start)) = EventBody::decode(first.kind, &first.body) {
            start.parent = parent;
            first.body = encode(&EventBody::SessionStart(start))?;
        }
        let mut state = stored::fold(&rows)?;
        let at = options.clock.now();
        for command in [Command::End(Ending::of(TurnEnd::Interrupted)), Command::ClearQueue] {
            for body in decide(&state, command, at)? {
                let seq = state.seq.next();
                evolve(&mut state, seq, at, &body);
                let frame = rows.last().map_or(FrameId(1), |last| last.frame.next());
                rows.push(row(seq, frame, at, &body)?);
            }
        }
        let id = SessionId::new(self.services.fresh_id());
        let (head, cwd) = (head_of(&state), state.cwd.clone());
        let new = NewSession { id: id.clone(), cwd, at, head: head.clone(), rows };
        let lease = options.store.create(new).await.map_err(refused)?;
        if let (Some(checkpoints), Some(origin)) = (&options.checkpoints, &origin)
            && let Err(error) = checkpoints.adopt(origin, &id).await
        {
            // The copy is whole all the same; only its files cannot be brought back.
            tracing::warn!(session = %id, %error, "share captured files with a copy");
        }
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
        let is_new = {
            let _one = self.inner.opening.lock().await;
            self.inner.refuse_if_closing()?;
            let is_new = self.inner.slot(id).is_none();
            if is_new {
                let (services, viewers) = (&self.inner.services, Arc::default());
                let session =
                    opening::open(services, id, agent.clone(), viewers, Why::Asked).await?;
                let _slot = self.inner.start(session);
            }
            is_new
        };
        if is_new {
            return self.ask(id, Message::Info).await;
        }
        let configure = |reply| Message::Configure(Box::new(agent.clone()), reply);
        let info = self.ask(id, configure).await?;
        if let Some(slot) = self.inner.slots().get_mut(id) {
            // What it sleeps with is what it wakes with.
            slot.agent = agent;
        }
        Ok(info)
    }

    async fn close(&self, session: &SessionId) -> Result<(), Error> {
        self.inner.close(session, SessionEnd::Closed).await
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
        if self.inner.slot(session).is_none() {
            return self.inner.answer_by_letter(session, request, answer).await;
        }
        let message = |reply| Message::Answer(request.clone(), answer.clone(), reply);
        self.ask(session, message).await
    }

    async fn pending(&self, session: Option<&SessionId>) -> Result<Vec<Pending>, Error> {
        let store = &*self.inner.services.options.store;
        match session {
            Some(id) => stored::pending(store, &store.get(id).await.map_err(refused)?).await,
            None => stored::all_pending(store).await,
        }
    }

    async fn points(&self, session: &SessionId) -> Result<Vec<PointInfo>, Error> {
        stored::points(&*self.inner.services.options.store, session).await
    }

    async fn undo(&self, session: &SessionId, how: GoBack) -> Result<WentBack, Error> {
        self.ask(session, |reply| Message::Undo(how, reply)).await
    }

    async fn rewind(
        &self,
        session: &SessionId,
        point: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<WentBack, Error> {
        self.ask(session, |reply| Message::Rewind(point.clone(), scope, how, reply)).await
    }

    async fn commands(&self, session: &SessionId) -> Result<Vec<SlashCommand>, Error> {
        self.inner.services.options.store.get(session).await.map_err(refused)?;
        Ok(slash::commands())
    }

    async fn spent(&self, since: Timestamp) -> Result<Vec<Spent>, Error> {
        stored::spent(&*self.inner.services.options.store, since).await
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
        if self.inner.slot(session).is_some_and(|slot| slot.is_awake()) {
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
        let ExportedSession { info, mut rows } = session;
        foreign::disarm(&mut rows, &info.cwd, self.inner.services.options.default_mode)?;
        self.inner.copy(rows, Some(info.id)).await
    }

    async fn fork(&self, session: &SessionId, until: Option<Seq>) -> Result<SessionInfo, Error> {
        let store = &self.inner.services.options.store;
        let (state, mut rows) = opening::fold_whole(&**store, session).await?;
        if let Some(until) = until {
            let count = usize::try_from(until.0).unwrap_or(usize::MAX);
            if count == 0 || count > rows.len() {
                let message = format!("until: the log has events 1 to {}", rows.len());
                return Err(Refusal::new(RefusalCode::Invalid, message).into());
            }
            rows.truncate(count);
        }
        let has_owner = store.get(session).await.map_err(refused)?.owner.is_some();
        if until.is_none() && has_owner && state.turn.is_some() {
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
        if let Some(checkpoints) = &self.inner.services.options.checkpoints
            && let Err(error) = checkpoints.forget(session).await
        {
            tracing::warn!(%session, %error, "forget the captured files of a removed session");
        }
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
        self.inner.is_closing.store(true, Ordering::Release);
        // Whoever is opening a session right now is waited for; nobody opens one after that.
        drop(self.inner.opening.lock().await);
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
