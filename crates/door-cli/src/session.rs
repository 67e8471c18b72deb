//! Which session a command is about, and how it is opened.

use std::path::Path;

use protocol::event::SessionStart;
use protocol::{
    Event, EventBody, FrameId, NeuronDriver, Refusal, RefusalCode, Seq, SessionId, Writes,
};
use runtime_api::{
    AgentSettings, CreateSession, Delivery, Error, Handle, Overflow, Position, SessionFilter,
    SessionInfo,
};
use terminal::tty::Kept;
use terminal::{Attendance, Console, Failure, Form, Watch, Words, escape};

use crate::args::Globals;
use crate::door::Room;
use crate::machine::{House, Machine, Need};
use crate::trust;

/// How far a session may run ahead of what the command line has shown.
const PACE: usize = 256;
/// How many sessions are looked through for the beginning of an id, or for one with a prompt.
const SESSIONS_SEARCHED: usize = 1000;

/// How much of a path is shown: the system lets none be longer.
const PATH_CHARS: usize = 4096;

/// Which session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// A new one.
    New,
    /// The newest of the folder.
    Newest,
    /// The one with this id, or with an id that begins so.
    Id(String),
}

/// Tells what a command needs for a session of this kind.
pub(crate) fn need_of(which: &Which) -> Need {
    if *which == Which::New { Need::NewSession } else { Need::StoredSessions }
}

/// Opens the session.
pub(crate) async fn open_in<M: Machine>(
    room: &mut Room<'_, M>,
    house: &House,
    which: Which,
    (form, attendance): (Form, Attendance),
) -> Result<Watch, Failure> {
    let agent = agent_of(house, attendance);
    match which {
        Which::New => create(room, house, agent, (form, attendance)).await,
        Which::Newest => {
            let info = newest(room, house).await?;
            reopen(room, house, (info.id, agent), (form, attendance)).await
        }
        Which::Id(id) => {
            let id = find(&house.handle, &id).await?;
            reopen(room, house, (id, agent), (form, attendance)).await
        }
    }
}

/// Tells how the agent is set up: somebody answers who sits here, or who has time to do it from
/// elsewhere.
pub(crate) fn agent_of(house: &House, attendance: Attendance) -> AgentSettings {
    let has_time = house.agent.interaction_timeout_ms > 0;
    let is_attended = attendance != Attendance::Nobody || has_time;
    AgentSettings { is_attended, ..house.agent.clone() }
}

/// Builds the runtime and says what the settings have to say. A project's file that nobody has
/// trusted yet is asked about where somebody sits at a terminal.
pub(crate) async fn house<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    need: Need,
) -> Result<House, Failure> {
    let mut house = build(room, globals, need).await?;
    let may_ask = matches!(need, Need::NewSession | Need::StoredSessions | Need::StoredFiles);
    if let Some(project) = house.untrusted.take().filter(|_| may_ask)
        && trust::is_granted(room, &project).await?
    {
        room.machine.trust_offered(globals, &project)?;
        for file in &project.files {
            let path = escape::line(&file.path.display().to_string(), PATH_CHARS);
            room.desk.console.say(&format!("trusted {path} as it was read"));
        }
        house.handle.shutdown().await;
        house = build(room, globals, need).await?;
    }
    say_all(&house.notices, &mut room.desk.console);
    Ok(house)
}

async fn build<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    need: Need,
) -> Result<House, Failure> {
    let house = room.desk.stops.guard(room.machine.open(globals, need)).await?;
    room.handle = Some(house.handle.clone());
    Ok(house)
}

/// Says what the settings have to say.
pub(crate) fn say_all(notices: &[String], console: &mut Console) {
    for notice in notices {
        terminal::say_notice(protocol::event::NoticeLevel::Warn, notice, console);
    }
}

/// Opens a further new session of the same settings.
pub(crate) async fn create<M>(
    room: &mut Room<'_, M>,
    house: &House,
    agent: AgentSettings,
    (form, attendance): (Form, Attendance),
) -> Result<Watch, Failure> {
    let handle = house.handle.clone();
    let session = CreateSession {
        cwd: house.cwd.clone(),
        model: house.model.clone(),
        mode: Some(house.mode),
        title: None,
        allow: Vec::new(),
        deny: Vec::new(),
        append_system_prompt: None,
        neuron: None,
        sandbox: house.sandbox,
        tools: None,
        asks_for: Vec::new(),
        max_turns: None,
        agent,
    };
    let stops = &mut room.desk.stops;
    let info = stops.guard(handle.create(session)).await?;
    let from = Position::From(Seq(1));
    let events = stops.guard(handle.subscribe(&info.id, from, Overflow::Pace(PACE))).await?;
    let mut watch = Watch::new(handle, info, events, form, (attendance, room.now));
    watch.key_hints.clone_from(&house.key_hints);
    watch.waits_elsewhere = house.agent.interaction_timeout_ms > 0;
    Ok(watch)
}

/// Has a person's lines typed into the line editor, where there is one. What is returned puts the
/// terminal back when it is dropped.
pub(crate) fn edits<M>(room: &mut Room<'_, M>, attendance: Attendance) -> Option<Kept> {
    let has_editor = room.desk.console.facts().has_line_editor;
    let is_edited = attendance == Attendance::Person && has_editor;
    if is_edited {
        room.desk.input.edit(None, Words::default());
    }
    is_edited.then(Kept::around_editor)
}

/// Opens a stored session with the rights that are said now.
pub(crate) async fn reopen<M>(
    room: &mut Room<'_, M>,
    house: &House,
    (id, agent): (SessionId, AgentSettings),
    (form, attendance): (Form, Attendance),
) -> Result<Watch, Failure> {
    let handle = house.handle.clone();
    let stops = &mut room.desk.stops;
    let stored = stops.guard(handle.info(&id)).await?;
    check_folder(&stored, house)?;
    check_sandbox(&stored, house)?;
    let mut info = stops.guard(handle.open(&id, agent)).await?;
    // Rights are what is said now: those that were given for another run do not come back.
    if house.mode != info.mode {
        stops.guard(handle.set_mode(&id, house.mode)).await?;
        info.mode = house.mode;
    }
    // A stored session keeps its own model unless somebody names another for this run.
    if let Some(model) = &house.asked_model
        && *model != info.model
    {
        stops.guard(handle.set_model(&id, model)).await?;
        info = stops.guard(handle.info(&id)).await?;
    }
    let start = match form.needs_start() {
        true => Some(stops.guard(start_of(&handle, &info)).await?),
        false => None,
    };
    let events = stops.guard(handle.subscribe(&id, Position::Live, Overflow::Pace(PACE))).await?;
    let mut watch = Watch::new(handle, info, events, form, (attendance, room.now));
    watch.key_hints.clone_from(&house.key_hints);
    watch.waits_elsewhere = house.agent.interaction_timeout_ms > 0;
    if let Some(event) = start {
        watch.show(&event, &mut room.desk);
    }
    Ok(watch)
}

/// Refuses a session of another folder: the rules and settings that were read are this folder's,
/// and a session must not run under those of a folder that it has nothing to do with.
pub(crate) fn check_folder(stored: &SessionInfo, house: &House) -> Result<(), Failure> {
    let is_here = stored.cwd == house.cwd
        || Path::new(&stored.cwd).canonicalize().is_ok_and(|real| real == Path::new(&house.cwd));
    if is_here {
        return Ok(());
    }
    let [folder, here] = [&stored.cwd, &house.cwd].map(|path| escape::line(path, PATH_CHARS));
    let id = &stored.id;
    Err(Failure::usage(format!(
        "session {id} works in {folder}, not in {here}; go there, or add: --cwd {}",
        quoted(&folder)
    )))
}

/// Refuses a flag that says something else than a stored session has: it keeps its sandbox.
fn check_sandbox(stored: &SessionInfo, house: &House) -> Result<(), Failure> {
    let has = stored.sandbox.map_or(NeuronDriver::Host, |sandbox| sandbox.driver);
    match house.sandbox {
        Some(asked) if asked != has => Err(Failure::usage(format!(
            "session {} was created with sandbox {} and keeps it; leave --sandbox out, or start \
             another session",
            stored.id,
            has.as_str()
        ))),
        _ => Ok(()),
    }
}

/// Says what keeps a session apart; nothing of one on the machine itself.
pub(crate) fn sandbox_words(info: &SessionInfo) -> Option<String> {
    let sandbox = info.sandbox?;
    let (driver, isolation) = (sandbox.driver.as_str(), sandbox.isolation.as_str());
    let writes = match sandbox.writes {
        Writes::Folder => "writes to the folder",
        Writes::Overlay => "writes to an overlay of the folder",
    };
    Some(format!("sandbox {driver}, isolation {isolation}, {writes}"))
}

/// Says what waits in the sandbox of a session, with how to see it.
pub(crate) fn waiting_words(info: &SessionInfo) -> Option<String> {
    let count = info.changes_waiting;
    (count > 0).then(|| {
        format!(
            "{} in the sandbox; to see and apply: narthex sessions apply {}",
            if count == 1 { "1 change waits".to_owned() } else { format!("{count} changes wait") },
            info.id
        )
    })
}

/// Says what waits in the sandbox of a session that was just used. Nothing depends on it, so that
/// a failure is none.
pub(crate) async fn say_what_waits(house: &House, info: &SessionInfo, console: &mut Console) {
    let is_overlaid = info.sandbox.is_some_and(|sandbox| sandbox.writes == Writes::Overlay);
    if !is_overlaid {
        return;
    }
    let Ok(info) = house.handle.info(&info.id).await else { return };
    if let Some(words) = waiting_words(&info) {
        console.say(&console.paint().dim(&words));
    }
}

/// Writes a folder so that a shell takes it for one word.
fn quoted(folder: &str) -> String {
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-');
    if folder.chars().all(is_plain) {
        return folder.to_owned();
    }
    format!("'{}'", folder.replace('\'', r"'\''"))
}

/// Returns the newest session of exactly this folder.
pub(crate) async fn newest<M>(
    room: &mut Room<'_, M>,
    house: &House,
) -> Result<SessionInfo, Failure> {
    let found = begun(room, house).await?;
    found.into_iter().next().ok_or_else(|| {
        Failure::usage(format!(
            "no session in {} to go on with; start one with: narthex run \"…\"",
            house.cwd
        ))
    })
}

/// Lists the sessions of exactly this folder in which something was said, newest first.
pub(crate) async fn begun<M>(
    room: &mut Room<'_, M>,
    house: &House,
) -> Result<Vec<SessionInfo>, Failure> {
    let cwd = Some(house.cwd.clone());
    let filter = SessionFilter { cwd, before: None, limit: SESSIONS_SEARCHED };
    let mut found = room.desk.stops.guard(house.handle.list(filter)).await?;
    found.retain(|info| info.prompts > 0);
    Ok(found)
}

/// Finds a session by its id, or by the beginning of its id where only one begins so.
pub(crate) async fn find(handle: &Handle, given: &str) -> Result<SessionId, Failure> {
    let id = SessionId::new(given);
    let refusal = match handle.info(&id).await {
        Ok(info) => return Ok(info.id),
        Err(Error::Refusal(refusal)) if refusal.code == RefusalCode::SessionNotFound => refusal,
        Err(error) => return Err(error.into()),
    };
    let all =
        handle.list(SessionFilter { cwd: None, before: None, limit: SESSIONS_SEARCHED }).await?;
    let mut like = all.into_iter().filter(|info| info.id.as_str().starts_with(given));
    match (given.is_empty(), like.next(), like.next()) {
        (false, Some(info), None) => Ok(info.id),
        (false, Some(_), Some(_)) => {
            let text = format!("more than one session begins with '{given}'");
            Err(Failure::usage(text))
        }
        _ => {
            let text = format!("{}; see: narthex sessions list --all", refusal.message);
            Err(Error::Refusal(Refusal::new(refusal.code, text)).into())
        }
    }
}

/// Makes the event with which a stream begins of a session that began long ago: its first event
/// where that can still be replayed, with the model and mode of now.
async fn start_of(handle: &Handle, info: &SessionInfo) -> Result<Event, Failure> {
    let from = Position::From(Seq(1));
    let mut events = handle.subscribe(&info.id, from, Overflow::Pace(1)).await?;
    let first = match events.next().await {
        Some(Delivery::Event(event)) => Some(event.body.clone()),
        Some(Delivery::Gap { .. }) | None => None,
    };
    let start = match first {
        Some(EventBody::SessionStart(start)) => {
            SessionStart { model: info.model.clone(), mode: info.mode, ..start }
        }
        _ => SessionStart {
            cwd: info.cwd.clone(),
            model: info.model.clone(),
            mode: info.mode,
            title: info.title.clone(),
            ..SessionStart::default()
        },
    };
    Ok(Event {
        body: start.into(),
        session_id: info.id.clone(),
        seq: None,
        frame: FrameId::default(),
        ts: info.updated_at,
    })
}
