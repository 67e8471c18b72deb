//! Going back: `narthex undo`, `narthex rewind`, and the point that a copy ends at.

mod points;
mod talk;

use protocol::event::RewindScope;
use protocol::{CheckpointId, Seq, SessionId};
use runtime_api::{AgentSettings, GoBack, Handle, PointInfo, WentBack};
use serde_json::{Value, json};
use terminal::{Console, Exit, Failure, Paint, escape};

use self::points::{list, named};
pub(crate) use self::talk::is_sure;
use crate::args::{BackOptions, Globals, RewindArgs, UndoArgs};
use crate::door::{Room, print, print_json};
use crate::machine::{House, Machine, Need};
use crate::session::{self, check_folder, find, house};

/// The setting without which nothing is captured.
const CAPTURING: &str = "checkpoints.enabled";
/// How many paths of one kind people are shown; a program gets all.
const PATHS_SHOWN: usize = 200;

/// Takes back what the newest turn did to the files.
pub(crate) async fn undo<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: UndoArgs,
) -> Result<Exit, Failure> {
    let house = house(room, globals, Need::StoredFiles).await?;
    let id = which(room, &house, args.session.as_deref()).await?;
    open(room, &house, &id).await?;
    let points = room.desk.stops.guard(house.handle.points(&id)).await?;
    let went = room.desk.stops.guard(house.handle.undo(&id, go_back(args.how))).await?;
    let label = went.point.as_ref().and_then(|id| points.iter().find(|point| point.id == *id));
    if args.how.json {
        return show_json(&id, &went, args.how, &mut room.desk.console);
    }
    let Some(point) = &went.point else {
        let mut words = format!("nothing to undo in session {id}");
        if !is_capturing(room, globals) {
            words.push_str(&format!("; checkpoints are off ({CAPTURING})"));
        }
        room.desk.console.say(&words);
        return Ok(Exit::Done);
    };
    let prompt = match label {
        Some(point) => named_by_its_prompt(point),
        None => format!("the prompt at {}", escape::line(point.as_str(), 80)),
    };
    let title =
        if args.how.dry_run { "undo would take back the changes" } else { "undone: the changes" };
    let title = format!("{title} of {prompt}");
    show(&title, &within(went, &house.cwd), args.how, &mut room.desk.console)
}

/// Tells whether files are captured here; so it is where that cannot be told.
fn is_capturing<M: Machine>(room: &Room<'_, M>, globals: &Globals) -> bool {
    let Ok((settings, _)) = room.machine.settings(globals) else { return true };
    !settings.iter().any(|setting| setting.key == CAPTURING && setting.value == "false")
}

/// Names a point by the prompt that it stands before.
fn named_by_its_prompt(point: &PointInfo) -> String {
    let label = escape::line(&point.label, 60);
    if label.is_empty() { "a prompt without words".to_owned() } else { format!("“{label}”") }
}

/// Goes back to a point, or lists the points.
pub(crate) async fn rewind<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: RewindArgs,
) -> Result<Exit, Failure> {
    let need = if args.list { Need::Archive } else { Need::StoredFiles };
    let house = house(room, globals, need).await?;
    let id = which(room, &house, args.session.as_deref()).await?;
    let points = room.desk.stops.guard(house.handle.points(&id)).await?;
    if args.list {
        return list(&points, args.how.json, (room.now)(), &mut room.desk.console);
    }
    let Some(given) = &args.point else {
        return talk::rewind(room, (&house, &id), &points, &args).await;
    };
    let point = named(&points, given)?.clone();
    open(room, &house, &id).await?;
    let scope = args.scope().unwrap_or(RewindScope::Both);
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

/// Says where one is now, or would be.
fn title(point: &PointInfo, scope: RewindScope, went: &WentBack, is_dry: bool) -> String {
    let what = match scope {
        RewindScope::Both => "conversation and files",
        RewindScope::Conversation => "the conversation",
        RewindScope::Files => "the files",
    };
    let label = named_by_its_prompt(point);
    let messages = match went.messages_removed {
        0 => String::new(),
        count => format!(", {} taken off", stdx::plural(count, "message")),
    };
    match is_dry {
        true => format!("{what} would be as before {label}{messages}"),
        false => format!("{what} are as before {label}{messages}"),
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
    let text = changes(went, console.data_paint());
    console.say(&format!("{title} ({})", counts(went)));
    print(console, &text)?;
    show_rest(went, options, console);
    Ok(exit(went, options))
}

/// Names the paths that changed, one a line.
fn changes(went: &WentBack, paint: Paint) -> String {
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
    text
}

/// Says what was kept and what nobody can bring back.
fn show_rest(went: &WentBack, options: BackOptions, console: &mut Console) {
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
