//! Going back at a terminal: which prompt, what of it, what would come of it, and whether.

use protocol::SessionId;
use protocol::event::RewindScope;
use runtime_api::{GoBack, PointInfo};
use terminal::{Ask, Attendance, Exit, Failure, Heard};

use super::points::{line_of, named, numbered};
use super::{changes, counts, go_back, open, show, show_json, show_rest, title, within};
use crate::args::RewindArgs;
use crate::door::Room;
use crate::machine::House;
use crate::session;

/// How many points are offered: what fits on a screen. `--list` shows all.
const OFFERED: usize = 15;

/// How many characters of an id are taken for one at the question, so that a slip is none.
const ID_CHARS_MIN: usize = 4;

/// Asks for all that is not said, shows what would change, and goes back after a yes.
pub(super) async fn rewind<M>(
    room: &mut Room<'_, M>,
    (house, id): (&House, &SessionId),
    points: &[PointInfo],
    args: &RewindArgs,
) -> Result<Exit, Failure> {
    let facts = *room.desk.console.facts();
    if !facts.input_is_terminal || !facts.err_is_terminal {
        let text = "which point? name one: narthex rewind POINT (narthex rewind --list shows them)";
        return Err(Failure::usage(text));
    }
    let _kept = session::edits(room, Attendance::Person);
    let Some(point) = which(room, points).await? else { return Ok(Exit::Done) };
    let scope = match args.scope() {
        Some(scope) => scope,
        None => match what(room).await? {
            Some(scope) => scope,
            None => return Ok(leaves(room)),
        },
    };
    open(room, house, id).await?;
    let dry = GoBack { is_dry: true, ..go_back(args.how) };
    let work = house.handle.rewind(id, &point.id, scope, dry);
    let went = within(room.desk.stops.guard(work).await?, &house.cwd);
    let console = &mut room.desk.console;
    console.say(&format!("{} ({})", title(&point, scope, &went, true), counts(&went)));
    let paths = changes(&went, console.paint());
    if !paths.is_empty() {
        console.say(paths.trim_end());
    }
    show_rest(&went, args.how, console);
    if args.how.dry_run {
        return match args.how.json {
            true => show_json(id, &went, args.how, console),
            false => Ok(Exit::Done),
        };
    }
    if !is_sure(room).await? {
        return Ok(leaves(room));
    }
    let work = house.handle.rewind(id, &point.id, scope, go_back(args.how));
    let went = room.desk.stops.guard(work).await?;
    let console = &mut room.desk.console;
    if args.how.json {
        return show_json(id, &went, args.how, console);
    }
    let title = title(&point, scope, &went, false);
    show(&title, &within(went, &house.cwd), args.how, console)
}

fn leaves<M>(room: &mut Room<'_, M>) -> Exit {
    room.desk.console.say("nothing was changed");
    Exit::Done
}

/// Asks which prompt; none when nobody wants one.
async fn which<M>(
    room: &mut Room<'_, M>,
    points: &[PointInfo],
) -> Result<Option<PointInfo>, Failure> {
    let offered = numbered(points).into_iter();
    let offered = offered.filter_map(|(number, point)| Some((number?, point)));
    let offered: Vec<(usize, &PointInfo)> = offered.take(OFFERED).collect();
    if offered.is_empty() {
        room.desk.console.say("there is no point to go back to yet");
        return Ok(None);
    }
    let (now, paint) = ((room.now)(), room.desk.console.paint());
    for (number, point) in &offered {
        room.desk.console.say(&format!("{number:>3}  {}", line_of(point, now, paint)));
    }
    loop {
        let said = ask(room, "back to before which prompt? (number, Enter leaves)").await?;
        let Some(said) = said.filter(|said| !said.is_empty()) else { return Ok(None) };
        let is_clear = said.parse::<usize>().is_ok() || said.len() >= ID_CHARS_MIN;
        match named(points, &said) {
            Ok(point) if is_clear => return Ok(Some(point.clone())),
            _ => {
                let words = format!("a number from 1 to {}, please", offered.len());
                room.desk.console.say(&words);
            }
        }
    }
}

/// Asks what of it; none when nobody wants any of it.
async fn what<M>(room: &mut Room<'_, M>) -> Result<Option<RewindScope>, Failure> {
    loop {
        let said = ask(room, "what? (Enter both · c conversation · f files · n nothing)").await?;
        let Some(said) = said else { return Ok(None) };
        match said.to_ascii_lowercase().as_str() {
            "" | "b" | "both" => return Ok(Some(RewindScope::Both)),
            "c" | "conversation" => return Ok(Some(RewindScope::Conversation)),
            "f" | "files" => return Ok(Some(RewindScope::Files)),
            "n" | "no" => return Ok(None),
            _ => room.desk.console.say("Enter, c, f or n, please"),
        }
    }
}

pub(crate) async fn is_sure<M>(room: &mut Room<'_, M>) -> Result<bool, Failure> {
    loop {
        let Some(said) = ask(room, "do it? (y/n)").await? else { return Ok(false) };
        match said.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => room.desk.console.say("y or n, please"),
        }
    }
}

/// Asks a question; none when nothing more comes. What was typed before it answers nothing.
async fn ask<M>(room: &mut Room<'_, M>, question: &str) -> Result<Option<String>, Failure> {
    loop {
        let desk = &mut room.desk;
        desk.console.say(question);
        desk.input.forget();
        let heard = tokio::select! {
            biased;
            _ = desk.stops.next() => return Err(Failure::stopped()),
            heard = desk.input.next(Ask::Answer("  › ".to_owned())) => heard,
        };
        match heard {
            Heard::Line(line) => return Ok(Some(line.trim().to_owned())),
            Heard::Stale => {}
            Heard::Interrupted => return Err(Failure::stopped()),
            Heard::End | Heard::TooLong | Heard::Failed(_) => return Ok(None),
        }
    }
}
