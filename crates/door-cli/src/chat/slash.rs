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

/// The keys under a card that asks whether a call may run.
const KEYS: [&str; 8] = [
    "",
    "when a call waits for you:",
    "  y  runs it this once",
    "  a  allows from now on what the rule beside it matches, in this session",
    "  p  allows it in every session of this project; u, in every session of yours",
    "  e  changes that rule first, then asks for how long it is kept",
    "  n  refuses it",
    "  anything longer refuses it too and tells the model your words",
];

/// Commands that are called so elsewhere, and their names here.
const CALLED_ELSEWHERE: [(&str, &str); 2] = [("clear", "new"), ("exit", "quit")];

/// How many letters a word may differ in from a command that it is taken for.
const SLIPS_MAX: usize = 2;

/// How many letters of a word are looked at; commands are shorter.
const WORD_CHARS_MAX: usize = 40;

/// Finds the command that was meant with a line that is none, for its first word is nearly one.
/// A line that begins with a space is always text.
pub(super) fn meant(line: &str, commands: &[SlashCommand]) -> Option<(String, String)> {
    let word = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
    let own = OWN.iter().map(|(name, ..)| *name);
    let known: Vec<&str> =
        own.chain(commands.iter().map(|command| command.name.as_str())).collect();
    let is_word = !word.is_empty() && !word.contains('/') && word.len() <= WORD_CHARS_MAX;
    if !is_word || known.contains(&word) {
        return None;
    }
    let elsewhere = CALLED_ELSEWHERE.iter().find(|(name, _)| *name == word);
    let near = || {
        let far = known.iter().map(|name| (strsim::osa_distance(word, name), *name));
        // In a word of three letters two are most of it: `/dev` is a folder, not `/new`.
        let near = far.filter(|(slips, name)| *slips <= SLIPS_MAX.min(name.chars().count() / 2));
        // Of two that are as near, two letters that changed places are likelier than a lost one.
        near.min_by_key(|(slips, name)| (*slips, word.len().abs_diff(name.len())))
            .map(|(_, name)| name)
    };
    let name = elsewhere.map(|(_, name)| *name).or_else(near)?;
    Some((word.to_owned(), name.to_owned()))
}

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
    let lines = lines.chain(KEYS.map(str::to_owned));
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
    fn a_slip_is_told_from_text() {
        let undo = SlashCommand {
            name: "undo".to_owned(),
            description: String::new(),
            argument_hint: None,
            source: "builtin",
        };
        let table = [
            ("/udno", Some("undo")),
            ("/udno now", Some("undo")),
            ("/undo", None),
            ("/hlep", Some("help")),
            ("/modle openai/gpt-5", Some("model")),
            ("/clear", Some("new")),
            ("/exit", Some("quit")),
            ("/nwe", Some("new")),
            ("/dev is full", None),
            ("/etc/passwd looks odd", None),
            ("/mode/", None),
            (" /udno", None),
            ("/", None),
            ("/something else", None),
            ("udno", None),
        ];
        for (line, name) in table {
            let found = meant(line, std::slice::from_ref(&undo));
            assert_eq!(found.map(|(_, name)| name).as_deref(), name, "{line:?}");
        }
    }

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
