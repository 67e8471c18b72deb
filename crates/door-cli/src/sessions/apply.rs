//! `narthex sessions apply`: what a session changed in its sandbox, brought over to the folder.

use protocol::SessionId;
use runtime_api::SessionInfo;
use runtime_api::neuron::{BringOver, BroughtOver, BroughtPath, Held, OverlayChange};
use serde_json::{Value, json};
use terminal::{Console, Exit, Failure, diff, escape};

use crate::args::ApplyArgs;
use crate::back;
use crate::door::{Room, print, print_json};
use crate::machine::House;
use crate::session::{self, find};

/// How much of a path is shown: the system lets none be longer.
const PATH_CHARS: usize = 4096;

/// How many paths of one kind people are shown without what is in them; a program gets all.
const PATHS_SHOWN: usize = 200;

/// Shows what waits, asks, and does it.
pub(super) async fn run<M>(
    room: &mut Room<'_, M>,
    house: &House,
    args: ApplyArgs,
) -> Result<Exit, Failure> {
    let id = which(room, house, args.id.as_deref()).await?;
    let look = BringOver { is_forced: args.force, is_dry: true };
    let waiting = room.desk.stops.guard(house.handle.bring_over(&id, look)).await?;
    if waiting.changed.is_empty() && waiting.kept.is_empty() {
        return nothing(room, &id, &args);
    }
    if args.dry_run {
        return match args.json {
            true => report(&id, &waiting, "dry_run", &mut room.desk.console),
            false => show(&waiting, &mut room.desk.console).map(|()| Exit::Done),
        };
    }
    if !args.json {
        show(&waiting, &mut room.desk.console)?;
    }
    if !args.yes && !is_granted(room, &waiting, args.discard).await? {
        room.desk.console.say("nothing was done; it waits on");
        return Ok(Exit::Done);
    }
    if args.discard {
        room.desk.stops.guard(house.handle.discard(&id)).await?;
        if args.json {
            return report(&id, &waiting, "discarded", &mut room.desk.console);
        }
        room.desk.console.say(&format!("thrown away: {}", counted(&waiting)));
        return Ok(Exit::Done);
    }
    // Not stopped half-way by a key: each path is whole all the same, but a report says more.
    let done = BringOver { is_forced: args.force, is_dry: false };
    let brought = house.handle.bring_over(&id, done).await?;
    if args.json {
        report(&id, &brought, "applied", &mut room.desk.console)?;
    } else {
        room.desk.console.say(&format!("applied: {}", counted(&brought)));
        if brought.kept != waiting.kept {
            tell_kept(&brought, &mut room.desk.console);
        }
        if !brought.kept.is_empty() {
            room.desk.console.say(
                "what was kept back waits on in the sandbox: --force applies it, --discard \
                 throws it away",
            );
        }
    }
    Ok(if brought.kept.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Says that nothing waits.
fn nothing<M>(room: &mut Room<'_, M>, id: &SessionId, args: &ApplyArgs) -> Result<Exit, Failure> {
    if args.json {
        return report(id, &BroughtOver::default(), "nothing", &mut room.desk.console);
    }
    room.desk.console.say(&format!("nothing waits in the sandbox of session {id}"));
    Ok(Exit::Done)
}

/// Finds the session that is meant.
async fn which<M>(
    room: &mut Room<'_, M>,
    house: &House,
    given: Option<&str>,
) -> Result<SessionId, Failure> {
    if let Some(given) = given {
        return find(&house.handle, given).await;
    }
    let found = session::begun(room, house).await?;
    let waits = |info: &&SessionInfo| info.changes_waiting > 0;
    let newest = found.iter().find(waits).or(found.iter().find(|info| info.sandbox.is_some()));
    newest.map(|info| info.id.clone()).ok_or_else(|| {
        let folder = escape::line(&house.cwd, PATH_CHARS);
        Failure::usage(format!(
            "no session of {folder} has a sandbox; one begins with: narthex run --sandbox \
             namespace \"…\""
        ))
    })
}

/// Asks whether to do it; where nobody sits at a terminal that is refused.
async fn is_granted<M>(
    room: &mut Room<'_, M>,
    waiting: &BroughtOver,
    is_discarded: bool,
) -> Result<bool, Failure> {
    let facts = *room.desk.console.facts();
    if !facts.input_is_terminal || !facts.err_is_terminal {
        return Err(Failure {
            exit: Exit::Unanswered,
            message: "nobody can be asked here: look with --dry-run, then add --yes".to_owned(),
        });
    }
    if waiting.changed.is_empty() && !is_discarded {
        room.desk.console.say("all of it is kept back; --force applies it");
        return Ok(false);
    }
    let what = match is_discarded {
        true => format!("throw away {}", counted(waiting)),
        false => format!("apply {}", counted(waiting)),
    };
    room.desk.console.say(&what);
    back::is_sure(room).await
}

/// Counts what is brought over.
fn counted(brought: &BroughtOver) -> String {
    let count = |change| brought.changed.iter().filter(|path| path.change == change).count();
    let kinds = [
        (count(OverlayChange::Added), "added"),
        (count(OverlayChange::Changed), "changed"),
        (count(OverlayChange::Removed), "removed"),
        (brought.kept.len(), "kept back"),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if told.is_empty() { "nothing".to_owned() } else { told.join(", ") }
}

/// Writes what waits, with every text as a diff.
fn show(brought: &BroughtOver, console: &mut Console) -> Result<(), Failure> {
    let paint = console.data_paint();
    let mut lines = String::new();
    for path in &brought.changed {
        let name = escape::line(&path.path.display().to_string(), PATH_CHARS);
        let sign = match path.change {
            OverlayChange::Added => paint.good("+"),
            OverlayChange::Changed => paint.mark("~"),
            OverlayChange::Removed => paint.bad("-"),
        };
        lines.push_str(&format!("{sign} {}{}\n", paint.bold(&name), about(path)));
        if let Some(text) = diff_of(path) {
            lines.push_str(&diff::whole(&text, paint));
            lines.push('\n');
        }
    }
    print(console, &lines)?;
    tell_kept(brought, console);
    Ok(())
}

fn tell_kept(brought: &BroughtOver, console: &mut Console) {
    let paint = console.paint();
    for kept in brought.kept.iter().take(PATHS_SHOWN) {
        let path = escape::line(&kept.path, PATH_CHARS);
        let why = escape::line(&kept.why, PATH_CHARS);
        console.say(&format!("{} kept back: {path}: {why}", paint.care("!")));
    }
    if let Some(rest) = brought.kept.len().checked_sub(PATHS_SHOWN).filter(|rest| *rest > 0) {
        console.say(&paint.dim(&format!("… and {rest} more that are kept back")));
    }
}

/// Says of a path that is no text what it is.
fn about(path: &BroughtPath) -> String {
    let one = |held: &Held| match held {
        Held::Nothing | Held::Text(_) => String::new(),
        Held::Bytes(count) => stdx::bytes(*count),
        Held::Link(target) => format!("a link to {}", escape::line(target, PATH_CHARS)),
        Held::Folder => "a folder".to_owned(),
        Held::Other => "a device, socket or pipe".to_owned(),
    };
    match (one(&path.old), one(&path.new)) {
        (old, new) if old.is_empty() && new.is_empty() => String::new(),
        (old, new) if old.is_empty() || old == new => format!("  {new}"),
        (old, new) if new.is_empty() => format!("  was {old}"),
        (old, new) => format!("  {new}, was {old}"),
    }
}

fn diff_of(path: &BroughtPath) -> Option<String> {
    let text = |held: &Held| match held {
        Held::Text(text) => Some(text.clone()),
        Held::Nothing => Some(String::new()),
        _ => None,
    };
    let (old, new) = (text(&path.old)?, text(&path.new)?);
    let name = path.path.display().to_string();
    Some(diff::between(&name, &old, &new)).filter(|diff| !diff.trim().is_empty())
}

/// Writes what was done for a program.
fn report(
    id: &SessionId,
    brought: &BroughtOver,
    outcome: &str,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let changes: Vec<Value> = brought
        .changed
        .iter()
        .map(|path| {
            let change = match path.change {
                OverlayChange::Added => "added",
                OverlayChange::Changed => "changed",
                OverlayChange::Removed => "removed",
            };
            json!({ "path": path.path.display().to_string(), "change": change,
                    "diff": diff_of(path) })
        })
        .collect();
    let kept: Vec<Value> =
        brought.kept.iter().map(|kept| json!({ "path": kept.path, "reason": kept.why })).collect();
    let whole = json!({ "sessionId": id, "outcome": outcome, "changes": changes, "kept": kept });
    print_json(console, &whole.to_string())
}
