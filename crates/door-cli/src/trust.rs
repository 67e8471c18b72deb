//! The question whether a project's settings file may do what it says.

use std::io::Read;
use terminal::tty::Kept;
use terminal::{Ask, Failure, Heard, Words, escape};

use crate::door::Room;
use crate::machine::UntrustedProject;

/// How much of the file is shown.
const FILE_BYTES_SHOWN: u64 = 64 << 10;
/// How many lines of what the file would change are shown.
const LINES_SHOWN: usize = 60;

/// Asks whether the file is trusted; never where nobody sits at a terminal.
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
        desk.console.say("    y trust it as it is now · n not now · d show the file");
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
                let text = read(project);
                desk.console.say(&text);
            }
            _ => {}
        }
    }
}

fn introduce<M>(room: &mut Room<'_, M>, project: &UntrustedProject) {
    let console = &mut room.desk.console;
    let paint = console.paint();
    let path = escape::line(&project.path.display().to_string(), 400);
    let question = paint.bold("This project brings settings that you have not trusted yet.");
    console.say(&format!("{} {question}", paint.care("?")));
    console.say(&format!("    {path} would:"));
    for line in project.summary.iter().take(LINES_SHOWN) {
        console.say(&format!("    • {}", escape::line(line, 400)));
    }
    if project.summary.len() > LINES_SHOWN {
        let rest = project.summary.len() - LINES_SHOWN;
        console.say(&paint.dim(&format!("    … {rest} more; d shows the file")));
    }
}

/// Reads the file as it is now, for people.
fn read(project: &UntrustedProject) -> String {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&project.path)
        .and_then(|file| file.take(FILE_BYTES_SHOWN + 1).read_to_end(&mut bytes));
    let path = project.path.display();
    if let Err(error) = read {
        return format!("narthex: read {path}: {error}");
    }
    let is_cut = u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_SHOWN);
    bytes.truncate(usize::try_from(FILE_BYTES_SHOWN).unwrap_or(usize::MAX));
    let text = escape::text(&String::from_utf8_lossy(&bytes));
    let lines: Vec<String> = text.lines().map(|line| format!("    │ {line}")).collect();
    let end = if is_cut { "\n    … the rest is not shown" } else { "" };
    format!("{}{end}", lines.join("\n"))
}
