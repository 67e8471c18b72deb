//! Commands of a conversation. A word that is none of them is ordinary text.

use protocol::Mode;
use runtime_api::SlashCommand;
use terminal::escape;

/// The door's own commands, with what may follow them and what they do.
pub(super) const OWN: [(&str, &str, &str); 6] = [
    ("mode", "[MODE]", "shows or sets what runs without asking: plan, ask, auto-edit, full-auto"),
    ("model", "[NAME]", "shows or sets the model, provider/model"),
    ("new", "", "starts another session with the same model and mode"),
    ("session", "", "shows this session's facts"),
    ("help", "", "shows this"),
    ("quit", "", "leaves (as Ctrl-D); the session is kept: narthex resume"),
];

/// Says what `/help` says: the runtime's commands, then the door's own. One of the door's that the
/// runtime knows as well is the runtime's.
pub(super) fn help(commands: &[SlashCommand]) -> String {
    let given = commands.iter().map(|command| {
        let hint = command.argument_hint.clone().unwrap_or_default();
        (command.name.clone(), hint, command.description.clone())
    });
    let own = OWN.iter().filter(|(name, ..)| !is_listed(commands, name));
    let own =
        own.map(|(name, hint, does)| ((*name).to_owned(), (*hint).to_owned(), (*does).to_owned()));
    let lines: Vec<(String, String)> = given
        .chain(own)
        .map(|(name, hint, does)| {
            let usage = format!("/{} {}", escape::line(&name, 40), escape::line(&hint, 60));
            (usage.trim_end().to_owned(), escape::line(&does, 200))
        })
        .collect();
    let width = lines.iter().map(|(usage, _)| usage.chars().count()).max().unwrap_or(0);
    let lines = lines.iter().map(|(usage, does)| format!("{usage:<width$}  {does}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the words that the line editor completes.
pub(super) fn words(commands: &[SlashCommand]) -> Vec<String> {
    let own = OWN.iter().map(|(name, ..)| format!("/{name}"));
    let mut words: Vec<String> =
        own.chain(commands.iter().map(|command| format!("/{}", command.name))).collect();
    words.sort();
    words.dedup();
    words
}

/// Tells whether the runtime knows a command.
pub(super) fn is_listed(commands: &[SlashCommand], name: &str) -> bool {
    commands.iter().any(|command| command.name == name)
}

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

impl Slash {
    /// Tells whether the runtime may know the command as well; it obeys it then.
    pub(super) fn name_if_shared(&self) -> Option<&'static str> {
        match self {
            Slash::Mode(_) => Some("mode"),
            Slash::Model(_) => Some("model"),
            Slash::Help | Slash::New | Slash::Session | Slash::Quit => None,
        }
    }
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
