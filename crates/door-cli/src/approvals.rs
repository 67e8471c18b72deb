//! `narthex approvals`: what waits for an answer, seen and answered from any terminal.

use protocol::event::{Answer, InteractionKind, Persist, QuestionRequest};
use protocol::{Mode, Refusal, RefusalCode, Timestamp};
use runtime_api::{Error, Handle, Pending};
use serde_json::{Value, json};
use terminal::card::{Look, Request};
use terminal::{Attendance, Console, Exit, Failure, Form, escape};

use crate::args::{ApprovalsAction, Decide, Globals, PersistLevel, Verdict};
use crate::door::{Room, print, print_json};
use crate::machine::{Machine, Need};
use crate::session::{self, find, house};

/// Does what is asked with what waits.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    action: ApprovalsAction,
) -> Result<Exit, Failure> {
    let handle = house(room, globals, Need::Archive).await?.handle;
    match action {
        ApprovalsAction::List { json, session } => {
            let session = match session {
                Some(given) => Some(find(&handle, &given).await?),
                None => None,
            };
            let all = handle.pending(session.as_ref());
            let found: Vec<Waiting> =
                room.desk.stops.guard(all).await?.into_iter().filter_map(Waiting::of).collect();
            list(&found, json, (room.now)(), &mut room.desk.console)
        }
        ApprovalsAction::Show { id } => {
            let waiting = one(room, &handle, &id).await?;
            let console = &mut room.desk.console;
            let look = Look {
                paint: console.data_paint(),
                width: console.width(),
                now: (room.now)(),
                place: (1, 1),
            };
            let card = waiting.request.show(look);
            let age = match terminal::age(waiting.pending.since, look.now) {
                now if now == "just now" => now,
                age => format!("{age} ago"),
            };
            let place = format!("asked {age} · {}", waiting.place());
            print(console, &format!("{card}\n    {}\n", look.paint.dim(&place)))
        }
        ApprovalsAction::Decide(decide) => {
            let waiting = one(room, &handle, &decide.id).await?;
            let answer = answer(&decide, globals.mode, &waiting.request)?;
            if waiting.pending.owner_pid.is_some() {
                by_letter(room, &handle, &waiting, answer).await
            } else {
                carry_on(room, globals, &waiting, answer).await
            }
        }
    }
}

/// A request that waits, with its session.
#[derive(Debug)]
struct Waiting {
    pending: Pending,
    request: Request,
}

impl Waiting {
    fn of(pending: Pending) -> Option<Self> {
        let request = Request::of(&pending.request)?;
        Some(Self { pending, request })
    }

    /// Says where it waits.
    fn place(&self) -> String {
        let Pending { session, cwd, title, owner_pid, .. } = &self.pending;
        let title = escape::line(title.as_deref().unwrap_or("(no title)"), 60);
        let folder = escape::line(cwd, 200);
        let owner = match owner_pid {
            Some(_) => "",
            None => " · its process has ended",
        };
        format!("{title} · {folder} · session {session}{owner}")
    }
}

fn list(
    found: &[Waiting],
    is_json: bool,
    now: Timestamp,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if is_json {
        let approvals: Vec<Value> = found.iter().map(to_json).collect();
        return print_json(console, &json!({ "approvals": approvals }).to_string());
    }
    if found.is_empty() {
        console.say("nothing waits for an answer");
        return Ok(Exit::Done);
    }
    let paint = console.data_paint();
    let mut text = String::new();
    for waiting in found {
        let kind = waiting.request.kind().as_str();
        let age = terminal::age(waiting.pending.since, now);
        let id = escape::line(waiting.request.id().as_str(), 80);
        let line = waiting.request.line();
        text.push_str(&format!("{id}  {kind:<10}  {age:>8}  {}\n", paint.bold(&line)));
        let expires = match waiting.request.expires_at() {
            Some(instant) => format!(" · until {}", terminal::until(instant, now)),
            None => String::new(),
        };
        text.push_str(&format!("    {}\n", paint.dim(&format!("{}{expires}", waiting.place()))));
    }
    print(console, &text)?;
    console.say(&console.paint().dim("answer one: narthex approvals decide ID allow|deny|…"));
    Ok(Exit::Done)
}

fn to_json(waiting: &Waiting) -> Value {
    let Pending { session, cwd, title, since, owner_pid, request } = &waiting.pending;
    json!({
        "requestId": waiting.request.id(),
        "kind": waiting.request.kind(),
        "sessionId": session,
        "title": title,
        "cwd": cwd,
        "summary": waiting.request.line(),
        "since": since,
        "expiresAt": waiting.request.expires_at(),
        "ownerPid": owner_pid,
        "request": request,
    })
}

/// Finds a request that waits by its id, or by the beginning of its id where only one begins so.
async fn one<M>(room: &mut Room<'_, M>, handle: &Handle, given: &str) -> Result<Waiting, Failure> {
    let all = room.desk.stops.guard(handle.pending(None)).await?;
    let mut like: Vec<Waiting> = all
        .into_iter()
        .filter_map(Waiting::of)
        .filter(|waiting| waiting.request.id().as_str().starts_with(given))
        .collect();
    if let Some(place) = like.iter().position(|waiting| waiting.request.id().as_str() == given) {
        return Ok(like.swap_remove(place));
    }
    match (given.is_empty(), like.pop(), like.is_empty()) {
        (false, Some(waiting), true) => Ok(waiting),
        (false, Some(_), false) => {
            Err(Failure::usage(format!("more than one request begins with '{given}'")))
        }
        _ => {
            let text = format!(
                "no request {given} waits for an answer; it may be decided already, see: narthex \
                 approvals list"
            );
            Err(Error::Refusal(Refusal::new(RefusalCode::RequestNotFound, text)).into())
        }
    }
}

/// Makes the answer, or says which ones fit.
fn answer(decide: &Decide, mode: Option<Mode>, request: &Request) -> Result<Answer, Failure> {
    let feedback = decide.feedback.clone();
    let answer = match (decide.verdict, request) {
        (Verdict::Allow, _) => Answer::AllowOnce,
        (Verdict::Always, _) => {
            let persist = match decide.persist {
                None | Some(PersistLevel::Session) => Persist::Session,
                Some(PersistLevel::Project) => Persist::Project,
                Some(PersistLevel::User) => Persist::User,
            };
            Answer::AllowAlways { rule: decide.rule.clone(), persist }
        }
        (Verdict::Deny, _) => Answer::Deny { feedback },
        (Verdict::Approve, _) => Answer::Approved { mode },
        (Verdict::Reject, _) => Answer::Rejected { feedback },
        (Verdict::Dismiss, _) => Answer::Dismissed,
        (Verdict::Choose, Request::Question(question)) => {
            let chosen = decide.option.iter().map(|given| option(given, question));
            Answer::Chosen {
                answers: chosen.collect::<Result<_, _>>()?,
                other: decide.other.clone(),
            }
        }
        (Verdict::Choose, _) => Answer::Chosen { answers: Vec::new(), other: None },
    };
    if answer.kind() == request.kind() {
        return Ok(answer);
    }
    let (what, words) = match request.kind() {
        InteractionKind::Permission => ("asks for a permission", "allow, always or deny"),
        InteractionKind::Question => ("asks a question", "choose or dismiss"),
        InteractionKind::Plan => ("asks about a plan", "approve or reject"),
    };
    let word = decide.verdict.as_str();
    Err(Failure::usage(format!("{} {what}: {words} answers it, not {word}", request.id())))
}

/// Finds an option by its id, its label or its number.
fn option(given: &str, question: &QuestionRequest) -> Result<String, Failure> {
    let options = &question.options;
    let by_number = || options.get(given.parse::<usize>().ok()?.checked_sub(1)?);
    let found = options
        .iter()
        .find(|option| option.id == given)
        .or_else(|| options.iter().find(|it| it.label.trim().eq_ignore_ascii_case(given.trim())))
        .or_else(by_number);
    found.map(|option| option.id.clone()).ok_or_else(|| {
        let known = options.iter().enumerate();
        let known: Vec<String> =
            known.map(|(place, option)| format!("{} {}", place + 1, option.label)).collect();
        Failure::usage(format!("--option {given}: there are: {}", known.join(", ")))
    })
}

/// Leaves the answer for the process that runs the session.
async fn by_letter<M>(
    room: &mut Room<'_, M>,
    handle: &Handle,
    waiting: &Waiting,
    answer: Answer,
) -> Result<Exit, Failure> {
    let said = told(&answer);
    let id = waiting.request.id();
    let sent = handle.answer(&waiting.pending.session, id, answer);
    room.desk.stops.guard(sent).await?;
    let owner = match waiting.pending.owner_pid {
        Some(pid) => format!("; process {pid} goes on"),
        None => String::new(),
    };
    room.desk.console.say(&format!("{said}: {}{owner}", waiting.request.line()));
    Ok(Exit::Done)
}

/// Says what an answer does.
fn told(answer: &Answer) -> String {
    match answer {
        Answer::AllowOnce | Answer::AllowSaying { .. } => "allowed once".to_owned(),
        Answer::AllowAlways { rule, persist } => {
            let scope = match persist {
                Persist::Session => "in this session",
                Persist::Project => "in this project",
                Persist::User => "everywhere",
            };
            match rule {
                Some(rule) => format!("allowed {scope} with {}", escape::line(rule, 200)),
                None => format!("allowed {scope}"),
            }
        }
        Answer::Deny { .. } => "denied".to_owned(),
        Answer::Chosen { .. } => "answered".to_owned(),
        Answer::Dismissed => "dismissed".to_owned(),
        Answer::Approved { mode } => {
            format!("approved, going on in mode {}", mode.unwrap_or_default())
        }
        Answer::Rejected { .. } => "rejected".to_owned(),
    }
}

/// Opens a session that nobody runs, answers, and carries its turn on to the end.
async fn carry_on<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    waiting: &Waiting,
    answer: Answer,
) -> Result<Exit, Failure> {
    if let Some(archive) = room.handle.take() {
        archive.shutdown().await;
    }
    let folder = &waiting.pending.cwd;
    let mode = match &answer {
        // The mode is part of the answer and set by it.
        Answer::Approved { .. } => None,
        _ => globals.mode,
    };
    let globals = Globals { cwd: Some(folder.into()), mode, ..globals.clone() };
    let facts = *room.desk.console.facts();
    let attendance = Attendance::of(&facts);
    let _kept = session::edits(room, attendance);
    let mut house = house(room, &globals, Need::StoredSessions).await?;
    house.agent.carries_on = true;
    let id = &waiting.pending.session;
    let shown = escape::line(folder, 200);
    let words = format!("nobody runs this session any more; carrying it on here, in {shown}");
    room.desk.console.say(&words);
    let agent = session::agent_of(&house, attendance);
    let seat = (Form::new(terminal::OutputFormat::Text), attendance);
    let mut watch = session::reopen(room, &house, (id.clone(), agent), seat).await?;
    // Read after the watching began, so that none is missed.
    let open = room.desk.stops.guard(house.handle.pending(Some(id))).await?;
    let open: Vec<Request> = open.iter().filter_map(|it| Request::of(&it.request)).collect();
    let said = format!("the answer to {}: {}", waiting.request.line(), told(&answer));
    room.desk.console.say(&said);
    let request = waiting.request.id().clone();
    let carried = watch.carry_on(open, (request, answer), &mut room.desk).await;
    if watch.was_refused() {
        // Nobody answered yet: it goes on waiting for a better answer.
        room.leave_waiting();
    }
    carried
}
