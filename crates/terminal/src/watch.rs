//! A session under the eyes of its viewer: events are shown, requests answered, stops obeyed.

mod asking;
mod requests;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::card::Request;
use crate::{Ask, Console, Heard, Input, StreamFacts};
use protocol::event::{Answer, Notice, NoticeLevel, TurnResult};
use protocol::{Event, EventBody, EventKind, FrameId, RequestId, Timestamp};
use runtime_api::{Delivery, Handle, Interrupt, Prompt, SessionInfo, Subscription};
use tokio::time::Instant;

use self::asking::Asking;
use self::requests::Requests;
use crate::errands::{ERRANDS_MAX, Errands, Report};
use crate::exit::{Exit, Failure};
use crate::line::{self, Order};
use crate::show::{self, Form};
use crate::stops::Stops;

/// How long a stopped turn may take to end before the program leaves without it: longer than the
/// 15 s that the runtime gives a stopped turn, so that its end is seen.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// How long a change of mode or model may take to be seen.
const EVENT_WAIT: Duration = Duration::from_secs(1);

/// How many events are held while a card waits, live output aside, which is not held at all: more
/// than the calls of a step bring. After that the session waits too.
const HELD_MAX: usize = 256;

/// What a person sits at: input, both outputs, and the means to stop.
#[derive(Debug)]
pub struct Desk {
    pub console: Console,
    pub input: Input,
    pub stops: Stops,
}

/// Where answers and further prompts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// Nobody; the runtime denies what it must ask for.
    Nobody,
    /// A person at a terminal.
    Person,
    /// A program that writes JSON lines.
    Program,
}

impl Attendance {
    /// Tells whether a person sits where a prompt and its questions are.
    pub fn of(facts: &StreamFacts) -> Self {
        match facts.input_is_terminal && facts.err_is_terminal {
            true => Attendance::Person,
            false => Attendance::Nobody,
        }
    }
}

/// A session that is watched.
#[derive(Debug)]
pub struct Watch {
    pub handle: Handle,
    pub info: SessionInfo,
    pub form: Form,
    pub attendance: Attendance,
    pub now: fn() -> Timestamp,
    /// What to say of a provider's key when it was not taken.
    pub key_hints: Vec<(String, String)>,
    events: Subscription,
    errands: Errands,
    requests: Requests,
    asking: Asking,
    /// What nobody here can answer is waited for all the same: somebody may answer it from another
    /// terminal, until it expires.
    pub waits_elsewhere: bool,
    /// A refused answer is the end: whoever gave it is not there to give another.
    ends_with_a_refusal: bool,
    /// That end has come.
    was_refused: bool,
    /// How many requests of this turn were denied here because nobody is left to answer.
    unanswered: u32,
    /// What came while a card waits for its answer: shown afterwards, so that the line under the
    /// card stays the person's.
    held: VecDeque<Delivery>,
    outstanding: usize,
    last_result: Option<TurnResult>,
    exit: Exit,
    deadline: Option<Instant>,
    output_error: Option<io::Error>,
    has_ended_input: bool,
}

impl Watch {
    pub fn new(
        handle: Handle,
        info: SessionInfo,
        events: Subscription,
        form: Form,
        (attendance, now): (Attendance, fn() -> Timestamp),
    ) -> Self {
        Self {
            handle,
            info,
            form,
            attendance,
            now,
            key_hints: Vec::new(),
            events,
            errands: Errands::default(),
            requests: Requests::default(),
            asking: Asking::default(),
            waits_elsewhere: false,
            ends_with_a_refusal: false,
            was_refused: false,
            unanswered: 0,
            held: VecDeque::new(),
            outstanding: 0,
            last_result: None,
            exit: Exit::Done,
            deadline: None,
            output_error: None,
            has_ended_input: false,
        }
    }

    /// Shows an event that was found before the watching began.
    pub fn show(&mut self, event: &Event, desk: &mut Desk) {
        self.output_error = self.form.event(event, &mut desk.console).err();
    }

    /// Sends a prompt and watches until its turn is over.
    pub async fn turn(&mut self, prompt: Prompt, desk: &mut Desk) -> Result<Exit, Failure> {
        self.exit = Exit::Done;
        self.deadline = None;
        self.prompt(prompt, desk);
        self.until_quiet(desk).await
    }

    /// Answers a request of a turn that a dead process left waiting, and watches that turn to its
    /// end.
    pub async fn carry_on(
        &mut self,
        open: Vec<Request>,
        (request, answer): (RequestId, Answer),
        desk: &mut Desk,
    ) -> Result<Exit, Failure> {
        self.exit = Exit::Done;
        self.outstanding = 1;
        self.ends_with_a_refusal = self.attendance == Attendance::Nobody;
        self.requests.answer(&request);
        self.errands.answer(&self.handle, &self.info.id, request, answer);
        self.form.begin(&mut desk.console);
        for request in open {
            self.form.knows(&request);
            self.requests.open(request);
        }
        self.until_quiet(desk).await
    }

    /// Tells whether the answer that was to carry a turn on was refused.
    pub fn was_refused(&self) -> bool {
        self.was_refused
    }

    /// Watches while a program sends prompts, answers and stops, until its input ends and the
    /// last turn is over.
    pub async fn converse(
        &mut self,
        first: Option<Prompt>,
        desk: &mut Desk,
    ) -> Result<Exit, Failure> {
        let mut has_prompted = first.is_some();
        if let Some(prompt) = first {
            self.prompt(prompt, desk);
        }
        while !self.has_ended_input || self.outstanding > 0 {
            let before = self.outstanding;
            self.step(desk).await?;
            has_prompted |= self.outstanding > before;
        }
        if !has_prompted {
            return Err(Failure::usage("standard input held no prompt"));
        }
        self.ended()
    }

    /// Shows events until one of this kind has come; what does not come soon comes with the next
    /// turn.
    pub async fn until(&mut self, kind: EventKind, desk: &mut Desk) -> Result<(), Failure> {
        let wait = async {
            loop {
                let delivery = self.events.next().await;
                let is_last = match &delivery {
                    Some(Delivery::Event(event)) => event.body.kind() == kind,
                    Some(Delivery::Gap { .. }) => false,
                    None => true,
                };
                self.delivered(delivery, desk)?;
                if is_last {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(EVENT_WAIT, wait).await.unwrap_or(Ok(()))
    }

    async fn until_quiet(&mut self, desk: &mut Desk) -> Result<Exit, Failure> {
        while self.outstanding > 0 {
            self.step(desk).await?;
        }
        self.ended()
    }

    fn ended(&mut self) -> Result<Exit, Failure> {
        match self.output_error.take() {
            // The reader went away: its wish, and the turn's own end says how that went.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(self.exit),
            Some(error) => Err(Failure::failed(format!("write standard output: {error}"))),
            None => Ok(self.exit),
        }
    }

    fn prompt(&mut self, prompt: Prompt, desk: &mut Desk) {
        self.outstanding += 1;
        self.errands.prompt(&self.handle, &self.info.id, prompt);
        if self.outstanding == 1 {
            self.form.begin(&mut desk.console);
        }
    }

    /// Waits for the next thing of any kind and deals with it.
    async fn step(&mut self, desk: &mut Desk) -> Result<(), Failure> {
        if !desk.input.is_waiting() || self.requests.first().is_none() || self.deadline.is_some() {
            self.show_held(desk)?;
        }
        self.deny_unanswerable(desk);
        self.tell_ways(desk);
        self.show_card(desk).await?;
        if self.outstanding == 0 && self.attendance != Attendance::Program {
            return Ok(());
        }
        let asks_person = self.asks_person();
        let reads_program = self.attendance == Attendance::Program
            && !self.has_ended_input
            && self.errands.len() < ERRANDS_MAX;
        let deadline = self.deadline.unwrap_or_else(Instant::now);
        let ask = if asks_person { self.asking.ask() } else { Ask::Line(String::new()) };
        let Desk { console: _, input, stops } = &mut *desk;
        tokio::select! {
            biased;
            _ = stops.next() => self.stop(desk),
            report = self.errands.next() => self.reported(report, desk),
            heard = input.next(ask), if asks_person || reads_program => {
                if asks_person { self.answered(heard, desk) } else { self.ordered(heard, desk) }
            }
            delivery = self.events.next(), if self.held.len() < HELD_MAX => {
                match asks_person {
                    true => self.held_back(delivery, desk),
                    false => self.delivered(delivery, desk),
                }
            }
            () = tokio::time::sleep_until(deadline), if self.deadline.is_some() => {
                desk.console.say("narthex: the turn did not end in time; leaving it");
                Err(Failure::stopped())
            }
        }
    }

    /// A first stop ends the turn, a second one the program.
    fn stop(&mut self, desk: &mut Desk) -> Result<(), Failure> {
        if self.deadline.is_some() || self.outstanding == 0 {
            return Err(Failure::stopped());
        }
        self.begin_stop(desk);
        Ok(())
    }

    fn begin_stop(&mut self, desk: &mut Desk) {
        self.has_ended_input = true;
        self.deadline = Some(Instant::now() + STOP_WAIT);
        self.form.stopping(&mut desk.console);
        self.errands.interrupt(&self.handle, &self.info.id, Interrupt::All);
    }

    fn reported(&mut self, report: Report, desk: &mut Desk) -> Result<(), Failure> {
        match report {
            Report::Prompt(Err(error)) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                let failure = Failure::from(error);
                if self.attendance != Attendance::Program {
                    return Err(failure);
                }
                self.exit = self.exit.then(failure.exit);
                self.notice("prompt_refused", &failure.message, desk);
            }
            Report::Answer(request, Err(error)) => return self.refused(&request, error, desk),
            Report::Interrupt(Err(error)) => return Err(error.into()),
            Report::Prompt(Ok(())) | Report::Answer(_, Ok(())) | Report::Interrupt(Ok(())) => {}
        }
        Ok(())
    }

    /// Keeps what comes while a card waits, so that the line under the card stays the person's;
    /// what settles the card comes through, after all that was kept.
    fn held_back(&mut self, delivery: Option<Delivery>, desk: &mut Desk) -> Result<(), Failure> {
        match delivery {
            Some(Delivery::Event(event)) if matches!(event.body, EventBody::ToolProgress(_)) => {}
            Some(delivery) if !self.settles_card(&delivery) => self.held.push_back(delivery),
            delivery => {
                self.show_held(desk)?;
                self.delivered(delivery, desk)?;
            }
        }
        Ok(())
    }

    /// Shows what came while a card waited.
    fn show_held(&mut self, desk: &mut Desk) -> Result<(), Failure> {
        while let Some(delivery) = self.held.pop_front() {
            self.delivered(Some(delivery), desk)?;
        }
        Ok(())
    }

    /// Tells whether a delivery decides the card that waits, or ends what it is about.
    fn settles_card(&self, delivery: &Delivery) -> bool {
        let Delivery::Event(event) = delivery else { return false };
        match &event.body {
            EventBody::RequestResolved(resolved) => self.requests.is_first(&resolved.request_id),
            EventBody::PromptFinished(_) => true,
            _ => false,
        }
    }

    fn delivered(&mut self, delivery: Option<Delivery>, desk: &mut Desk) -> Result<(), Failure> {
        let event = match delivery {
            Some(Delivery::Event(event)) => event,
            Some(Delivery::Gap { dropped }) => {
                self.notice("gap", &format!("{dropped} events were left out here"), desk);
                return Ok(());
            }
            None => return self.stream_ended(),
        };
        if self.output_error.is_none()
            && let Err(error) = self.form.event(&event, &mut desk.console)
        {
            self.output_error = Some(error);
            if !matches!(event.body, EventBody::Done(_)) && self.deadline.is_none() {
                self.begin_stop(desk);
            }
        }
        match &event.body {
            EventBody::RequestResolved(resolved) => self.resolved(resolved, desk),
            EventBody::ModeChanged(changed) => self.info.mode = changed.mode,
            EventBody::ModelChanged(changed) => self.info.model.clone_from(&changed.model),
            EventBody::Done(done) => {
                self.form.end(&done.result, &mut desk.console);
                show::say_key_hint(&done.result, &self.info, &self.key_hints, &mut desk.console);
                self.last_result = Some(done.result.clone());
            }
            EventBody::PromptFinished(finished) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.turn_ended(&finished.result);
                self.last_result = None;
            }
            body => {
                if let Some(request) = Request::of(body) {
                    self.requests.open(request);
                }
            }
        }
        Ok(())
    }

    fn stream_ended(&mut self) -> Result<(), Failure> {
        let Some(result) = self.last_result.take().filter(|_| self.outstanding == 1) else {
            return Err(Failure::failed("the session was closed before its turn ended"));
        };
        self.outstanding = 0;
        self.has_ended_input = true;
        self.turn_ended(&result);
        Ok(())
    }

    fn turn_ended(&mut self, result: &TurnResult) {
        let unanswered = std::mem::take(&mut self.unanswered);
        let exit = match Exit::of_turn(result) {
            // The runtime counts what it denied itself; these it took for a program's own no.
            Exit::Done if unanswered > 0 => Exit::Unanswered,
            exit => exit,
        };
        self.exit = self.exit.then(exit);
        self.requests = Requests::default();
        self.asking = Asking::default();
    }

    /// Obeys a line of a program. Not the turn but the line fails when it makes no sense.
    fn ordered(&mut self, heard: Heard, desk: &mut Desk) -> Result<(), Failure> {
        let order = match heard {
            Heard::Line(text) if text.trim().is_empty() => return Ok(()),
            Heard::Line(text) => line::read(&text),
            Heard::TooLong => Err("the line is longer than 32 MiB".to_owned()),
            Heard::Failed(error) => {
                self.has_ended_input = true;
                Err(format!("read standard input: {error}"))
            }
            Heard::Stale => return Ok(()),
            Heard::End | Heard::Interrupted => {
                self.has_ended_input = true;
                return Ok(());
            }
        };
        match order {
            Ok(Order::Prompt(prompt)) => self.prompt(prompt, desk),
            Ok(Order::Answer(request, answer)) => {
                self.requests.answer(&request);
                self.errands.answer(&self.handle, &self.info.id, request, answer);
            }
            Ok(Order::Interrupt) => {
                self.errands.interrupt(&self.handle, &self.info.id, Interrupt::Running);
            }
            Err(problem) => self.notice("invalid_input", &problem, desk),
        }
        Ok(())
    }

    /// Shows a notice of the door's own in the form of the output. It is no event of the log.
    fn notice(&mut self, code: &str, message: &str, desk: &mut Desk) {
        let notice = Notice {
            level: NoticeLevel::Error,
            code: Some(code.to_owned()),
            message: message.to_owned(),
        };
        let event = Event {
            body: notice.into(),
            session_id: self.info.id.clone(),
            seq: None,
            frame: FrameId::default(),
            ts: (self.now)(),
        };
        if self.output_error.is_none() {
            self.output_error = self.form.event(&event, &mut desk.console).err();
        }
    }
}
