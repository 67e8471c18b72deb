//! A runtime that runs nothing: it records what a door asks and plays events that a test wrote.
//!
//! It needs no tasks and no time: events go to subscribers the moment they are due, so a test of a
//! door is deterministic.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use driver_api::{BringOver, BroughtOver};
use protocol::event::{
    Answer, ModeChanged, ModelChanged, RewindScope, SessionClosed, SessionEnd, SessionStart,
};
use protocol::{
    CheckpointId, Event, EventBody, FrameId, IsolationLevel, Message, Mode, NeuronDriver, PromptId,
    Refusal, RefusalCode, RequestId, Seq, SessionId, SessionSandbox, Timestamp, Usage, Writes,
};
use runtime_api::{
    AgentSettings, CreateSession, Delivery, Error, ExportedSession, ForkPoint, GoBack, Interrupt,
    LogRow, MessagesAfter, MessagesPage, ModelListing, Overflow, Pending, PointInfo, Position,
    Prompt, PromptAccepted, Runtime, SessionFilter, SessionInfo, SessionUsage, Shown, SlashCommand,
    Spent, Subscription, TakeUp, WentBack,
};
use tokio::sync::mpsc;

/// How many messages one answer holds, as in the runtime.
const MESSAGES_MAX: usize = 1_000;

/// How many recorded events one answer holds, as in the runtime.
const EVENTS_MAX: usize = 1_000;

/// How many events a subscriber may leave unread. Tests play far fewer.
const QUEUE: usize = 4096;
/// The instant of the first event; each further one is a millisecond later.
const START: Timestamp = Timestamp(1_796_000_000_000);

/// What a door asked.
#[derive(Clone, Debug)]
pub enum Call {
    /// `create`.
    Create(CreateSession),
    /// `open`.
    Open(SessionId, AgentSettings),
    /// `close`.
    Close(SessionId, SessionEnd),
    /// `take_up`.
    TakeUp(TakeUp),
    /// `prompt`.
    Prompt(SessionId, Prompt),
    /// `interrupt`, with whether the queue is cleared.
    Interrupt(SessionId, Interrupt),
    /// `answer`.
    Answer(RequestId, Answer),
    /// `set_mode`.
    SetMode(Mode),
    /// `set_model`.
    SetModel(String),
    /// `subscribe`.
    Subscribe(Position),
    /// `import`.
    Import(ExportedSession),
    /// `fork`.
    Fork(SessionId, ForkPoint),
    /// `undo`.
    Undo(SessionId, GoBack),
    /// `rewind`.
    Rewind(CheckpointId, RewindScope, GoBack),
    /// `remove`.
    Remove(SessionId),
    /// `bring_over`.
    BringOver(SessionId, BringOver),
    /// `discard`.
    Discard(SessionId),
    /// `shutdown`.
    Shutdown,
}

/// One piece of a turn's script.
#[allow(clippy::large_enum_variant, reason = "tests write it by hand, a few at a time")]
#[derive(Clone, Debug)]
pub enum Play {
    /// The event goes to every subscriber.
    Event(EventBody),
    /// Nothing more comes until this interaction is answered; what follows is dropped when the
    /// turn is stopped instead.
    UntilAnswer(RequestId),
    /// Nothing more comes until the turn is stopped.
    UntilInterrupt,
    /// Every subscription ends, as when the session is closed under its viewers.
    EndStreams,
}

impl<T: Into<EventBody>> From<T> for Play {
    fn from(body: T) -> Self {
        Play::Event(body.into())
    }
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    sessions: Vec<SessionInfo>,
    turns: VecDeque<Vec<Play>>,
    playing: VecDeque<Play>,
    log: Vec<Event>,
    messages: Vec<Message>,
    exported: Vec<LogRow>,
    pending: Vec<Pending>,
    points: Vec<PointInfo>,
    went_back: WentBack,
    brought: BroughtOver,
    commands: Vec<SlashCommand>,
    spent: Vec<Spent>,
    usage: SessionUsage,
    models: Vec<ModelListing>,
    watchers: Vec<mpsc::Sender<Delivery>>,
    subscribers: Vec<(SessionId, mpsc::Sender<Delivery>)>,
    refusals: VecDeque<(&'static str, Refusal)>,
    seq: u64,
    prompts: u64,
}

/// The runtime. Script it before it is given to the door.
#[derive(Debug, Default)]
pub struct FakeRuntime(Mutex<State>);

impl FakeRuntime {
    /// Makes a runtime without sessions and turns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the script of the next prompt's turn. A prompt without one gets no events.
    #[must_use]
    pub fn turn(self, plays: Vec<Play>) -> Self {
        self.state().turns.push_back(plays);
        self
    }

    /// Sets how a turn goes on that was left waiting: what plays before any prompt, as when a
    /// session is carried on.
    #[must_use]
    pub fn waiting(self, plays: Vec<Play>) -> Self {
        self.state().playing.extend(plays);
        self
    }

    /// Adds a stored session.
    #[must_use]
    pub fn session(self, info: SessionInfo) -> Self {
        self.state().sessions.push(info);
        self
    }

    /// Sets the transcript that every session answers with.
    #[must_use]
    pub fn transcript(self, messages: Vec<Message>) -> Self {
        self.state().messages = messages;
        self
    }

    /// Sets the log rows that every export answers with.
    #[must_use]
    pub fn rows(self, rows: Vec<LogRow>) -> Self {
        self.state().exported = rows;
        self
    }

    /// Sets the interactions that wait.
    #[must_use]
    pub fn pending(self, pending: Vec<Pending>) -> Self {
        self.state().pending = pending;
        self
    }

    /// Sets the points that every session can go back to, and what going back brings.
    #[must_use]
    pub fn points(self, points: Vec<PointInfo>, went_back: WentBack) -> Self {
        let mut state = self.state();
        (state.points, state.went_back) = (points, went_back);
        drop(state);
        self
    }

    /// Sets what is brought over of every sandbox.
    #[must_use]
    pub fn brought(self, brought: BroughtOver) -> Self {
        self.state().brought = brought;
        self
    }

    /// Sets the slash commands.
    #[must_use]
    pub fn commands(self, commands: Vec<SlashCommand>) -> Self {
        self.state().commands = commands;
        self
    }

    /// Sets what model calls used.
    #[must_use]
    pub fn spent(self, spent: Vec<Spent>) -> Self {
        self.state().spent = spent;
        self
    }

    /// Sets what the model calls of every session used.
    #[must_use]
    pub fn usage(self, usage: SessionUsage) -> Self {
        self.state().usage = usage;
        self
    }

    /// Sets the models.
    #[must_use]
    pub fn models(self, models: Vec<ModelListing>) -> Self {
        self.state().models = models;
        self
    }

    /// Makes the next call of this method fail.
    #[must_use]
    pub fn refuse(self, method: &'static str, code: RefusalCode, message: &str) -> Self {
        self.state().refusals.push_back((method, Refusal::new(code, message)));
        self
    }

    /// Returns what was asked so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the facts of a stored session for tests; change what matters.
pub fn session_info(id: &str, cwd: &str) -> SessionInfo {
    SessionInfo {
        id: SessionId::new(id),
        cwd: cwd.to_owned(),
        title: Some("a title".to_owned()),
        model: "anthropic/claude-sonnet-4-6".to_owned(),
        mode: Mode::Ask,
        state: runtime_api::SessionState::Idle,
        prompts: 1,
        usage: Usage::default(),
        cost_usd: 0.0,
        created_at: START,
        updated_at: START.plus_ms(60_000),
        last_seq: 12,
        owner_pid: None,
        context_tokens: 0,
        context_window: None,
        is_open: true,
        queued: 0,
        pending: 0,
        last_frame: FrameId(0),
        neuron: None,
        sandbox: None,
        changes_waiting: 0,
        steps: 0,
    }
}

/// Returns the sandbox that a session gets here.
fn sandbox_of(driver: Option<NeuronDriver>) -> Option<SessionSandbox> {
    let driver = driver.filter(|driver| *driver != NeuronDriver::Host)?;
    Some(SessionSandbox { driver, isolation: IsolationLevel::Full, writes: Writes::Folder })
}

/// Returns the id of a request.
fn request_id(body: &EventBody) -> Option<&RequestId> {
    match body {
        EventBody::PermissionRequest(request) => Some(&request.request_id),
        EventBody::QuestionRequest(request) => Some(&request.request_id),
        EventBody::PlanRequest(request) => Some(&request.request_id),
        _ => None,
    }
}

impl State {
    /// Answers with the refusal that the test planted for this method, or records the call.
    fn enter(&mut self, method: &'static str, call: Option<Call>) -> Result<(), Error> {
        self.calls.extend(call);
        if self.refusals.front().is_some_and(|(planned, _)| *planned == method)
            && let Some((_, refusal)) = self.refusals.pop_front()
        {
            return Err(refusal.into());
        }
        Ok(())
    }

    fn find(&self, session: &SessionId) -> Result<SessionInfo, Error> {
        let found = self.sessions.iter().find(|info| info.id == *session);
        found.cloned().ok_or_else(|| {
            Refusal::new(RefusalCode::SessionNotFound, format!("no session {session}")).into()
        })
    }

    fn find_mut(&mut self, session: &SessionId) -> Result<&mut SessionInfo, Error> {
        self.sessions.iter_mut().find(|info| info.id == *session).ok_or_else(|| {
            Refusal::new(RefusalCode::SessionNotFound, format!("no session {session}")).into()
        })
    }

    fn send(&mut self, session: &SessionId, body: EventBody) {
        let recorded = body.kind().class() != protocol::event::EventClass::Delta;
        let frame = u64::try_from(self.log.len()).unwrap_or(0) + 1;
        self.seq += u64::from(recorded);
        let event = Event {
            body,
            session_id: session.clone(),
            seq: recorded.then_some(Seq(self.seq)),
            frame: FrameId(frame),
            ts: START.plus_ms(i64::try_from(frame).unwrap_or(0)),
        };
        self.log.push(event.clone());
        let event = Arc::new(Shown::new(event));
        if recorded {
            self.watchers.retain(|queue| queue.try_send(Delivery::Event(event.clone())).is_ok());
        }
        self.subscribers.retain(|(watched, queue)| {
            watched != session || queue.try_send(Delivery::Event(event.clone())).is_ok()
        });
    }

    /// Plays until the script waits for something or ends.
    fn advance(&mut self, session: &SessionId) {
        while let Some(play) = self.playing.pop_front() {
            match play {
                Play::Event(body) => self.send(session, body),
                Play::EndStreams => self.subscribers.clear(),
                wait @ (Play::UntilAnswer(_) | Play::UntilInterrupt) => {
                    self.playing.push_front(wait);
                    return;
                }
            }
        }
    }
}

#[async_trait]
impl Runtime for FakeRuntime {
    async fn create(&self, session: CreateSession) -> Result<SessionInfo, Error> {
        let mut state = self.state();
        state.enter("create", Some(Call::Create(session.clone())))?;
        let number = state.sessions.len() + 1;
        let info = SessionInfo {
            title: session.title,
            model: session.model.unwrap_or_default(),
            mode: session.mode.unwrap_or_default(),
            prompts: 0,
            neuron: session.neuron,
            sandbox: sandbox_of(session.sandbox),
            ..session_info(&format!("ses{number:023}"), &session.cwd)
        };
        let start = SessionStart {
            cwd: info.cwd.clone(),
            model: info.model.clone(),
            mode: info.mode,
            title: info.title.clone(),
            neuron: info.neuron.clone(),
            sandbox: info.sandbox,
            tools: vec!["read_file".to_owned(), "run_shell".to_owned()],
            ..SessionStart::default()
        };
        state.send(&info.id, start.into());
        state.sessions.push(info.clone());
        Ok(info)
    }

    async fn open(&self, session: &SessionId, agent: AgentSettings) -> Result<SessionInfo, Error> {
        let mut state = self.state();
        state.enter("open", Some(Call::Open(session.clone(), agent)))?;
        state.find_mut(session)?.is_open = true;
        state.find(session)
    }

    async fn close(&self, session: &SessionId, reason: SessionEnd) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("close", Some(Call::Close(session.clone(), reason)))?;
        state.find_mut(session)?.is_open = false;
        Ok(())
    }

    async fn opened(&self) -> Result<Vec<SessionInfo>, Error> {
        let mut state = self.state();
        state.enter("opened", None)?;
        Ok(state.sessions.iter().rev().filter(|info| info.is_open).cloned().collect())
    }

    async fn take_up(&self, which: TakeUp) -> Result<Vec<SessionInfo>, Error> {
        let mut state = self.state();
        state.enter("take_up", Some(Call::TakeUp(which)))?;
        Ok(Vec::new())
    }

    async fn prompt(&self, session: &SessionId, prompt: Prompt) -> Result<PromptAccepted, Error> {
        let mut state = self.state();
        state.enter("prompt", Some(Call::Prompt(session.clone(), prompt)))?;
        state.find(session)?;
        state.prompts += 1;
        let prompt_id = PromptId::new(format!("prompt{}", state.prompts));
        let turn = state.turns.pop_front().unwrap_or_default();
        state.playing.extend(turn);
        state.advance(session);
        Ok(PromptAccepted { prompt_id, position: 0 })
    }

    async fn interrupt(&self, session: &SessionId, which: Interrupt) -> Result<bool, Error> {
        let mut state = self.state();
        state.enter("interrupt", Some(Call::Interrupt(session.clone(), which)))?;
        let until = |play: &Play| matches!(play, Play::UntilInterrupt);
        let Some(place) = state.playing.iter().position(until) else { return Ok(false) };
        state.playing.drain(..=place);
        state.advance(session);
        Ok(true)
    }

    async fn answer(
        &self,
        session: &SessionId,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("answer", Some(Call::Answer(request.clone(), answer)))?;
        if matches!(state.playing.front(), Some(Play::UntilAnswer(id)) if id == request) {
            state.playing.pop_front();
            state.advance(session);
            return Ok(());
        }
        if state.pending.iter().any(|it| request_id(&it.request) == Some(request)) {
            state.pending.retain(|it| request_id(&it.request) != Some(request));
            return Ok(());
        }
        let text = format!("no open request {request}");
        Err(Refusal::new(RefusalCode::RequestNotFound, text).into())
    }

    fn check_settings(&self, _: Option<Mode>, _: Option<&str>) -> Result<(), Error> {
        self.state().enter("check_settings", None)
    }

    async fn set_mode(&self, session: &SessionId, mode: Mode) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("set_mode", Some(Call::SetMode(mode)))?;
        let before = std::mem::replace(&mut state.find_mut(session)?.mode, mode);
        if before != mode {
            state.send(session, ModeChanged { mode }.into());
        }
        Ok(())
    }

    async fn set_model(&self, session: &SessionId, model: &str) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("set_model", Some(Call::SetModel(model.to_owned())))?;
        let model = model.to_owned();
        let before = std::mem::replace(&mut state.find_mut(session)?.model, model.clone());
        if before != model {
            state.send(session, ModelChanged { model }.into());
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        session: &SessionId,
        position: Position,
        _overflow: Overflow,
    ) -> Result<Subscription, Error> {
        let mut state = self.state();
        state.enter("subscribe", Some(Call::Subscribe(position)))?;
        state.find(session)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let old = |event: &&Event| match position {
            Position::Live => false,
            Position::After(seq) => event.seq.is_some_and(|own| own > seq),
            Position::From(seq) => event.seq.is_some_and(|own| own >= seq),
            Position::AfterFrame(frame) => event.seq.is_some() && event.frame > frame,
        };
        let own = |event: &&Event| event.session_id == *session;
        for event in state.log.iter().filter(own).filter(old) {
            drop(sender.try_send(Delivery::Event(std::sync::Arc::new(event.clone().into()))));
        }
        state.subscribers.push((session.clone(), sender));
        Ok(Subscription::queue(VecDeque::new(), receiver))
    }

    async fn info(&self, session: &SessionId) -> Result<SessionInfo, Error> {
        let mut state = self.state();
        state.enter("info", None)?;
        state.find(session)
    }

    async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionInfo>, Error> {
        let mut state = self.state();
        state.enter("list", None)?;
        let limit = if filter.limit == 0 { 100 } else { filter.limit };
        let wanted =
            |info: &&SessionInfo| filter.cwd.as_ref().is_none_or(|folder| *folder == info.cwd);
        let from = filter.before.and_then(|(_, last)| {
            state.sessions.iter().rev().position(|info| info.id == last).map(|place| place + 1)
        });
        let listed = state.sessions.iter().rev().skip(from.unwrap_or(0)).filter(wanted);
        Ok(listed.take(limit).cloned().collect())
    }

    fn watch(&self) -> Subscription {
        let (sender, receiver) = mpsc::channel(QUEUE);
        self.state().watchers.push(sender);
        Subscription::queue(VecDeque::new(), receiver)
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: MessagesAfter,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        let mut state = self.state();
        state.enter("messages", None)?;
        state.find(session)?;
        let skip = match after {
            MessagesAfter::Start => 0,
            MessagesAfter::Seq(seq) => usize::try_from(seq.0).unwrap_or(usize::MAX),
            MessagesAfter::Message(id) => {
                let place = state.messages.iter().position(|message| message.id == id);
                place.map(|index| index + 1).ok_or_else(|| {
                    Refusal::new(RefusalCode::Invalid, format!("after: no message {id}"))
                })?
            }
        };
        let limit = limit.clamp(1, MESSAGES_MAX);
        let messages: Vec<_> = state.messages.iter().skip(skip).take(limit).cloned().collect();
        let has_more = skip + messages.len() < state.messages.len();
        Ok(MessagesPage { messages, has_more })
    }

    async fn recorded(
        &self,
        session: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Shown>>, Error> {
        let mut state = self.state();
        state.enter("recorded", None)?;
        state.find(session)?;
        let is_wanted = |event: &&Event| event.session_id == *session && event.seq > Some(after);
        let events = state.log.iter().filter(is_wanted).take(limit.min(EVENTS_MAX));
        Ok(events.map(|event| Arc::new(Shown::new(event.clone()))).collect())
    }

    async fn export(&self, session: &SessionId) -> Result<ExportedSession, Error> {
        let mut state = self.state();
        state.enter("export", None)?;
        Ok(ExportedSession { info: state.find(session)?, rows: state.exported.clone() })
    }

    async fn import(&self, session: ExportedSession) -> Result<SessionInfo, Error> {
        let mut state = self.state();
        state.enter("import", Some(Call::Import(session.clone())))?;
        Ok(SessionInfo { id: SessionId::new("imported"), ..session.info })
    }

    async fn usage(&self, session: &SessionId) -> Result<SessionUsage, Error> {
        let mut state = self.state();
        state.enter("usage", None)?;
        state.find(session)?;
        Ok(state.usage.clone())
    }

    fn models(&self) -> Vec<ModelListing> {
        self.state().models.clone()
    }

    async fn check(&self) -> Result<(), Error> {
        self.state().enter("check", None)
    }

    async fn fork(&self, session: &SessionId, until: ForkPoint) -> Result<SessionInfo, Error> {
        let mut state = self.state();
        state.enter("fork", Some(Call::Fork(session.clone(), until)))?;
        let copy =
            SessionInfo { id: SessionId::new("forked"), is_open: false, ..state.find(session)? };
        state.sessions.push(copy.clone());
        Ok(copy)
    }

    async fn pending(&self, session: Option<&SessionId>) -> Result<Vec<Pending>, Error> {
        let mut state = self.state();
        state.enter("pending", None)?;
        let is_wanted = |it: &&Pending| session.is_none_or(|wanted| it.session == *wanted);
        Ok(state.pending.iter().filter(is_wanted).cloned().collect())
    }

    async fn points(&self, session: &SessionId) -> Result<Vec<PointInfo>, Error> {
        let mut state = self.state();
        state.enter("points", None)?;
        state.find(session)?;
        Ok(state.points.clone())
    }

    async fn undo(&self, session: &SessionId, how: GoBack) -> Result<WentBack, Error> {
        let mut state = self.state();
        state.enter("undo", Some(Call::Undo(session.clone(), how)))?;
        state.find(session)?;
        Ok(state.went_back.clone())
    }

    async fn rewind(
        &self,
        session: &SessionId,
        point: &CheckpointId,
        scope: RewindScope,
        how: GoBack,
    ) -> Result<WentBack, Error> {
        let mut state = self.state();
        state.enter("rewind", Some(Call::Rewind(point.clone(), scope, how)))?;
        state.find(session)?;
        Ok(state.went_back.clone())
    }

    async fn commands(&self, session: &SessionId) -> Result<Vec<SlashCommand>, Error> {
        let mut state = self.state();
        state.enter("commands", None)?;
        state.find(session)?;
        Ok(state.commands.clone())
    }

    async fn spent(&self, since: Timestamp) -> Result<Vec<Spent>, Error> {
        let mut state = self.state();
        state.enter("spent", None)?;
        Ok(state.spent.iter().filter(|it| it.at >= since).cloned().collect())
    }

    async fn remove(&self, session: &SessionId) -> Result<(), Error> {
        let mut state = self.state();
        state.enter("remove", Some(Call::Remove(session.clone())))?;
        if state.find(session)?.is_open {
            state.send(session, SessionClosed { reason: SessionEnd::Deleted }.into());
            state.subscribers.retain(|(watched, _)| watched != session);
        }
        state.sessions.retain(|info| info.id != *session);
        Ok(())
    }

    async fn bring_over(&self, session: &SessionId, how: BringOver) -> Result<BroughtOver, Error> {
        let mut state = self.state();
        state.enter("bring_over", Some(Call::BringOver(session.clone(), how)))?;
        state.find(session)?;
        Ok(state.brought.clone())
    }

    async fn discard(&self, session: &SessionId) -> Result<u64, Error> {
        let mut state = self.state();
        state.enter("discard", Some(Call::Discard(session.clone())))?;
        Ok(state.find(session)?.changes_waiting)
    }

    async fn shutdown(&self) {
        let mut state = self.state();
        state.calls.push(Call::Shutdown);
        state.subscribers.clear();
        state.watchers.clear();
    }
}
