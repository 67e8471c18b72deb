//! `narthex sessions`: stored conversations.

mod apply;
mod file;
mod markdown;
mod transcript;

use std::io::Read;
use std::path::Path;

use protocol::{RefusalCode, Seq, SessionId, Timestamp};
use runtime_api::{Error, ExportedSession, ForkPoint, Handle, SessionFilter, SessionInfo};
use serde_json::{Value, json};
use terminal::{Console, Desk, Exit, Failure, escape};

use self::markdown::Numbers;
use crate::args::{ExportFormat, Globals, ListFormat, SessionsAction};
use crate::back;
use crate::door::{Room, print};
use crate::machine::{Machine, Need};
use crate::session::{find, house};

/// The limit of an imported file.
const IMPORT_BYTES_MAX: u64 = 512 << 20;

/// Does what is asked with stored sessions.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    action: SessionsAction,
) -> Result<Exit, Failure> {
    let house = house(room, globals, Need::Archive).await?;
    let handle = &house.handle;
    match action {
        SessionsAction::List { all, limit, output_format } => {
            let cwd = (!all).then(|| house.cwd.clone());
            let filter = SessionFilter { cwd, before: None, limit: limit.max(1) };
            let found = room.desk.stops.guard(handle.list(filter)).await?;
            let now = (room.now)();
            list(&found, output_format, now, &mut room.desk.console)
        }
        SessionsAction::Show { id, output_format } => {
            let id = find(handle, &id).await?;
            let mut session = export(handle, &id).await?;
            let info = room.desk.stops.guard(handle.info(&id)).await?;
            session.info.sandbox = info.sandbox;
            session.info.changes_waiting = info.changes_waiting;
            let messages = transcript::messages(&session.rows)?;
            let text = match output_format {
                ListFormat::Text => markdown::transcript(&session.info, &messages, Numbers::Shown),
                ListFormat::Json => {
                    let mut value = file::info_to_json(&session.info);
                    if let Value::Object(fields) = &mut value {
                        fields.insert("messages".to_owned(), json!(messages));
                    }
                    format!("{value}\n")
                }
            };
            print_foreign(&mut room.desk.console, &text)
        }
        SessionsAction::Export { id, format } => {
            let id = find(handle, &id).await?;
            let session = export(handle, &id).await?;
            let text = match format {
                ExportFormat::Md => {
                    let messages = transcript::messages(&session.rows)?;
                    markdown::transcript(&session.info, &messages, Numbers::Hidden)
                }
                ExportFormat::Jsonl => file::to_lines(&session)?,
                ExportFormat::Json => file::to_object(&session)?,
            };
            print_foreign(&mut room.desk.console, &text)
        }
        SessionsAction::Import { file, output_format } => {
            let text = read_import(&file, room).await?;
            let mut session = file::from_text(&text).map_err(|problem| {
                Failure::usage(format!("import {}: {problem}", file.display()))
            })?;
            session.info.cwd.clone_from(&house.cwd);
            let info = handle.import(session).await?;
            let folder = escape::line(&info.cwd, 400);
            let words = format!("imported into {folder} · mode {}", info.mode);
            room.desk.console.say(&words);
            tell(&info, output_format, &mut room.desk.console)
        }
        SessionsAction::Fork { id, until, at, output_format } => {
            let info = fork(handle, &id, until.map(Seq), at.as_deref()).await?;
            tell(&info, output_format, &mut room.desk.console)
        }
        SessionsAction::Apply(args) => apply::run(room, &house, args).await,
        SessionsAction::Rm { ids } => {
            for id in ids {
                let removed = handle.remove(&SessionId::new(&*id)).await;
                removed.map_err(needs_whole_id)?;
                room.desk.console.say(&format!("erased {}", escape::line(&id, 80)));
            }
            Ok(Exit::Done)
        }
    }
}

/// Copies a session up to an event or a point, where one is named.
async fn fork(
    handle: &Handle,
    given: &str,
    until: Option<Seq>,
    at: Option<&str>,
) -> Result<SessionInfo, Failure> {
    let id = find(handle, given).await?;
    let until = match at {
        Some(point) => Some(back::before(handle, &id, point).await?),
        None => until,
    };
    Ok(handle.fork(&id, until.map_or(ForkPoint::End, ForkPoint::Seq)).await?)
}

/// Reads a whole session, with the usage that its rows add up to.
async fn export(handle: &Handle, id: &SessionId) -> Result<ExportedSession, Failure> {
    let mut session = handle.export(id).await?;
    session.info.usage = transcript::usage(&session.rows);
    Ok(session)
}

/// Says of an id that is unknown what may be the matter: everywhere else its beginning is enough.
fn needs_whole_id(error: Error) -> Failure {
    let is_unknown =
        matches!(&error, Error::Refusal(no) if no.code == RefusalCode::SessionNotFound);
    let mut failure = Failure::from(error);
    if is_unknown {
        failure.message.push_str("; rm needs the whole id, see: narthex sessions list --all");
    }
    failure
}

fn list(
    found: &[SessionInfo],
    format: ListFormat,
    now: Timestamp,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match format {
        ListFormat::Json => {
            let sessions: Vec<Value> = found.iter().map(file::info_to_json).collect();
            print_foreign(console, &format!("{}\n", json!({ "sessions": sessions })))
        }
        ListFormat::Text if found.is_empty() => {
            console.say("no sessions here (narthex sessions list --all shows every folder's)");
            Ok(Exit::Done)
        }
        ListFormat::Text => {
            let lines: String =
                found.iter().map(|info| format!("{}\n", line_of(info, now))).collect();
            print(console, &lines)
        }
    }
}

/// Tells a session in one line.
pub(crate) fn line_of(info: &SessionInfo, now: Timestamp) -> String {
    let age = terminal::age(info.updated_at, now);
    let prompts = stdx::plural(info.prompts, "prompt");
    let owner = info.owner_pid.map_or_else(String::new, |pid| format!(" · open in process {pid}"));
    let title = escape::line(info.title.as_deref().unwrap_or("(no title)"), 60);
    let model = escape::line(&info.model, 60);
    let waiting = match info.changes_waiting {
        0 => String::new(),
        1 => " · 1 change waits".to_owned(),
        count => format!(" · {count} changes wait"),
    };
    format!("{}  {age:>9}  {prompts:>10}  {model}  {title}{owner}{waiting}", info.id)
}

/// Tells which session came of a copy: the id alone, so that scripts can take it.
fn tell(info: &SessionInfo, format: ListFormat, console: &mut Console) -> Result<Exit, Failure> {
    match format {
        ListFormat::Text => print(console, &format!("{}\n", info.id)),
        ListFormat::Json => print_foreign(console, &format!("{}\n", file::info_to_json(info))),
    }
}

fn print_foreign(console: &mut Console, text: &str) -> Result<Exit, Failure> {
    if console.facts().out_is_terminal {
        return print(console, &escape::text(text));
    }
    print(console, text)
}

async fn read_import<M>(path: &Path, room: &mut Room<'_, M>) -> Result<String, Failure> {
    if path == Path::new("-") {
        let Desk { input, stops, .. } = &mut room.desk;
        let read = async {
            let text = input.read_all().await;
            text.map_err(|error| Failure::usage(format!("read standard input: {error}")))
        };
        return stops.guard(read).await;
    }
    let shown = path.display();
    let problem = |error: std::io::Error| Failure::usage(format!("read {shown}: {error}"));
    let file = std::fs::File::open(path).map_err(problem)?;
    let mut text = String::new();
    file.take(IMPORT_BYTES_MAX + 1).read_to_string(&mut text).map_err(problem)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > IMPORT_BYTES_MAX) {
        let limit = stdx::bytes(IMPORT_BYTES_MAX);
        return Err(Failure::usage(format!("{shown} is larger than the limit of {limit}")));
    }
    Ok(text)
}
