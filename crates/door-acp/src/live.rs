//! A session that is open here: its events become updates, its requests questions.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ConfigOptionUpdate, Cost,
    SessionConfigOption, SessionUpdate, TerminalId, UnstructuredCommandInput, UsageUpdate,
};
use protocol::event::{Answer, SessionEnd};
use protocol::{PromptId, RefusalCode, RequestId, SessionId};
use runtime_api::{Delivery, Error, Handle, Interrupt, SessionInfo, Subscription};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::choice::{self, Chosen};
use crate::interaction;
use crate::outlet::{AskError, Outlet};
use crate::projection::{Ended, Projection, Request, Step};
use crate::standing::Standing;

/// Ends of prompts that nobody waits for yet: the one who prompts learns the id a moment later.
const ENDED_MAX: usize = 32;

/// What a session needs of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Ties {
    pub(crate) handle: Handle,
    pub(crate) outlet: Outlet,
    /// Whether the client fills in forms.
    pub(crate) has_forms: bool,
    /// Whether it shows notices.
    pub(crate) has_notices: bool,
    pub(crate) tasks: TaskTracker,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: SessionId,
    pub(crate) ties: Ties,
    cwd: PathBuf,
    chosen: Mutex<Chosen>,
    turns: Mutex<Turns>,
    projection: Mutex<Projection>,
    standing: Mutex<Standing>,
    /// What the client is asked.
    asked: Mutex<HashMap<RequestId, CancellationToken>>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Turns {
    waiting: HashMap<PromptId, oneshot::Sender<Ended>>,
    ended: VecDeque<(PromptId, Ended)>,
    is_over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(crate) fn new(info: &SessionInfo, ties: Ties, projection: Projection) -> Arc<Self> {
        let chosen = Chosen { mode: info.mode, model: info.model.clone() };
        Arc::new(Self {
            id: info.id.clone(),
            ties,
            cwd: projection.cwd().to_owned(),
            chosen: Mutex::new(chosen),
            turns: Mutex::default(),
            projection: Mutex::new(projection),
            standing: Mutex::default(),
            asked: Mutex::default(),
            stop: CancellationToken::new(),
        })
    }

    pub(crate) fn chosen(&self) -> Chosen {
        lock(&self.chosen).clone()
    }

    /// Tells whether it was closed, or let go of.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.turns).is_over
    }

    /// Returns what can be chosen, as it is chosen now.
    pub(crate) fn options(&self) -> Vec<SessionConfigOption> {
        choice::options(&self.ties.handle, &self.chosen())
    }

    pub(crate) async fn show(&self, update: SessionUpdate) {
        self.ties.outlet.update(&self.id, update).await;
    }

    /// Shows a terminal of the client in the call that runs there.
    pub(crate) async fn show_terminal(&self, argv: &[String], terminal: &TerminalId) {
        let update = lock(&self.projection).calls().runs_in(argv, terminal);
        if let Some(update) = update {
            self.show(update).await;
        }
    }

    /// Tells what a client wants to know of a session that it has just opened.
    pub(crate) async fn greet(&self) {
        match self.ties.handle.commands(&self.id).await {
            Ok(commands) => {
                let commands = commands.into_iter().map(|it| {
                    let hint = it.argument_hint.map(|hint| {
                        AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint))
                    });
                    AvailableCommand::new(it.name, it.description).input(hint)
                });
                let update = AvailableCommandsUpdate::new(commands.collect());
                self.show(SessionUpdate::AvailableCommandsUpdate(update)).await;
            }
            Err(error) => tracing::warn!(session = %self.id, %error, "list the slash commands"),
        }
    }

    /// Follows the session until it is closed or let go of.
    pub(crate) async fn follow(self: Arc<Self>, mut events: Subscription) {
        loop {
            let delivery = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                delivery = events.next() => delivery,
            };
            let event = match delivery {
                Some(Delivery::Event(event)) => event,
                Some(Delivery::Gap { dropped }) => {
                    // Only what left the window of a replay, which this viewer never asks for.
                    tracing::warn!(session = %self.id, dropped, "events were missed");
                    continue;
                }
                None => break,
            };
            let steps = lock(&self.projection).take(&event);
            for step in steps {
                self.step(step).await;
            }
        }
        for (_, asked) in lock(&self.asked).drain() {
            asked.cancel();
        }
        let mut turns = lock(&self.turns);
        turns.is_over = true;
        turns.waiting.clear();
    }

    async fn step(self: &Arc<Self>, step: Step) {
        match step {
            Step::Show(update) => self.show(*update).await,
            Step::Ask(request) => self.ask(request),
            Step::Settled(request) => {
                if let Some(asked) = lock(&self.asked).remove(&request) {
                    asked.cancel();
                }
            }
            Step::Mode(mode) => {
                lock(&self.chosen).mode = mode;
                self.show_options().await;
            }
            Step::Model(model) => {
                lock(&self.chosen).model = model;
                self.show_options().await;
            }
            Step::Over(prompt, ended) => {
                self.show_usage().await;
                let mut turns = lock(&self.turns);
                match turns.waiting.remove(&prompt) {
                    // Whoever waited may have gone.
                    Some(waiting) => drop(waiting.send(ended)),
                    None => {
                        if turns.ended.len() == ENDED_MAX {
                            turns.ended.pop_front();
                        }
                        turns.ended.push_back((prompt, ended));
                    }
                }
            }
        }
    }

    async fn show_options(&self) {
        let update = ConfigOptionUpdate::new(self.options());
        self.show(SessionUpdate::ConfigOptionUpdate(update)).await;
    }

    /// Tells how full the model's window is, where that is known.
    async fn show_usage(&self) {
        let Ok(info) = self.ties.handle.info(&self.id).await else { return };
        if let Some(size) = info.context_window {
            let cost = (info.cost_usd > 0.0).then(|| Cost::new(info.cost_usd, "USD"));
            let update = UsageUpdate::new(info.context_tokens, size).cost(cost);
            self.show(SessionUpdate::UsageUpdate(update)).await;
        }
    }

    /// Waits for the end of a prompt; none when the session is closed before.
    pub(crate) async fn ended(&self, prompt: &PromptId) -> Option<Ended> {
        let waiting = {
            let mut turns = lock(&self.turns);
            if let Some(place) = turns.ended.iter().position(|(id, _)| id == prompt) {
                return turns.ended.remove(place).map(|(_, ended)| ended);
            }
            if turns.is_over {
                return None;
            }
            let (sender, waiting) = oneshot::channel();
            turns.waiting.insert(prompt.clone(), sender);
            waiting
        };
        waiting.await.ok()
    }

    /// Asks the client for what waits since before the session was opened.
    pub(crate) async fn ask_what_waits(self: &Arc<Self>) -> Result<(), Error> {
        for pending in self.ties.handle.pending(Some(&self.id)).await? {
            if let Some(request) = Request::of(&pending.request) {
                self.ask(request);
            }
        }
        Ok(())
    }

    /// Asks the client, once, beside everything else.
    fn ask(self: &Arc<Self>, request: Request) {
        let token = self.stop.child_token();
        let mut asked = lock(&self.asked);
        if asked.contains_key(request.id()) {
            return;
        }
        asked.insert(request.id().clone(), token.clone());
        drop(asked);
        let live = Arc::clone(self);
        self.ties.tasks.spawn(async move {
            tokio::select! {
                biased;
                // It was decided elsewhere, or the session is let go of.
                () = token.cancelled() => {}
                () = live.settle(&request) => {}
            }
            lock(&live.asked).remove(request.id());
        });
    }

    /// Asks the client and hands its answer on. A client that is gone answers nothing: its turns
    /// are stopped, which decides what waits against.
    async fn settle(&self, request: &Request) {
        let answer = match self.client_answers(request).await {
            Ok(answer) => answer,
            Err(AskError::Gone) => return,
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "the client answers no request");
                safe_answer(request)
            }
        };
        let Err(error) = self.answer(request, answer.clone()).await else { return };
        let code = match &error {
            Error::Refusal(refusal) => Some(refusal.code),
            Error::Fault(_) => None,
        };
        let again = match (code, &answer) {
            // Somebody else was faster.
            (Some(RefusalCode::RequestResolved | RefusalCode::RequestNotFound), _) => return,
            // Policy lets nobody allow it for good: once is what is left of that answer.
            (Some(RefusalCode::LockedByPolicy), Answer::AllowAlways { .. }) => Answer::AllowOnce,
            _ => safe_answer(request),
        };
        tracing::warn!(session = %self.id, %error, "an answer was not taken");
        if let Err(error) = self.answer(request, again).await {
            tracing::error!(session = %self.id, %error, "a request stays open");
        }
    }

    async fn answer(&self, request: &Request, answer: Answer) -> Result<(), Error> {
        self.ties.handle.answer(&self.id, request.id(), answer).await
    }

    async fn client_answers(&self, request: &Request) -> Result<Answer, AskError> {
        const PERMISSION: &str = "session/request_permission";
        let outlet = &self.ties.outlet;
        match request {
            Request::Permission(asked) => {
                if lock(&self.standing).is_refused(asked) {
                    return Ok(safe_answer(request));
                }
                let buttons = interaction::permission(&self.id, asked, &self.cwd);
                let response = outlet.ask(PERMISSION, &buttons).await?;
                let (answer, stands) = interaction::permission_answer(response, asked);
                if stands {
                    lock(&self.standing).refuse(asked);
                }
                Ok(answer)
            }
            Request::Plan(asked) => {
                let modes = choice::modes(&self.ties.handle, self.chosen().mode);
                let buttons = interaction::plan(&self.id, asked, &modes);
                let response = outlet.ask(PERMISSION, &buttons).await?;
                Ok(interaction::plan_answer(response))
            }
            Request::Question(asked) if self.ties.has_forms => {
                let form = interaction::form(&self.id, asked);
                Ok(interaction::form_answer(outlet.ask("elicitation/create", &form).await?))
            }
            Request::Question(asked) => match interaction::question(&self.id, asked) {
                Some(buttons) => {
                    let response = outlet.ask(PERMISSION, &buttons).await?;
                    Ok(interaction::question_answer(response, asked))
                }
                None => Ok(Answer::Dismissed),
            },
        }
    }

    /// Stops whatever runs or waits in the session.
    pub(crate) async fn interrupt(&self) {
        if let Err(error) = self.ties.handle.interrupt(&self.id, Interrupt::All).await {
            tracing::debug!(session = %self.id, %error, "stop a session");
        }
    }

    /// Follows the session no more; whoever waits for a prompt of it learns that.
    pub(crate) fn let_go(&self) {
        self.stop.cancel();
        let mut turns = lock(&self.turns);
        turns.is_over = true;
        turns.waiting.clear();
    }

    /// Closes the session; what runs in it is stopped.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        self.ties.handle.close(&self.id, SessionEnd::Closed).await
    }
}

/// Returns what is answered where the client does not.
fn safe_answer(request: &Request) -> Answer {
    match request {
        Request::Permission(_) => Answer::Deny { feedback: None },
        Request::Question(_) => Answer::Dismissed,
        Request::Plan(_) => Answer::Rejected { feedback: None },
    }
}
