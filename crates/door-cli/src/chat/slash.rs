//! Commands of a conversation. A word that is none of them is ordinary text.

use protocol::Mode;

/// What `/help` says.
pub(super) const HELP: &str = "\
/mode [MODE]    shows or sets what runs without asking: plan, ask, auto-edit, full-auto
/model [NAME]   shows or sets the model, provider/model
/new            starts another session with the same model and mode
/session        shows this session's facts
/help           shows this
/quit           leaves (as Ctrl-D); the session is kept: narthex resume";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Mode(Option<Mode>),
    Model(Option<String>),
    New,
    Session,
    Quit,
}

/// Reads a line; none when it is ordinary text.
///
/// # Errors
/// A sentence when a command's argument makes no sense.
pub(super) fn read(line: &str) -> Result<Option<Slash>, String> {
    let mut words = line.split_whitespace();
    let Some(command) = words.next() else { return Ok(None) };
    let argument = words.next();
    if words.next().is_some() {
        return Ok(None);
    }
    match (command, argument) {
        ("/help", None) => Ok(Some(Slash::Help)),
        ("/mode", None) => Ok(Some(Slash::Mode(None))),
        ("/mode", Some(mode)) => mode.parse().map(|mode| Some(Slash::Mode(Some(mode)))),
        ("/model", model) => Ok(Some(Slash::Model(model.map(str::to_owned)))),
        ("/new", None) => Ok(Some(Slash::New)),
        ("/session", None) => Ok(Some(Slash::Session)),
        ("/quit", None) => Ok(Some(Slash::Quit)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_text() {
        let table = [
            ("/help", Some(Slash::Help)),
            ("  /quit ", Some(Slash::Quit)),
            ("/mode", Some(Slash::Mode(None))),
            ("/mode plan", Some(Slash::Mode(Some(Mode::Plan)))),
            ("/model openai/gpt-5", Some(Slash::Model(Some("openai/gpt-5".to_owned())))),
            ("/new", Some(Slash::New)),
            ("/session", Some(Slash::Session)),
            ("/etc/passwd looks odd", None),
            ("/new plan for the house", None),
            ("/unknown", None),
            ("help", None),
        ];
        for (line, command) in table {
            assert_eq!(read(line), Ok(command), "{line:?}");
        }
        assert!(read("/mode reckless").unwrap_err().contains("expected plan"));
    }
}
