//! Questions of calls that run: each is an interaction like any other, and its answer goes to the
//! call.

use std::collections::HashMap;

use driver_api::Asks;
use protocol::event::{Answer, DecidedBy, Outcome, QuestionRequest, RequestResolved};
use protocol::{EventBody, RequestId};
use tokio::sync::{mpsc, oneshot};

use super::Session;
use super::queue::Queue;
use crate::engine::calls::{Inquiry, PARALLEL_MAX};
use crate::kernel::{CallStage, Command, Decided};

/// Bytes of a question and its options together: what a person reads of it, and more than any form
/// of a few fields has.
const QUESTION_BYTES_MAX: usize = 20_000;

/// Options of a question: a list that a person still looks through.
const OPTIONS_MAX: usize = 200;

/// Where the answer to a question goes.
type Asker = oneshot::Sender<Option<Answer>>;

/// The questions of the calls that run.
#[derive(Debug)]
pub(super) struct Inquiries {
    /// Those that wait for the session: a call asks one thing at a time.
    queue: Queue<Box<Inquiry>>,
    /// Who waits for an answer.
    askers: HashMap<RequestId, Asker>,
    /// Answers that their askers hear when they are durable.
    due: Vec<(Asker, Option<Answer>)>,
}

impl Default for Inquiries {
    fn default() -> Self {
        Self { queue: Queue::new(PARALLEL_MAX), askers: HashMap::new(), due: Vec::new() }
    }
}

impl Inquiries {
    /// Returns the way in for a call.
    pub(super) fn sender(&mut self) -> mpsc::Sender<Box<Inquiry>> {
        self.queue.sender()
    }

    /// Returns the next question; waits for ever where no call may ask.
    pub(super) async fn next(&mut self) -> Box<Inquiry> {
        self.queue.next().await
    }

    /// Takes note of a decision.
    pub(super) fn resolved(&mut self, resolved: &RequestResolved) {
        let Some(asker) = self.askers.remove(&resolved.request_id) else { return };
        let answers = resolved.answers.clone();
        let answer = (resolved.outcome == Outcome::Answered)
            .then(|| Answer::Chosen { answers, other: resolved.words.clone() });
        self.due.push((asker, answer));
    }

    /// Tells the askers what was decided. All of it is durable.
    pub(super) fn answer(&mut self) {
        for (asker, answer) in self.due.drain(..) {
            // A call that has gone needs no answer.
            let _gone = asker.send(answer);
        }
    }

    /// Forgets who asked: the turn is over.
    pub(super) fn clear(&mut self) {
        self.askers.clear();
    }

    /// Lists the questions whose asker has gone.
    fn orphans(&self) -> Vec<RequestId> {
        let gone = self.askers.iter().filter(|(_, asker)| asker.is_closed());
        gone.map(|(request, _)| request.clone()).collect()
    }
}

impl Session {
    /// Asks a person what a call that runs wants to know; nobody answers where nobody can be asked.
    pub(super) fn inquire(&mut self, inquiry: Inquiry) {
        let Inquiry { call, question, reply } = inquiry;
        // It may have taken its last question back just now.
        self.settle_orphans();
        let stage = self.state.call(&call).map(|call| &call.stage);
        let may_ask = matches!(stage, Some(CallStage::Started(_)))
            && self.agent.is_attended
            && !self.is_stopping()
            && is_askable(&question);
        if !may_ask {
            let _gone = reply.send(None);
            return;
        }
        let EventBody::QuestionRequest(request) = self.request_of(call, question) else { return };
        let QuestionRequest { request_id, question, .. } = &request;
        self.live.inquiries.askers.insert(request_id.clone(), reply);
        let message = question.clone();
        self.apply_sure(Command::Ask(request.into()));
        self.notify_hooks(message, "question");
    }

    /// Settles questions whose call does not wait for the answer any more.
    pub(super) fn settle_orphans(&mut self) {
        for request in self.live.inquiries.orphans() {
            self.dismiss(request);
        }
    }

    /// Settles a question of a call that nobody need answer any more.
    pub(super) fn dismiss(&mut self, request: RequestId) {
        if self.state.asking_call(&request).is_none() {
            return;
        }
        let (answer, by, rule) = (Answer::Dismissed, DecidedBy::Interrupt, None);
        let told = String::new();
        self.apply_sure(Command::Resolve(Decided {
            request,
            answer,
            by,
            rule,
            told,
            is_host: false,
        }));
    }
}

/// Tells whether a call that runs may ask this. A plan is approved before it is carried out.
fn is_askable(asks: &Asks) -> bool {
    let Asks::Question { question, options, .. } = asks else { return false };
    let of_options = options.iter().map(|option| {
        let description = option.description.as_deref().unwrap_or_default();
        option.id.len() + option.label.len() + description.len()
    });
    let fits = question.len() + of_options.sum::<usize>() <= QUESTION_BYTES_MAX
        && options.len() <= OPTIONS_MAX;
    if !fits {
        tracing::warn!("a call asks for too much to be shown to a person");
    }
    fits
}
