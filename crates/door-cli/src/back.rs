//! Going back: `narthex undo`, `narthex rewind`, and the point that a copy ends at.

use protocol::event::RewindScope;
use protocol::{CheckpointId, Refusal, RefusalCode, Seq, SessionId, Timestamp};
use runtime_api::{AgentSettings, Error, GoBack, Handle, PointInfo, WentBack};
use serde_json::{Value, json};
use terminal::{Ask, Console, Exit, Failure, Heard, Paint, escape};

use crate::args::{BackOptions, Globals, RewindArgs, UndoArgs};
use crate::door::{Room, print, print_json};
use crate::machine::{House, Machine, Need};
use crate::session::{self, check_folder, find, house};

/// How many points are offered: what fits on a screen. A list shows all.
const OFFERED: usize = 15;
/// How many paths of one kind people are shown; a program gets all.
const PATHS_SHOWN: usize = 200;

/// Takes back what the newest turn did to the files.
pub(crate) async fn undo<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: UndoArgs,
) -> Result<Exit, Failure> {
    let house = house(room, globals, Need::StoredSessions).await?;
    let id = which(room, &house, args.session.as_deref()).await?;
    open(room, &house, &id).await?;
    let points = room.desk.stops.guard(house.handle.points(&id)).await?;
    let went = room.desk.stops.guard(house.handle.undo(&id, go_back(args.how))).await?;
    let label = went.point.as_ref().and_then(|id| points.iter().find(|point| point.id == *id));
    let console = &mut room.desk.console;
    if args.how.json {
        return show_json(&id, &went, args.how, console);
    }
    if went.point.is_none() {
        console.say(&format!("nothing to undo in session {id}"));
        return Ok(Exit::Done);
    }
    let what =
        label.map_or_else(String::new, |point| format!(" of “{}”", escape::line(&point.label, 60)));
    let title =
        if args.how.dry_run { "undo would take back the changes" } else { "undone: the changes" };
    show(&format!("{title}{what}"), &within(went, &house.cwd), args.how, console)
}

/// Goes back to a point, or lists the points.
pub(crate) async fn rewind<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: RewindArgs,
) -> Result<Exit, Failure> {
    let need = if args.list { Need::Archive } else { Need::StoredSessions };
    let house = house(room, globals, need).await?;
    let id = which(room, &house, args.session.as_deref()).await?;
    let points = room.desk.stops.guard(house.handle.points(&id)).await?;
    if args.list {
        return list(&points, args.how.json, (room.now)(), &mut room.desk.console);
    }
    let point = match &args.point {
        Some(given) => named(&points, given)?.clone(),
        None => match pick(room, &points).await? {
            Some(point) => point,
            None => return Ok(Exit::Done),
        },
    };
    open(room, &house, &id).await?;
    let scope = args.scope();
    let work = house.handle.rewind(&id, &point.id, scope, go_back(args.how));
    let went = room.desk.stops.guard(work).await?;
    let console = &mut room.desk.console;
    if args.how.json {
        return show_json(&id, &went, args.how, console);
    }
    let title = title(&point, scope, &went, args.how.dry_run);
    show(&title, &within(went, &house.cwd), args.how, console)
}

/// Returns the last event before a point.
pub(crate) async fn before(
    handle: &Handle,
    session: &SessionId,
    given: &str,
) -> Result<Seq, Failure> {
    let points = handle.points(session).await?;
    let point = named(&points, given)?;
    Ok(Seq(point.seq.0.saturating_sub(1)))
}

fn go_back(options: BackOptions) -> GoBack {
    GoBack { is_forced: options.force, is_dry: options.dry_run }
}

/// Finds the session that is meant: the named one, or the newest of the folder.
async fn which<M>(
    room: &mut Room<'_, M>,
    house: &House,
    given: Option<&str>,
) -> Result<SessionId, Failure> {
    let Some(given) = given else { return Ok(session::newest(room, house).await?.id) };
    let id = find(&house.handle, given).await?;
    let info = room.desk.stops.guard(house.handle.info(&id)).await?;
    check_folder(&info, house)?;
    Ok(id)
}

/// Opens the session to go back in it. One that waits for an answer is left alone: opening it
/// would end its turn.
async fn open<M>(room: &mut Room<'_, M>, house: &House, id: &SessionId) -> Result<(), Failure> {
    let waiting = room.desk.stops.guard(house.handle.pending(Some(id))).await?;
    if !waiting.is_empty() {
        return Err(Failure::failed(format!(
            "session {id} waits for an answer; answer it first (narthex approvals list), or end \
             its turn (narthex resume {id})"
        )));
    }
    let agent = AgentSettings { is_attended: false, carries_on: false, ..house.agent.clone() };
    room.desk.stops.guard(house.handle.open(id, agent)).await?;
    Ok(())
}

/// Finds a point by its id, or by the beginning of its id where only one begins so.
fn named<'a>(points: &'a [PointInfo], given: &str) -> Result<&'a PointInfo, Failure> {
    let exact = points.iter().find(|point| point.id.as_str() == given);
    let mut like = points.iter().filter(|point| point.id.as_str().starts_with(given));
    match (exact, given.is_empty(), like.next(), like.next()) {
        (Some(point), ..) | (None, false, Some(point), None) => Ok(point),
        (None, false, Some(_), Some(_)) => {
            Err(Failure::usage(format!("more than one point begins with '{given}'")))
        }
        _ => {
            let text = format!("no point {given}; see: narthex rewind --list");
            Err(Error::Refusal(Refusal::new(RefusalCode::CheckpointNotFound, text)).into())
        }
    }
}

fn list(
    points: &[PointInfo],
    is_json: bool,
    now: Timestamp,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if is_json {
        let points: Vec<Value> = points.iter().map(point_to_json).collect();
        let text = json!({ "points": points }).to_string();
        return print_json(console, &text);
    }
    if points.is_empty() {
        console.say("there is no point to go back to yet");
        return Ok(Exit::Done);
    }
    let paint = console.data_paint();
    let text: String = points
        .iter()
        .map(|point| {
            let id = escape::line(point.id.as_str(), 80);
            format!("{id}  {}\n", line_of(point, now, paint))
        })
        .collect();
    print(console, &text)
}

/// Tells a point in one line: its age, what its turn did, its prompt.
fn line_of(point: &PointInfo, now: Timestamp, paint: Paint) -> String {
    let age = terminal::age(point.created_at, now);
    let files = match (point.has_files, point.files) {
        (false, _) => "–".to_owned(),
        (true, count) => stdx::plural(count, "file"),
    };
    let state = match (point.is_cut, point.is_undone) {
        (true, _) => paint.dim(" (rewound)"),
        (false, true) => paint.dim(" (undone)"),
        (false, false) => String::new(),
    };
    format!("{age:>8}  {files:>8}  {}{state}", escape::line(&point.label, 80))
}

fn point_to_json(point: &PointInfo) -> Value {
    json!({
        "id": point.id,
        "seq": point.seq,
        "createdAt": point.created_at,
        "messageId": point.message_id,
        "label": point.label,
        "files": point.files,
        "hasFiles": point.has_files,
        "isUndone": point.is_undone,
        "isCut": point.is_cut,
    })
}

/// Asks which point; none when nobody wants one.
async fn pick<M>(
    room: &mut Room<'_, M>,
    points: &[PointInfo],
) -> Result<Option<PointInfo>, Failure> {
    let facts = *room.desk.console.facts();
    if !facts.input_is_terminal || !facts.err_is_terminal {
        let text = "which point? name one: narthex rewind POINT (narthex rewind --list shows them)";
        return Err(Failure::usage(text));
    }
    let offered: Vec<&PointInfo> =
        points.iter().rev().filter(|point| !point.is_cut).take(OFFERED).collect();
    if offered.is_empty() {
        room.desk.console.say("there is no point to go back to yet");
        return Ok(None);
    }
    let (now, paint) = ((room.now)(), room.desk.console.paint());
    for (place, point) in offered.iter().enumerate() {
        room.desk.console.say(&format!("{:>3}  {}", place + 1, line_of(point, now, paint)));
    }
    loop {
        let desk = &mut room.desk;
        desk.input.forget();
        let ask = Ask::Answer("back to before which prompt (Enter: none)? ".to_owned());
        let heard = tokio::select! {
            biased;
            _ = desk.stops.next() => return Err(Failure::stopped()),
            heard = desk.input.next(ask) => heard,
        };
        let line = match heard {
            Heard::Line(line) => line,
            Heard::Stale => continue,
            _ => return Ok(None),
        };
        if line.trim().is_empty() {
            return Ok(None);
        }
        let place = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(point) = place.and_then(|place| offered.get(place)) {
            return Ok(Some((*point).clone()));
        }
        desk.console.say(&format!("a number from 1 to {}, please", offered.len()));
    }
}

/// Says where one is now, or would be.
fn title(point: &PointInfo, scope: RewindScope, went: &WentBack, is_dry: bool) -> String {
    let what = match scope {
        RewindScope::Both => "conversation and files",
        RewindScope::Conversation => "the conversation",
        RewindScope::Files => "the files",
    };
    let label = escape::line(&point.label, 60);
    let messages = match went.messages_removed {
        0 => String::new(),
        count => format!(", {} taken off", stdx::plural(count, "message")),
    };
    match is_dry {
        true => format!("{what} would be as before “{label}”{messages}"),
        false => format!("{what} are as before “{label}”{messages}"),
    }
}

/// Names the paths as they are seen from the folder.
fn within(mut went: WentBack, folder: &str) -> WentBack {
    let shorten = |path: &mut String| {
        let inner = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        if let Some(inner) = inner {
            *path = inner.to_owned();
        }
    };
    went.changed.iter_mut().for_each(|(_, path)| shorten(path));
    went.kept.iter_mut().for_each(|(path, _)| shorten(path));
    went
}

/// Says exactly what came back, what was kept, and what nobody can bring back.
fn show(
    title: &str,
    went: &WentBack,
    options: BackOptions,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let paint = console.data_paint();
    let mut text = String::new();
    for (mark, path) in went.changed.iter().take(PATHS_SHOWN) {
        let line = format!("{mark} {}", escape::line(path, 400));
        text.push_str(&match mark {
            '+' => paint.good(&line),
            '-' => paint.bad(&line),
            _ => paint.mark(&line),
        });
        text.push('\n');
    }
    if went.changed.len() > PATHS_SHOWN {
        text.push_str(&format!("… {} more\n", went.changed.len() - PATHS_SHOWN));
    }
    console.say(&format!("{title} ({})", counts(went)));
    print(console, &text)?;
    let paint = console.paint();
    if !went.kept.is_empty() {
        let hint = if options.force { "" } else { " (--force brings these back as well)" };
        console.say(&paint.care(&format!("kept as it is{hint}:")));
        for (path, reason) in went.kept.iter().take(PATHS_SHOWN) {
            let path = escape::line(path, 400);
            console.say(&format!("  {path}: {}", escape::line(reason, 400)));
        }
        if went.kept.len() > PATHS_SHOWN {
            console.say(&format!("  … {} more", went.kept.len() - PATHS_SHOWN));
        }
    }
    if !went.beyond.is_empty() {
        console.say(&paint.care("cannot be brought back:"));
        for sentence in &went.beyond {
            console.say(&format!("  {}", escape::line(sentence, 400)));
        }
    }
    Ok(exit(went, options))
}

fn counts(went: &WentBack) -> String {
    let count = |wanted: char| went.changed.iter().filter(|(mark, _)| *mark == wanted).count();
    let (back, older, gone) = (count('+'), count('~'), count('-'));
    let mut parts = Vec::new();
    for (count, words) in [(back, "back"), (older, "older again"), (gone, "gone again")] {
        if count > 0 {
            parts.push(format!("{count} {words}"));
        }
    }
    if parts.is_empty() {
        parts.push("no file changed".to_owned());
    }
    if !went.kept.is_empty() {
        parts.push(format!("{} kept", went.kept.len()));
    }
    parts.join(", ")
}

/// What was asked for failed where not one path could be brought back, though there were some.
fn exit(went: &WentBack, options: BackOptions) -> Exit {
    let did_nothing =
        went.changed.is_empty() && went.messages_removed == 0 && !went.kept.is_empty();
    if did_nothing && !options.dry_run { Exit::Failed } else { Exit::Done }
}

fn show_json(
    session: &SessionId,
    went: &WentBack,
    options: BackOptions,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let changed: Vec<Value> = went
        .changed
        .iter()
        .map(|(mark, path)| json!({ "change": mark.to_string(), "path": path }))
        .collect();
    let kept: Vec<Value> =
        went.kept.iter().map(|(path, reason)| json!({ "path": path, "reason": reason })).collect();
    let point: Option<&CheckpointId> = went.point.as_ref();
    let report = json!({
        "sessionId": session,
        "point": point,
        "dryRun": options.dry_run,
        "changed": changed,
        "kept": kept,
        "beyond": went.beyond,
        "messagesRemoved": went.messages_removed,
    });
    print_json(console, &report.to_string())?;
    Ok(exit(went, options))
}
