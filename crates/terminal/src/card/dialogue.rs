//! What is said over a card, from its drawing to its answer.

use protocol::event::{Answer, PermissionRequest, Persist};

use super::{Look, Request, permission, plan, put, question};
use crate::{Ask, Paint, escape};

/// What is said of a rule that was wiped out.
const EMPTY_RULE: &str = "    an empty rule allows nothing; write one, or go back with Ctrl-C:";

/// What the person is asked now.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The card itself.
    Card,
    /// The rule, to be changed before it counts.
    Rule(String),
    /// For how long the changed rule is kept.
    Keep(String),
    /// Nothing was said to a question: does that dismiss it?
    Dismiss,
}

/// What comes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The answer.
    Answer(Answer),
    /// These words are shown, then the next line is asked for.
    Say(String),
    /// The card is drawn again, after these words where there are some.
    Card(Option<String>),
}

/// The talk about one request.
#[derive(Clone, Debug)]
pub struct Dialogue {
    request: Request,
    stage: Stage,
    /// The rule that was written by hand and sent.
    written: Option<String>,
    has_full_auto: bool,
}

impl Dialogue {
    /// Begins with the card.
    pub fn new(request: Request) -> Self {
        Self { request, stage: Stage::Card, written: None, has_full_auto: true }
    }

    /// Returns the request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Draws the card with what one can say.
    pub fn draw(&self, look: Look) -> String {
        let mut card = String::new();
        let paint = look.paint;
        match &self.request {
            Request::Permission(request) => {
                permission::body(&mut card, request, look, permission::Extent::Card);
                permission::keys(&mut card, request, paint);
            }
            Request::Question(request) => {
                question::body(&mut card, request, look);
                question::keys(&mut card, request, paint);
            }
            Request::Plan(request) => {
                plan::body(&mut card, request, look, plan::ON_CARD);
                plan::keys(&mut card, self.has_full_auto);
            }
        }
        card.pop();
        card
    }

    /// Returns how the next line is asked for.
    pub fn ask(&self) -> Ask {
        match &self.stage {
            Stage::Card | Stage::Keep(_) | Stage::Dismiss => Ask::Answer("  › ".to_owned()),
            Stage::Rule(rule) => Ask::Edit("  rule › ".to_owned(), rule.clone()),
        }
    }

    /// Takes a line.
    pub fn hear(&mut self, line: &str, paint: Paint) -> Step {
        let said = line.trim();
        match std::mem::replace(&mut self.stage, Stage::Card) {
            Stage::Card => self.hear_card(said, paint),
            Stage::Rule(rule) => {
                if said.is_empty() {
                    self.stage = Stage::Rule(rule);
                    return Step::Say(EMPTY_RULE.to_owned());
                }
                let rule = said.to_owned();
                let shown = paint.mark(&escape::line(&rule, 200));
                self.stage = Stage::Keep(rule);
                Step::Say(keep(&shown))
            }
            Stage::Keep(rule) => {
                let persist = match said.to_ascii_lowercase().as_str() {
                    "" | "s" | "a" => Persist::Session,
                    "p" => Persist::Project,
                    "u" => Persist::User,
                    "n" => return Step::Card(None),
                    _ => {
                        let shown = paint.mark(&escape::line(&rule, 200));
                        self.stage = Stage::Keep(rule);
                        let keys = "    s, p, u or n, please: that is none of these keys";
                        return Step::Say(format!("{keys}\n{}", keep(&shown)));
                    }
                };
                self.written = Some(rule.clone());
                Step::Answer(Answer::AllowAlways { rule: Some(rule), persist })
            }
            Stage::Dismiss if said.is_empty() => Step::Answer(Answer::Dismissed),
            Stage::Dismiss => self.hear_card(said, paint),
        }
    }

    /// Steps back to the card when the person does not want to finish a rule; false when there
    /// is nothing to step back from.
    pub fn steps_back(&mut self) -> bool {
        std::mem::replace(&mut self.stage, Stage::Card) != Stage::Card
    }

    /// Begins again after the answer was refused. A rule written by hand is offered to be written
    /// better; else the card comes again. `is_locked` says that a policy refused it.
    pub fn again(&mut self, is_locked: bool) -> Step {
        if is_locked && matches!(self.request, Request::Plan(_)) {
            self.has_full_auto = false;
        }
        match self.written.take() {
            Some(rule) if !is_locked => {
                self.stage = Stage::Rule(rule);
                Step::Say("    the rule once more, Enter takes it as it is:".to_owned())
            }
            _ => Step::Card(None),
        }
    }

    fn hear_card(&mut self, said: &str, paint: Paint) -> Step {
        match &self.request {
            Request::Permission(request) => match permit(said, request) {
                Ok(Permit::Answer(answer)) => Step::Answer(answer),
                Ok(Permit::Edit(rule)) => {
                    self.stage = Stage::Rule(rule);
                    Step::Say(edit(request, paint))
                }
                Ok(Permit::Nothing) => Step::Card(None),
                Err(problem) => Step::Card(Some(problem.to_owned())),
            },
            Request::Question(request) if request.about.is_some() => {
                match question::read_pause(said, request) {
                    Some(answer) => Step::Answer(answer),
                    None => Step::Card(Some("y or n, please".to_owned())),
                }
            }
            Request::Question(_) if said.is_empty() => {
                self.stage = Stage::Dismiss;
                Step::Say("    Enter again dismisses the question".to_owned())
            }
            Request::Question(request) => match question::read(said, request) {
                Ok(answer) => Step::Answer(answer),
                Err(problem) => Step::Card(Some(problem)),
            },
            Request::Plan(_) => match plan::read(said, self.has_full_auto) {
                Some(answer) => Step::Answer(answer),
                None if said.is_empty() => Step::Card(None),
                None => Step::Card(Some("that is none of the keys".to_owned())),
            },
        }
    }
}

fn keep(rule: &str) -> String {
    let mut text = String::new();
    put(&mut text, &format!("    allow {rule}"));
    text.push_str("    for: s this session (Enter) · p this project · u everywhere · n not at all");
    text
}

/// Introduces the rule that is edited, with the wider ones that were suggested.
fn edit(request: &PermissionRequest, paint: Paint) -> String {
    let mut text = String::new();
    let others: Vec<String> = request
        .suggested_rules
        .iter()
        .skip(1)
        .map(|rule| paint.mark(&escape::line(rule, 200)))
        .collect();
    if !others.is_empty() {
        put(&mut text, &format!("    also possible: {}", others.join(" · ")));
    }
    text.push_str("    the rule to allow from now on; Enter takes it as it stands:");
    text
}

enum Permit {
    Answer(Answer),
    Edit(String),
    Nothing,
}

/// Reads what was said to a permission request.
fn permit(said: &str, request: &PermissionRequest) -> Result<Permit, &'static str> {
    let rule = || {
        let first = request.suggested_rules.first().cloned();
        first.ok_or("there is no rule to suggest here; y, n or words")
    };
    let always = |persist| {
        rule().map(|rule| Permit::Answer(Answer::AllowAlways { rule: Some(rule), persist }))
    };
    Ok(match said.to_ascii_lowercase().as_str() {
        "" => Permit::Nothing,
        "y" | "yes" => Permit::Answer(Answer::AllowOnce),
        "a" | "always" => return always(Persist::Session),
        "p" => return always(Persist::Project),
        "u" => return always(Persist::User),
        "e" => Permit::Edit(rule()?),
        "n" | "no" => Permit::Answer(Answer::Deny { feedback: None }),
        // A slip of the finger is no instruction to the model.
        slip if slip.chars().count() == 1 => return Err("that is none of the keys"),
        _ => {
            let feedback = Some(permission::words_after_no(said).to_owned());
            Permit::Answer(Answer::Deny { feedback })
        }
    })
}
