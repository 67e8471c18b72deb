//! The cards that ask a person: may this call run, a question, a plan.

mod dialogue;
mod markdown;
mod permission;
mod plan;
mod question;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use protocol::event::{
    Answer, DecidedBy, InteractionKind, Outcome, PauseKind, PermissionRequest, PlanRequest,
    QuestionRequest, RequestResolved,
};
use protocol::{EventBody, RequestId, Timestamp};

use crate::{Paint, escape, number};

pub use self::dialogue::{Dialogue, Step};

/// How many characters the line of a request has at most.
const LINE_CHARS: usize = 200;

/// What waits for a person.
#[derive(Clone, Debug)]
pub enum Request {
    /// May this call run?
    Permission(Box<PermissionRequest>),
    /// A question of the model or of the runtime.
    Question(QuestionRequest),
    /// A plan to approve.
    Plan(PlanRequest),
}

/// How a card looks.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Its colours.
    pub paint: Paint,
    /// The width of the terminal.
    pub width: usize,
    /// The time, against which its own end is told.
    pub now: Timestamp,
    /// Which one it is, and of how many; told where there are several.
    pub place: (usize, usize),
}

impl Request {
    /// Takes the request out of an event, where it is one.
    pub fn of(body: &EventBody) -> Option<Self> {
        match body {
            EventBody::PermissionRequest(request) => {
                Some(Request::Permission(Box::new(request.clone())))
            }
            EventBody::QuestionRequest(request) => Some(Request::Question(request.clone())),
            EventBody::PlanRequest(request) => Some(Request::Plan(request.clone())),
            _ => None,
        }
    }

    /// Returns its id.
    pub fn id(&self) -> &RequestId {
        match self {
            Request::Permission(request) => &request.request_id,
            Request::Question(request) => &request.request_id,
            Request::Plan(request) => &request.request_id,
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> InteractionKind {
        match self {
            Request::Permission(_) => InteractionKind::Permission,
            Request::Question(_) => InteractionKind::Question,
            Request::Plan(_) => InteractionKind::Plan,
        }
    }

    /// Returns when it is decided against; none where it waits for ever.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Request::Permission(request) => request.expires_at,
            Request::Question(request) => request.expires_at,
            Request::Plan(request) => request.expires_at,
        }
    }

    /// Returns the answer that says no.
    pub fn no(&self) -> Answer {
        match self {
            Request::Permission(_) => Answer::Deny { feedback: None },
            Request::Question(_) => Answer::Dismissed,
            Request::Plan(_) => Answer::Rejected { feedback: None },
        }
    }

    /// Says in one line what is asked.
    pub fn line(&self) -> String {
        match self {
            Request::Permission(request) => {
                let name = escape::line(&request.tool_name, 80);
                format!("{name}: {}", escape::line(&request.target.summary, LINE_CHARS))
            }
            Request::Question(request) => escape::line(&request.question, LINE_CHARS),
            Request::Plan(request) => {
                let title = request.plan.lines().map(|line| line.trim_start_matches(['#', ' ']));
                let title = title.into_iter().find(|line| !line.trim().is_empty());
                escape::line(title.unwrap_or("(an empty plan)"), LINE_CHARS)
            }
        }
    }

    /// Draws what is asked, whole, without what one can say.
    pub fn show(&self, look: Look) -> String {
        let mut card = String::new();
        match self {
            Request::Permission(request) => {
                permission::body(&mut card, request, look, permission::Extent::Whole);
            }
            Request::Question(request) => question::body(&mut card, request, look),
            Request::Plan(request) => plan::body(&mut card, request, look, plan::WHOLE),
        }
        card.truncate(card.trim_end().len());
        card
    }
}

/// Says what became of a request that was decided elsewhere.
pub fn decided(resolved: &RequestResolved) -> String {
    let what = match resolved.outcome {
        Outcome::AllowOnce => "allowed once",
        Outcome::AllowAlways => "allowed with a rule",
        Outcome::Deny => "denied",
        Outcome::Answered => "answered",
        Outcome::Dismissed => "dismissed",
        Outcome::Approved => "approved",
        Outcome::Rejected => "rejected",
    };
    match resolved.by {
        DecidedBy::Client => format!("{what} meanwhile, from elsewhere"),
        DecidedBy::Timeout => format!("{what}: nobody answered in time"),
        DecidedBy::Interrupt => format!("{what}: the turn was stopped"),
        DecidedBy::Policy => format!("{what} by policy"),
    }
}

fn put(card: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(card, "{line}");
}

/// Begins a card: its sign, its name, facts, and which of several it is.
fn begin(card: &mut String, name: &str, facts: &[String], look: Look) {
    let paint = look.paint;
    let mut line = format!("{} {}", paint.care("?"), paint.bold(name));
    for fact in facts {
        line.push_str(&format!(" · {fact}"));
    }
    let (number, count) = look.place;
    if count > 1 {
        line.push_str(&paint.dim(&format!(" · {number} of {count}")));
    }
    put(card, &line);
}

/// Says until when an answer counts, and what silence means.
fn end(card: &mut String, expires_at: Option<Timestamp>, silence: &str, look: Look) {
    if let Some(instant) = expires_at {
        let until = number::until(instant, look.now);
        put(card, &look.paint.dim(&format!("    until {until}; silence {silence}")));
    }
}

/// Names what the runtime itself asks about.
fn pause_name(about: PauseKind) -> &'static str {
    match about {
        PauseKind::Budget => "the budget is reached",
        PauseKind::Repetition => "the model goes round in circles",
    }
}
