//! Requests under a watch: the card, its answer, and what becomes of one that nobody answers.

use std::time::Duration;

use protocol::event::{InteractionKind, RequestResolved};
use protocol::{RefusalCode, RequestId};
use tokio::time::Instant;

use super::{Attendance, Desk, Watch};
use crate::card::{self, Dialogue, Look, Request, Step};
use crate::{Heard, escape};

use crate::exit::Failure;

/// How long further requests of the same step are waited for before the first card is drawn, so
/// that it can say how many there are. Nobody notices it.
const GATHER: Duration = Duration::from_millis(20);
/// How many events are taken meanwhile: more than the requests of a step, and few enough that the
/// output of another call cannot keep the card from being drawn.
const GATHERED_MAX: usize = 64;

/// What is asked of a person, and how far the talk about it has come.
#[derive(Debug, Default)]
pub(super) struct Asking {
    dialogue: Option<Dialogue>,
    /// The card was drawn, or what else stands above the line.
    is_drawn: bool,
}

impl Asking {
    /// Returns how the next line is asked for.
    pub(super) fn ask(&self) -> crate::Ask {
        match &self.dialogue {
            Some(dialogue) => dialogue.ask(),
            None => crate::Ask::Answer("  › ".to_owned()),
        }
    }
}

impl Watch {
    /// Tells whether a person is to say something now. What waits while the turn is being stopped
    /// is settled by the stop.
    pub(super) fn asks_person(&self) -> bool {
        self.attendance == Attendance::Person
            && self.requests.first().is_some()
            // An answer on its way may settle more than its own request.
            && self.errands.len() == 0
            && self.deadline.is_none()
    }

    /// Shows what is asked, unless it is shown already or an older question is still open. What
    /// was typed before a card was shown consents to nothing.
    pub(super) async fn show_card(&mut self, desk: &mut Desk) -> Result<(), Failure> {
        if desk.input.is_waiting() || !self.asks_person() {
            return Ok(());
        }
        let talked = self.asking.dialogue.as_ref().map(|dialogue| dialogue.request().id().clone());
        if talked.is_none_or(|id| !self.requests.is_first(&id)) {
            self.gather(desk).await?;
            // What was gathered may have settled it.
            let Some(first) = self.requests.first().filter(|_| self.asks_person()) else {
                return Ok(());
            };
            self.asking = Asking { dialogue: Some(Dialogue::new(first.clone())), is_drawn: false };
        }
        let look = self.look(desk);
        if let Some(dialogue) = self.asking.dialogue.as_ref().filter(|_| !self.asking.is_drawn) {
            desk.input.forget();
            desk.console.say(&dialogue.draw(look));
            self.asking.is_drawn = true;
        }
        desk.console.rest();
        Ok(())
    }

    fn look(&self, desk: &Desk) -> Look {
        Look {
            paint: desk.console.paint(),
            width: desk.console.width(),
            now: (self.now)(),
            place: self.requests.place(),
        }
    }

    /// Takes what came together with a request.
    async fn gather(&mut self, desk: &mut Desk) -> Result<(), Failure> {
        let until = Instant::now() + GATHER;
        for _ in 0..GATHERED_MAX {
            let next = tokio::time::timeout_at(until, self.events.next()).await;
            let Ok(delivery) = next else { break };
            self.delivered(delivery, desk)?;
            if self.outstanding == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes what a person said under a card.
    pub(super) fn answered(&mut self, heard: Heard, desk: &mut Desk) -> Result<(), Failure> {
        let Some(dialogue) = &mut self.asking.dialogue else { return Ok(()) };
        let request = dialogue.request().clone();
        match heard {
            Heard::Stale => {}
            Heard::Line(line) => match dialogue.hear(&line, desk.console.paint()) {
                Step::Answer(answer) => {
                    let id = request.id().clone();
                    self.requests.answer(&id);
                    self.errands.answer(&self.handle, &self.info.id, id, answer);
                }
                step => self.go_on_asking(step, desk),
            },
            Heard::Interrupted | Heard::End if dialogue.steps_back() => {
                self.asking.is_drawn = false;
            }
            Heard::Interrupted => return self.stop(desk),
            Heard::End | Heard::TooLong | Heard::Failed(_) => self.deny_for_good(&request),
        }
        Ok(())
    }

    fn go_on_asking(&mut self, step: Step, desk: &mut Desk) {
        match step {
            Step::Say(words) => desk.console.say(&words),
            Step::Card(words) => {
                if let Some(words) = words {
                    desk.console.say(&words);
                }
                self.asking.is_drawn = false;
            }
            Step::Answer(_) => {}
        }
    }

    /// Deals with an answer that was not taken: what it was about still waits, unless somebody
    /// else decided it.
    pub(super) fn refused(
        &mut self,
        request: &RequestId,
        error: runtime_api::Error,
        desk: &mut Desk,
    ) -> Result<(), Failure> {
        let code = match &error {
            runtime_api::Error::Refusal(refusal) => Some(refusal.code),
            runtime_api::Error::Fault(_) => None,
        };
        let is_gone =
            matches!(code, Some(RefusalCode::RequestNotFound | RefusalCode::RequestResolved));
        let failure = Failure::from(error);
        if !is_gone && (self.requests.is_last_word(request) || self.ends_with_a_refusal) {
            // Nobody is left to say anything better, and the turn would wait for ever.
            self.was_refused = self.ends_with_a_refusal;
            return Err(failure);
        }
        if is_gone {
            // Whoever decided it counts it, if it is to be counted.
            let was_mine = self.requests.is_last_word(request);
            self.unanswered = self.unanswered.saturating_sub(u32::from(was_mine));
            self.requests.settle(request);
        } else {
            self.requests.reopen(request);
        }
        self.notice("answer_refused", &failure.message, desk);
        if !is_gone
            && let Some(dialogue) = &mut self.asking.dialogue
            && dialogue.request().id() == request
        {
            let step = dialogue.again(code == Some(RefusalCode::LockedByPolicy));
            self.go_on_asking(step, desk);
        }
        Ok(())
    }

    /// Takes note of a decision. One that was made elsewhere takes the card away.
    pub(super) fn resolved(&mut self, resolved: &RequestResolved, desk: &mut Desk) {
        let was_first = self.requests.is_first(&resolved.request_id);
        self.requests.settle(&resolved.request_id);
        if was_first && desk.input.is_waiting() {
            desk.input.drop_question();
            self.asking = Asking::default();
            // The line under the card is the person's; the note begins on its own.
            desk.console.say(&format!("\n{}; press Enter", card::decided(resolved)));
        }
    }

    /// Denies what a program can no longer answer, since its input has ended. While a turn is
    /// being stopped the stop settles what waits.
    pub(super) fn deny_unanswerable(&mut self, desk: &mut Desk) {
        if self.attendance != Attendance::Program
            || self.waits_elsewhere
            || !self.has_ended_input
            || self.deadline.is_some()
        {
            return;
        }
        while let Some(request) = self.requests.first().cloned() {
            let text = format!("request {} was denied: standard input has ended", request.id());
            self.notice("request_unanswered", &text, desk);
            self.unanswered = self.unanswered.saturating_add(1);
            self.deny_for_good(&request);
        }
    }

    fn deny_for_good(&mut self, request: &Request) {
        let id = request.id().clone();
        self.requests.answer_for_good(&id);
        self.errands.answer(&self.handle, &self.info.id, id, request.no());
    }

    /// Says how a request that nobody is asked for here can be answered from another terminal.
    pub(super) fn tell_ways(&mut self, desk: &mut Desk) {
        let is_answered_here = match self.attendance {
            Attendance::Person => true,
            Attendance::Program => !self.has_ended_input,
            Attendance::Nobody => false,
        };
        if is_answered_here || self.deadline.is_some() {
            return;
        }
        while let Some(request) = self.requests.untold() {
            let id = escape::line(request.id().as_str(), 80);
            let until = match request.expires_at() {
                Some(instant) => format!(", until {}", crate::until(instant, (self.now)())),
                None => String::new(),
            };
            let words = match request.kind() {
                InteractionKind::Permission => "allow|always|deny",
                InteractionKind::Question => "choose --option 1|dismiss",
                InteractionKind::Plan => "approve|reject",
            };
            desk.console.say(&format!(
                "narthex: waiting for an answer{until}: {}\n  see it:    narthex approvals show \
                 {id}\n  answer it: narthex approvals decide {id} {words}",
                request.line()
            ));
        }
    }
}
