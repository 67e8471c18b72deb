//! Slash commands: prompts that the runtime obeys and no model reads.

use protocol::Mode;
use protocol::event::RewindScope;
use runtime_api::SlashCommand;

/// How long a command may be, in bytes; what is beyond that is not read.
const COMMAND_BYTES_MAX: usize = 4_096;

/// The commands: name, what may follow, what it does.
const COMMANDS: [(&str, Option<&str>, &str); 10] = [
    ("compact", Some("[focus]"), "summarise the conversation, the focus above all"),
    ("uncompact", None, "take the newest summary back"),
    ("context", None, "show how full the model's window is, and with what"),
    ("usage", None, "show the tokens, the cost and the steps of this session"),
    ("undo", Some("[--force]"), "take back what the newest turn did to the files"),
    (
        "rewind",
        Some("[POINT] [files|conversation|both]"),
        "go back to before a prompt; without a point, list them",
    ),
    ("mode", Some("[plan|ask|auto-edit|full-auto]"), "show or change the mode"),
    ("model", Some("[NAME]"), "show or change the model"),
    ("permissions", None, "show the rules that hold in this session"),
    ("help", None, "list these commands"),
];

/// A command that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slash {
    Compact {
        focus: Option<String>,
    },
    Uncompact,
    Context,
    Usage,
    Undo {
        is_forced: bool,
    },
    /// Without a point they are listed.
    Rewind {
        to: Option<(String, RewindScope)>,
    },
    Mode(Option<Mode>),
    Model(Option<String>),
    Permissions,
    Help,
}

/// Lists the commands.
pub(crate) fn commands() -> Vec<SlashCommand> {
    let made = COMMANDS.iter().map(|(name, hint, description)| SlashCommand {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        argument_hint: hint.map(str::to_owned),
        source: "builtin",
    });
    made.collect()
}

/// Lists the commands for people.
pub(crate) fn help() -> String {
    let mut text = String::from("Commands:\n");
    for (name, hint, description) in COMMANDS {
        let usage = usage(name, hint);
        text.push_str(&format!("  {usage:<44} {description}\n"));
    }
    text.push_str("Anything else that begins with a slash is an ordinary prompt.");
    text
}

/// Tells whether a text is a command, and returns it without the slash: its name and argument.
pub(crate) fn read(text: &str) -> Option<String> {
    let said = text.trim().strip_prefix('/')?;
    let name = said.split_whitespace().next().filter(|name| said.starts_with(name))?;
    let is_known = COMMANDS.iter().any(|(known, ..)| *known == name);
    let end = said.floor_char_boundary(COMMAND_BYTES_MAX);
    is_known.then(|| said.get(..end).unwrap_or(said).to_owned())
}

/// Understands a command that was read.
///
/// # Errors
/// What would be right, as a sentence.
pub(crate) fn parse(command: &str) -> Result<Slash, String> {
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let text = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
    match (name, words.as_slice()) {
        ("compact", _) => Ok(Slash::Compact { focus: text(rest) }),
        ("uncompact", []) => Ok(Slash::Uncompact),
        ("context", []) => Ok(Slash::Context),
        ("usage", []) => Ok(Slash::Usage),
        ("undo", []) => Ok(Slash::Undo { is_forced: false }),
        ("undo", ["--force"]) => Ok(Slash::Undo { is_forced: true }),
        ("rewind", []) => Ok(Slash::Rewind { to: None }),
        ("rewind", [point]) if scope(point).is_none() => {
            Ok(Slash::Rewind { to: Some(((*point).to_owned(), RewindScope::Both)) })
        }
        ("rewind", [point, word]) => match scope(word) {
            Some(scope) => Ok(Slash::Rewind { to: Some(((*point).to_owned(), scope)) }),
            None => Err(wrong(name, &format!("'{word}' is no part of a session"))),
        },
        ("mode", []) => Ok(Slash::Mode(None)),
        ("mode", [word]) => match word.parse() {
            Ok(mode) => Ok(Slash::Mode(Some(mode))),
            Err(_) => Err(wrong(name, &format!("'{word}' is no mode"))),
        },
        ("model", []) => Ok(Slash::Model(None)),
        ("model", [word]) => Ok(Slash::Model(Some((*word).to_owned()))),
        ("permissions", []) => Ok(Slash::Permissions),
        ("help", _) => Ok(Slash::Help),
        ("rewind", [_]) => Err(wrong(name, "a point has to be named first")),
        _ => Err(wrong(name, &format!("'{rest}' is not understood"))),
    }
}

fn scope(word: &str) -> Option<RewindScope> {
    match word {
        "files" => Some(RewindScope::Files),
        "conversation" => Some(RewindScope::Conversation),
        "both" => Some(RewindScope::Both),
        _ => None,
    }
}

fn usage(name: &str, hint: Option<&str>) -> String {
    format!("/{name} {}", hint.unwrap_or_default()).trim_end().to_owned()
}

fn wrong(name: &str, what: &str) -> String {
    let hint = COMMANDS.iter().find(|(known, ..)| *known == name).and_then(|(_, hint, _)| *hint);
    format!("Nothing was done: {what}. Right is: {}", usage(name, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_first_word_and_exactly_so() {
        for text in ["/help", "  /help  ", "/help me", "/help\nplease"] {
            assert!(read(text).is_some_and(|said| said.starts_with("help")), "{text:?}");
        }
        let ordinary =
            ["help", "please /help", "/helpme", "/Help", "//help", "/ help", "/usr/bin", "/", ""];
        for text in ordinary {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn every_command_that_is_listed_is_understood_alone() {
        for (name, ..) in COMMANDS {
            let command = read(&format!("/{name}")).unwrap();
            assert!(parse(&command).is_ok(), "{name}");
        }
    }

    #[test]
    fn arguments_are_understood_or_answered_with_what_is_right() {
        let focus = Some("the failing test".to_owned());
        assert_eq!(parse("compact  the failing test "), Ok(Slash::Compact { focus }));
        assert_eq!(parse("undo --force"), Ok(Slash::Undo { is_forced: true }));
        let to = |scope| Ok(Slash::Rewind { to: Some(("p1".to_owned(), scope)) });
        assert_eq!(parse("rewind p1"), to(RewindScope::Both));
        assert_eq!(parse("rewind p1 files"), to(RewindScope::Files));
        assert_eq!(parse("mode plan"), Ok(Slash::Mode(Some(Mode::Plan))));
        let wrong =
            ["undo now", "rewind files", "rewind p1 all", "mode fast", "model a b", "usage x"];
        for command in wrong {
            let told = parse(command).unwrap_err();
            let name = command.split(' ').next().unwrap();
            assert!(told.contains(&format!("Right is: /{name}")), "{told}");
        }
    }

    #[test]
    fn a_long_command_is_cut() {
        let said = read(&format!("/compact {}", "é".repeat(10_000))).unwrap();
        assert!(said.len() <= COMMAND_BYTES_MAX);
    }
}
