//! The hub: which sessions are open here, and the way to each.

mod copies;
mod create;
mod neurons;
mod remove;
mod sandboxes;
mod slots;
mod take_up;

use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{BringOver, BroughtOver, Fault, LogRow};
use protocol::event::{Answer, RewindScope, SessionEnd};
use protocol::{
    CheckpointId, EventBody, FrameId, Mode, Refusal, RefusalCode, RequestId, Seq, SessionId,
    Timestamp,
};
use runtime_api::{
    AgentSettings, CreateSession, Error, ExportedSession, ForkPoint, GoBack, Interrupt,
    MessagesAfter, MessagesPage, ModelListing, Overflow, Pending, PointInfo, Position, Prompt,
    PromptAccepted, Runtime, SessionFilter, SessionInfo, SessionState, SessionUsage, Shown,
    SlashCommand, Spent, Subscription, TakeUp, WentBack,
};
use tokio::sync::oneshot;

use super::letters;
use super::mailbox::{Arrival, Message, Reply};
use super::opening::{self, Why};
use super::options::Services;
use super::own;
use super::stored::{self, Cursors, refused};
use super::{attachments, slash};
use slots::Core;

/// Every session that is open here.
#[derive(Debug)]
pub(crate) struct Hub {
    core: Arc<Core>,
    /// Where the last pages of transcripts ended.
    cursors: Cursors,
}

impl Hub {
    pub(crate) fn new(services: Arc<Services>) -> Self {
        Self { core: Arc::new(Core::new(services)), cursors: Cursors::default() }
    }

    fn services(&self) -> &Services {
        &self.core.services
    }

    fn store(&self) -> &dyn driver_api::Store {
        &*self.core.services.options.store
    }

    /// Sends a message to an open session, waking it where it sleeps, and waits for the answer.
    async fn ask<T>(
        &self,
        id: &SessionId,
        message: impl Fn(Reply<T>) -> Message + Send,
    ) -> Result<T, Error> {
        self.core.ask(id, message).await
    }

    fn is_awake(&self, id: &SessionId) -> bool {
        self.core.slot(id).is_some_and(|slot| slot.is_awake())
    }

    /// Leaves an answer for the process that owns a session, where one does.
    async fn answer_by_letter(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        let options = &self.services().options;
        let store = &*options.store;
        let row = store.get(session).await.map_err(refused)?;
        if row.owner.as_ref().is_none_or(|owner| store.is_mine(owner)) {
            return Err(self.core.missing(session));
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
        let id = self.services().fresh_id();
        letters::send(store, &options.clock, session, (id, request, answer)).await
    }
}

impl Core {
    /// Sends a message to an open session, waking it where it sleeps, and waits for the answer.
    async fn ask<T>(
        self: &Arc<Self>,
        id: &SessionId,
        message: impl Fn(Reply<T>) -> Message + Send,
    ) -> Result<T, Error> {
        loop {
            let slot = self.awake(id).await?;
            let (reply, answer) = oneshot::channel();
            if slot.mailbox.send(message(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            // It fell asleep between the look and the message and has read nothing of it. A task
            // that ended otherwise may have: the message is not said twice.
            if !slot.is_asleep() {
                return Err(self.unanswered(id));
            }
        }
    }

    /// Opens a stored session here, or sets one up anew that is open.
    async fn open(
        self: &Arc<Self>,
        id: &SessionId,
        agent: AgentSettings,
    ) -> Result<SessionInfo, Error> {
        let (core, new, flags) = (Arc::clone(self), id.clone(), agent.clone());
        let opened = self.see_through(async move { core.open_new(&new, flags).await }).await?;
        match opened {
            Some(info) => Ok(info),
            // The task notes what it wakes with.
            None => self.ask(id, |reply| Message::Configure(Box::new(agent.clone()), reply)).await,
        }
    }

    /// Opens a stored session here; none when it is open already.
    async fn open_new(
        self: &Arc<Self>,
        id: &SessionId,
        agent: AgentSettings,
    ) -> Result<Option<SessionInfo>, Error> {
        let _gate = self.enter().await?;
        let _alone = self.alone(id).await;
        if self.slot(id).is_some() {
            return Ok(None);
        }
        let place = match self.reserve() {
            Ok(place) => place,
            Err(refusal) => {
                // Of a session that is not there, that is said first.
                self.services.options.store.get(id).await.map_err(refused)?;
                return Err(refusal.into());
            }
        };
        let viewers = Arc::default();
        let session = opening::open(&self.services, id, agent, viewers, Why::Asked).await?;
        Ok(self.start(session, Some(place)).info())
    }

    /// Returns the facts of a session, open or stored.
    async fn info(&self, id: &SessionId) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        let mut info = match self.slot(id).and_then(|slot| slot.info()) {
            Some(info) => info,
            None => stored::whole_info(&*options.store, id).await?,
        };
        if let (Some(neuron), Some(sandbox), SessionState::Idle) =
            (&info.neuron, info.sandbox, info.state)
        {
            info.changes_waiting = own::waiting(options, neuron, sandbox).await;
        }
        Ok(info)
    }

    /// Lists the models that sessions may name, the default one first.
    fn models(&self) -> Vec<ModelListing> {
        let options = &self.services.options;
        let policy = options.policies.current();
        let default = options.default_model.as_ref();
        let default = default.and_then(|name| options.models.resolve(name).ok());
        let default = default.map(|model| model.info().clone());
        let default_id = default.as_ref().map(|info| info.id.clone());
        let others = options.models.list();
        let others = others.into_iter().filter(|info| Some(&info.id) != default_id.as_ref());
        let all = default.into_iter().chain(others);
        all.filter(|info| policy.check_model(&info.id).is_ok())
            .map(|info| ModelListing {
                is_default: Some(&info.id) == default_id.as_ref(),
                id: info.id,
                provider: info.provider,
                context_window: info.context_window,
            })
            .collect()
    }
}

fn encode(body: &EventBody) -> Result<String, Error> {
    body.encode().map_err(|error| Fault::with("encode an event", error).into())
}

fn row_of(seq: Seq, frame: FrameId, at: Timestamp, body: &EventBody) -> Result<LogRow, Error> {
    Ok(LogRow { seq, frame, at, kind: body.kind(), body: encode(body)? })
}

#[async_trait]
impl Runtime for Hub {
    async fn create(&self, session: CreateSession) -> Result<SessionInfo, Error> {
        self.core.create(session).await
    }

    async fn open(&self, id: &SessionId, agent: AgentSettings) -> Result<SessionInfo, Error> {
        self.core.open(id, agent).await
    }

    async fn close(&self, session: &SessionId, reason: SessionEnd) -> Result<(), Error> {
        self.core.close(session, reason).await
    }

    async fn opened(&self) -> Result<Vec<SessionInfo>, Error> {
        let slots = self.core.slots();
        let mut infos: Vec<SessionInfo> =
            slots.iter().filter_map(|(_, slot)| slot.info()).collect();
        infos.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        Ok(infos)
    }

    async fn take_up(&self, which: TakeUp) -> Result<Vec<SessionInfo>, Error> {
        self.core.take_up(which).await
    }

    async fn prompt(&self, session: &SessionId, prompt: Prompt) -> Result<PromptAccepted, Error> {
        let slot = self.core.slot(session).ok_or_else(|| self.core.missing(session))?;
        let _in_turn = slot.line.lock().await;
        let workspace = self.core.enter_neuron(&slot).await?;
        let prompt = if attachments::has_files(&prompt) {
            let mut files = self.ask(session, Message::Files).await?;
            files.workspace = workspace.clone().unwrap_or(files.workspace);
            attachments::read(&*self.services().options.clock, &files, prompt).await?
        } else {
            prompt
        };
        let arrival = Box::new(Arrival { prompt, workspace });
        self.ask(session, |reply| Message::Prompt(arrival.clone(), reply)).await
    }

    async fn interrupt(&self, session: &SessionId, which: Interrupt) -> Result<bool, Error> {
        self.ask(session, |reply| Message::Interrupt(which.clone(), reply)).await
    }

    async fn answer(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        if self.core.slot(session).is_none() {
            // One that is being opened or closed here is here, or nowhere, in a moment.
            drop(self.core.alone(session).await);
        }
        if self.core.slot(session).is_none() {
            return self.answer_by_letter(session, request, answer).await;
        }
        let message = |reply| Message::Answer(request.clone(), answer.clone(), reply);
        self.ask(session, message).await
    }

    async fn pending(&self, session: Option<&SessionId>) -> Result<Vec<Pending>, Error> {
        match session {
            Some(id) => {
                let row = self.store().get(id).await.map_err(refused)?;
                stored::pending(self.store(), &row).await
            }
            None => stored::all_pending(self.store()).await,
        }
    }

    async fn points(&self, session: &SessionId) -> Result<Vec<PointInfo>, Error> {
        stored::points(self.store(), session).await
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
        self.store().get(session).await.map_err(refused)?;
        Ok(slash::commands())
    }

    async fn spent(&self, since: Timestamp) -> Result<Vec<Spent>, Error> {
        stored::spent(self.store(), since).await
    }

    fn check_settings(&self, mode: Option<Mode>, model: Option<&str>) -> Result<(), Error> {
        let options = &self.services().options;
        let policy = options.policies.current();
        if let Some(mode) = mode {
            policy.check_mode(mode)?;
        }
        if let Some(name) = model {
            policy.check_model(&options.models.resolve(name)?.info().id)?;
        }
        Ok(())
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
        self.core.info(session).await
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, Error> {
        let mut listed = stored::list(self.store(), filter).await?;
        for info in &mut listed {
            info.is_open = self.core.slot(&info.id).is_some();
            let Some((neuron, sandbox)) = self.core.neuron_of(&info.id).await? else { continue };
            info.sandbox = sandbox;
            if let Some(sandbox) = sandbox.filter(|_| !info.is_open) {
                let options = &self.services().options;
                info.changes_waiting = own::waiting(options, &neuron, sandbox).await;
            }
            info.neuron = Some(neuron);
        }
        Ok(listed)
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: MessagesAfter,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        let view = match self.is_awake(session) {
            true => self.ask(session, Message::View).await?,
            false => stored::view(self.store(), session).await?,
        };
        let from = self.cursors.after(self.store(), (session, view.last), after).await?;
        let (page, has_more) =
            stored::messages(self.store(), session, &view, (from, limit)).await?;
        self.cursors.note(session, &page);
        let messages = page.into_iter().map(|(_, message)| message).collect();
        Ok(MessagesPage { messages, has_more })
    }

    async fn recorded(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Shown>>, Error> {
        stored::recorded(self.store(), session, after, limit).await
    }

    async fn export(&self, session: &SessionId) -> Result<ExportedSession, Error> {
        stored::export(self.store(), session).await
    }

    async fn import(&self, session: ExportedSession) -> Result<SessionInfo, Error> {
        self.core.import(session).await
    }

    fn watch(&self) -> Subscription {
        self.core.services.watchers.add()
    }

    async fn usage(&self, session: &SessionId) -> Result<SessionUsage, Error> {
        match self.is_awake(session) {
            true => self.ask(session, Message::Usage).await,
            false => stored::usage(self.store(), session).await,
        }
    }

    fn models(&self) -> Vec<ModelListing> {
        self.core.models()
    }

    async fn check(&self) -> Result<(), Error> {
        Ok(self.store().probe().await.map_err(refused)?)
    }

    async fn fork(&self, session: &SessionId, until: ForkPoint) -> Result<SessionInfo, Error> {
        self.core.fork(session, until).await
    }

    async fn remove(&self, session: &SessionId) -> Result<(), Error> {
        self.core.remove(session).await
    }

    async fn bring_over(&self, session: &SessionId, how: BringOver) -> Result<BroughtOver, Error> {
        self.core.bring_over(session, how).await
    }

    async fn discard(&self, session: &SessionId) -> Result<u64, Error> {
        self.core.discard(session).await
    }

    async fn shutdown(&self) {
        self.core.shutdown().await;
    }
}
