//! One prompt at a server, from its sending to its end.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol::event::Answer;
use protocol::{EventBody, PromptId, RequestId};

use super::feed::Feed;
use super::leaving::SentPrompt;
use super::line::encode;
use super::server_event::{RemoteEvent, ServerEvent};
use super::shapes::{PendingRequest, Prompt, Queued};
use super::{ClientError, RemoteSession};
use crate::callbacks::{Answering, no_instead};
use crate::{Callbacks, RunResult};

/// Runs a prompt. See [`RemoteSession::run`].
pub(super) async fn run(
    session: &RemoteSession,
    prompt: &Prompt,
    callbacks: Callbacks,
    on_event: &mut (dyn FnMut(&RemoteEvent) + Send),
) -> Result<RunResult, ClientError> {
    let mut sent = SentPrompt::new(session, encode(prompt)?)?;
    let ended = follow(session, &mut sent, callbacks, on_event).await;
    if let Err(error) = &ended {
        // Nobody is left who could be told.
        if matches!(error, ClientError::Network(_)) || error.status() == Some(404) {
            sent.is_over();
        }
        sent.leave().await;
    }
    ended
}

async fn follow(
    session: &RemoteSession,
    sent: &mut SentPrompt,
    callbacks: Callbacks,
    on_event: &mut (dyn FnMut(&RemoteEvent) + Send),
) -> Result<RunResult, ClientError> {
    let mut feed = Feed::new(session, None);
    // Watched before it is sent, so that none of its live text is missed.
    feed.connect().await?;
    let Queued { prompt_id, queued, .. } = sent.send().await?;
    let mut events = feed.into_stream();
    let mut run = Run {
        session,
        prompt: prompt_id,
        was_queued: queued,
        is_running: false,
        sent,
        answering: Answering::new(callbacks),
        sending: FuturesUnordered::new(),
        refused: HashSet::new(),
        end_by: None,
    };
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else {
                    run.sent.is_over();
                    let message = "the session was closed before the prompt ended";
                    return Err(ClientError::Protocol(message.to_owned()));
                };
                let event = event?;
                let (is_own, result) = run.happened(&event).await?;
                if is_own {
                    on_event(&event);
                }
                if let Some(result) = result {
                    return Ok(result);
                }
                run.check_lost(event.id)?;
            }
            (request, answer) = run.answering.next() => run.send(request, answer),
            Some(sent) = run.sending.next(), if !run.sending.is_empty() => run.sent(sent)?,
        }
    }
}

/// An answer that was sent, and what the server said to it.
type Sent = (RequestId, Answer, Result<(), ClientError>);

struct Run<'a> {
    session: &'a RemoteSession,
    prompt: PromptId,
    /// Whether it had to wait when it was taken.
    was_queued: bool,
    /// Whether the turn that runs is the prompt's.
    is_running: bool,
    sent: &'a mut SentPrompt,
    answering: Answering,
    sending: FuturesUnordered<BoxFuture<'a, Sent>>,
    /// Requests whose answer could not be taken and that were decided against.
    refused: HashSet<RequestId>,
    /// Up to which event the end must come, where events were left out and the session was idle.
    end_by: Option<u64>,
}

impl Run<'_> {
    /// Takes an event; tells whether it is the prompt's, and what came of the prompt where it is
    /// the last one.
    async fn happened(
        &mut self,
        event: &RemoteEvent,
    ) -> Result<(bool, Option<RunResult>), ClientError> {
        match &event.body {
            ServerEvent::Known(body) => self.known(body),
            ServerEvent::ReplayGap { .. } => {
                self.look_around().await?;
                Ok((true, None))
            }
            ServerEvent::Other { raw, .. } => {
                let named = raw.get("promptId").and_then(serde_json::Value::as_str);
                let is_own = named.map_or(self.is_running, |id| id == self.prompt.as_str());
                if let Some((request, no)) = event.body.unreadable_request()
                    && is_own
                {
                    self.send(request, no);
                }
                Ok((is_own, None))
            }
        }
    }

    fn known(&mut self, body: &EventBody) -> Result<(bool, Option<RunResult>), ClientError> {
        let (prompt, begins) = match body {
            EventBody::PromptQueued(queued) => (&queued.prompt_id, false),
            EventBody::PromptStarted(started) => (&started.prompt_id, true),
            EventBody::TurnStart(step) => (&step.prompt_id, true),
            EventBody::PromptFinished(finished) => {
                let is_own = finished.prompt_id == self.prompt;
                let id = || self.session.id().clone();
                let result = is_own.then(|| RunResult::new(id(), finished.result.clone()));
                if is_own {
                    self.sent.is_over();
                }
                return Ok((is_own, result));
            }
            body => {
                if let EventBody::RequestResolved(resolved) = body {
                    self.answering.settle(&resolved.request_id);
                } else if self.is_running {
                    self.answering.see(body);
                }
                // What comes after it may be another prompt already.
                if matches!(body, EventBody::Done(_)) && self.is_running {
                    self.sent.is_over();
                }
                return Ok((self.is_running, None));
            }
        };
        let is_own = *prompt == self.prompt;
        if begins && !is_own && self.is_running {
            self.sent.is_over();
            return Err(lost_end());
        }
        self.is_running |= begins && is_own;
        Ok((is_own, None))
    }

    /// Events were left out: the prompt may have begun, and even ended, among them.
    async fn look_around(&mut self) -> Result<(), ClientError> {
        // One that did not have to wait has begun, though its start was not shown.
        self.is_running |= !self.was_queued;
        let info = self.session.info().await?;
        if info.state == "idle" && info.queued == 0 {
            // Whether the end is among what still comes shows at the newest event of now.
            self.end_by = Some(info.last_event_id);
        }
        if self.is_running && info.pending_requests > 0 {
            for request in self.session.permissions().await? {
                if let PendingRequest::Known(body) = request {
                    self.answering.see(&body);
                }
            }
        }
        Ok(())
    }

    /// Fails where the end of the prompt must have been among what is missing.
    fn check_lost(&mut self, seen: Option<u64>) -> Result<(), ClientError> {
        match (self.end_by, seen) {
            (Some(last), Some(id)) if id >= last => {
                self.sent.is_over();
                Err(lost_end())
            }
            _ => Ok(()),
        }
    }

    fn send(&mut self, request: RequestId, answer: Answer) {
        let session = self.session;
        self.sending.push(Box::pin(async move {
            let sent = session.insist(&request, &answer).await;
            (request, answer, sent)
        }));
    }

    /// An answer that cannot be taken becomes a no that says why; one that came too late is no
    /// failure.
    fn sent(&mut self, (request, answer, sent): Sent) -> Result<(), ClientError> {
        let error = match sent {
            Ok(()) => return Ok(()),
            Err(ClientError::Api(error)) => error,
            Err(error) => return Err(error),
        };
        match (error.status, error.code.as_str()) {
            (404, "request_not_found") | (409, "request_resolved") => {
                self.answering.settle(&request);
                Ok(())
            }
            (400 | 403, _) if self.refused.insert(request.clone()) => {
                let why = format!("the answer could not be taken: {}", error.message);
                self.send(request, no_instead(&answer, why));
                Ok(())
            }
            _ => Err(error.into()),
        }
    }
}

fn lost_end() -> ClientError {
    let message = "the prompt ended among events that the server keeps no longer; its messages \
                   have what it said";
    ClientError::Protocol(message.to_owned())
}
