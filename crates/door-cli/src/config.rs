//! `narthex config`.

use serde_json::json;
use terminal::{Exit, Failure, escape};

use crate::args::{ConfigAction, Globals, ListFormat};
use crate::door::{Room, print};
use crate::machine::Machine;
use crate::session::say_all;

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
            print(console, &format!("{}\n", json!({ "settings": settings })))
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
            console.say(&format!("wrote {}", path.display()));
            Ok(Exit::Done)
        }
        ConfigAction::Path => {
            let files = machine.files(globals)?;
            let lines = files.iter().map(|file| {
                format!("{:<9} {}  ({})\n", file.layer, file.path.display(), file.state)
            });
            let text: String = lines.collect();
            print(console, &text)
        }
        ConfigAction::Trust { path } => {
            let file = machine.trust(globals, path)?;
            console.say(&format!("trusted {} as it is now", file.display()));
            Ok(Exit::Done)
        }
    }
}
