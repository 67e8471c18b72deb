//! The question whether a project's files may do what they say.

use terminal::tty::Kept;
use terminal::{Ask, Failure, Heard, Words, escape};

use crate::door::Room;
use crate::machine::{UntrustedFile, UntrustedProject};

/// How much of a path is shown: the system lets none be longer.
const PATH_CHARS: usize = 4096;
/// How many lines of what a file would change are shown; all of it is a letter away.
const LINES_SHOWN: usize = 60;

/// Asks whether the files are trusted; never where nobody sits at a terminal.
pub(crate) async fn is_granted<M>(
    room: &mut Room<'_, M>,
    project: &UntrustedProject,
) -> Result<bool, Failure> {
    let facts = *room.desk.console.facts();
    if !facts.input_is_terminal || !facts.err_is_terminal {
        return Ok(false);
    }
    let _kept = facts.has_line_editor.then(Kept::around_editor);
    if facts.has_line_editor {
        room.desk.input.edit(None, Words::default());
    }
    introduce(room, project);
    loop {
        let desk = &mut room.desk;
        desk.console.say(match project.files.len() {
            1 => "    y trust it as it is now · n not now · d show the file",
            _ => "    y trust them all as they are now · n not now · d show the files",
        });
        desk.input.forget();
        let heard = tokio::select! {
            biased;
            _ = desk.stops.next() => return Err(Failure::stopped()),
            heard = desk.input.next(Ask::Answer("  › ".to_owned())) => heard,
        };
        let line = match heard {
            Heard::Line(line) => line,
            Heard::Stale => continue,
            Heard::Interrupted => return Err(Failure::stopped()),
            Heard::End | Heard::TooLong | Heard::Failed(_) => return Ok(false),
        };
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => {
                desk.console.say("not trusted; later: narthex config trust");
                return Ok(false);
            }
            "d" => {
                for file in &project.files {
                    desk.console.say(&whole(file));
                }
            }
            _ => {}
        }
    }
}

fn introduce<M>(room: &mut Room<'_, M>, project: &UntrustedProject) {
    let console = &mut room.desk.console;
    let paint = console.paint();
    let question = paint.bold("This project brings settings that you have not trusted yet.");
    console.say(&format!("{} {question}", paint.care("?")));
    for file in &project.files {
        console.say(&format!("    {} would:", path(file)));
        for line in file.summary.iter().take(LINES_SHOWN) {
            console.say(&format!("    • {}", escape::line(line, usize::MAX)));
        }
        if file.summary.len() > LINES_SHOWN {
            let rest = file.summary.len() - LINES_SHOWN;
            console.say(&paint.dim(&format!("    … {rest} more; d shows the file")));
        }
    }
}

/// Writes a file as it was read, all of it, for people.
fn whole(file: &UntrustedFile) -> String {
    let text = escape::text(&file.text);
    let lines = text.lines().map(|line| format!("\n    │ {line}"));
    format!("    {}{}", path(file), lines.collect::<String>())
}

fn path(file: &UntrustedFile) -> String {
    escape::line(&file.path.display().to_string(), PATH_CHARS)
}
