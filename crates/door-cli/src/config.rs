//! `narthex config`.

use std::path::Path;

use serde_json::json;
use terminal::{Exit, Failure, escape};

use crate::args::{ConfigAction, Globals, ListFormat};
use crate::door::{Room, print, print_json};
use crate::machine::Machine;
use crate::session::say_all;

/// How much of a path is shown: the system lets none be longer.
const PATH_CHARS: usize = 4096;
/// How much is shown of what is wrong with a file.
const STATE_CHARS: usize = 1000;

fn shown(path: &Path) -> String {
    escape::line(&path.display().to_string(), PATH_CHARS)
}

/// Shows or changes settings.
pub(crate) fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    action: ConfigAction,
) -> Result<Exit, Failure> {
    let machine = room.machine;
    let console = &mut room.desk.console;
    match action {
        ConfigAction::Show { output_format: ListFormat::Json } => {
            let (settings, notices) = machine.settings(globals)?;
            say_all(&notices, console);
            print_json(console, &json!({ "settings": settings }).to_string())
        }
        ConfigAction::Show { output_format: ListFormat::Text } => {
            let paint = console.data_paint();
            let (settings, notices) = machine.settings(globals)?;
            say_all(&notices, console);
            let lines = settings.iter().map(|setting| {
                let value = match setting.value.as_str() {
                    "" => paint.dim("(not set)"),
                    value => escape::line(value, 400),
                };
                let origin = paint.dim(&format!("# {}", escape::line(&setting.origin, 400)));
                format!("{} = {value}  {origin}\n", setting.key)
            });
            let text: String = lines.collect();
            print(console, &text)
        }
        ConfigAction::Set { key, value } => {
            let path = machine.set(globals, &key, &value)?;
            console.say(&format!("wrote {}", shown(&path)));
            Ok(Exit::Done)
        }
        ConfigAction::Path => {
            let files = machine.files(globals)?;
            let lines = files.iter().map(|file| {
                let state = escape::line(&file.state, STATE_CHARS);
                format!("{:<9} {}  ({state})\n", file.layer, shown(&file.path))
            });
            let text: String = lines.collect();
            print(console, &text)
        }
        ConfigAction::Trust { path } => {
            for file in machine.trust(globals, path)? {
                console.say(&format!("trusted {} as it is now", shown(&file)));
            }
            Ok(Exit::Done)
        }
    }
}
