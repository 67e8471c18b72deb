//! Drives one prompt: gives it to the runtime, hands its events over, stops it when nobody reads.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use protocol::{EventBody, PromptId};
use runtime_api::{
    Delivery, Interrupt, Overflow, Position, Prompt, PromptAccepted, Shown, Subscription,
};
use tokio::sync::mpsc;

use super::Core;
use super::backlog::Backlog;
use super::line::Place;
use super::stream::Item;
use crate::{Error, RunResult};

/// How many events the session may be ahead of the task that drives the prompt.
const PACE: usize = 64;

/// How many events are kept until it is known which of them are the prompt's: the oldest are let
/// go, they are those of another prompt.
const EARLY_MAX: usize = 1_024;

/// Drives a prompt to its end.
pub(super) async fn drive(
    core: Arc<Core>,
    prompt: Prompt,
    place: Result<Place, Error>,
    out: mpsc::Sender<Item>,
) {
    let mut backlog = Backlog::default();
    let end = match place {
        Ok(place) => run(&core, prompt, place, (&out, &mut backlog)).await,
        Err(error) => Err(error),
    };
    while let Some(event) = backlog.pop() {
        if out.send(Item::Event(Box::new(event))).await.is_err() {
            return;
        }
    }
    if let Err(error) = out.send(Item::End(Box::new(end))).await {
        tracing::trace!(%error, "nobody reads the end of a prompt");
    }
}

async fn run(
    core: &Arc<Core>,
    prompt: Prompt,
    place: Place,
    (out, backlog): (&mpsc::Sender<Item>, &mut Backlog),
) -> Result<RunResult, Error> {
    let _front = tokio::select! {
        biased;
        // Given up while it waited: it never begins.
        () = out.closed() => return Err(Error::Closed),
        front = place.front() => front?,
    };
    let (handle, session) = (&core.handle, &core.session);
    let watching = handle.subscribe(session, Position::Live, Overflow::Pace(PACE));
    let events = watching.await.map_err(gone)?;
    let giving = {
        let core = Arc::clone(core);
        async move { Report::Accepted(core.handle.prompt(&core.session, prompt).await) }
    };
    let turn = Turn {
        core,
        out,
        backlog,
        events,
        call: Some(giving.boxed()),
        prompt: None,
        early: VecDeque::new(),
        is_running: false,
        is_done: false,
        reader: Reader::Reads,
    };
    turn.run().await
}

/// A session that is gone was closed, here or through the runtime.
fn gone(error: runtime_api::Error) -> Error {
    match Error::from(error) {
        error if error.code() == Some(protocol::RefusalCode::SessionNotFound) => Error::Closed,
        error => error,
    }
}

/// What was asked of the runtime and is answered.
enum Report {
    Accepted(Result<PromptAccepted, runtime_api::Error>),
    Stopped(Result<bool, runtime_api::Error>),
}

/// Whether anybody reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Reads,
    /// The stream was dropped: the prompt is to be stopped.
    Gone,
    /// And that was asked for.
    Obeyed,
}

struct Turn<'a> {
    core: &'a Arc<Core>,
    out: &'a mpsc::Sender<Item>,
    backlog: &'a mut Backlog,
    events: Subscription,
    /// The session may wait for this task to read before it answers, so that what is asked of it
    /// is waited for beside the events.
    call: Option<BoxFuture<'static, Report>>,
    prompt: Option<PromptId>,
    early: VecDeque<Arc<Shown>>,
    /// Whether the turn that runs is the prompt's.
    is_running: bool,
    /// Whether the prompt's `done` was seen: there is nothing to stop after it.
    is_done: bool,
    reader: Reader,
}

impl Turn<'_> {
    async fn run(mut self) -> Result<RunResult, Error> {
        let mut lifts = self.core.line.lifts();
        loop {
            self.stop_if_unread();
            let is_read = self.reader == Reader::Reads;
            let is_lifted = *lifts.borrow_and_update() > 0;
            let may_grow = !is_read || is_lifted || !self.backlog.is_full();
            tokio::select! {
                biased;
                report = report(&mut self.call), if self.call.is_some() => {
                    self.call = None;
                    if let Some(end) = self.reported(report) {
                        return end;
                    }
                }
                room = self.out.reserve(), if is_read && !self.backlog.is_empty() => {
                    match (room, self.backlog.pop()) {
                        (Ok(room), Some(event)) => room.send(Item::Event(Box::new(event))),
                        _ => self.reader = Reader::Gone,
                    }
                }
                () = self.out.closed(), if is_read => {
                    self.reader = Reader::Gone;
                    if let Some(end) = self.catch_up() {
                        return end;
                    }
                }
                delivery = self.events.next(), if may_grow => match delivery {
                    Some(Delivery::Event(event)) => {
                        if let Some(end) = self.happened(event) {
                            return end;
                        }
                    }
                    // A paced viewer has none.
                    Some(Delivery::Gap { .. }) => {}
                    None => return Err(Error::Closed),
                },
                changed = lifts.changed() => {
                    if changed.is_err() {
                        return Err(Error::Closed);
                    }
                }
            }
        }
    }

    /// Takes the events that are there already: the prompt's end may be among them.
    fn catch_up(&mut self) -> Option<Result<RunResult, Error>> {
        for _ in 0..PACE {
            match self.events.next().now_or_never() {
                Some(Some(Delivery::Event(event))) => {
                    if let Some(end) = self.happened(event) {
                        return Some(end);
                    }
                }
                Some(Some(Delivery::Gap { .. })) => {}
                // What comes of an end shows where it is waited for.
                Some(None) | None => return None,
            }
        }
        None
    }

    /// Asks for a stop of the prompt where nobody reads, once its id is known: it may run, or wait
    /// behind the prompts of others.
    fn stop_if_unread(&mut self) {
        if self.reader == Reader::Gone {
            self.backlog.clear();
        }
        if self.reader != Reader::Gone || self.is_done || self.call.is_some() {
            return;
        }
        let Some(prompt) = self.prompt.clone() else { return };
        self.reader = Reader::Obeyed;
        let core = Arc::clone(self.core);
        let stopping = async move {
            let own = Interrupt::Prompt(prompt);
            Report::Stopped(core.handle.interrupt(&core.session, own).await)
        };
        self.call = Some(stopping.boxed());
    }

    fn reported(&mut self, report: Report) -> Option<Result<RunResult, Error>> {
        match report {
            Report::Accepted(Ok(accepted)) => {
                self.prompt = Some(accepted.prompt_id);
                let early = std::mem::take(&mut self.early);
                early.into_iter().find_map(|event| self.happened(event))
            }
            Report::Accepted(Err(error)) => Some(Err(gone(error))),
            Report::Stopped(Ok(_)) => None,
            // The events will tell how it ends.
            Report::Stopped(Err(error)) => {
                tracing::warn!(%error, "stop a prompt that nobody reads");
                None
            }
        }
    }

    /// Takes an event; returns the end where it is the prompt's last.
    fn happened(&mut self, event: Arc<Shown>) -> Option<Result<RunResult, Error>> {
        let Some(prompt) = &self.prompt else {
            if self.early.len() == EARLY_MAX {
                self.early.pop_front();
            }
            self.early.push_back(event);
            return None;
        };
        let mut end = None;
        let is_own = match &event.body {
            EventBody::PromptQueued(queued) => queued.prompt_id == *prompt,
            EventBody::PromptStarted(started) => {
                self.is_running = started.prompt_id == *prompt;
                self.is_running
            }
            EventBody::PromptFinished(finished) => {
                let is_own = finished.prompt_id == *prompt;
                if is_own {
                    let session = self.core.session.clone();
                    end = Some(Ok(RunResult::new(session, finished.result.clone())));
                }
                // Another one may have been withdrawn while this one runs.
                is_own
            }
            body => {
                self.is_done |= self.is_running && matches!(body, EventBody::Done(_));
                self.is_running
            }
        };
        if is_own && self.reader == Reader::Reads {
            self.backlog.push(owned(event));
        }
        end
    }
}

fn owned(event: Arc<Shown>) -> protocol::Event {
    Arc::try_unwrap(event).map_or_else(|shared| (**shared).clone(), Shown::into_event)
}

async fn report(call: &mut Option<BoxFuture<'static, Report>>) -> Report {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}
