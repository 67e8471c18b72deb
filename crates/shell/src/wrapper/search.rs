//! Programs that search and run a command on what they find.

use super::{Inner, replace};
use crate::script::{UNKNOWN, Word};

/// `find … -exec COMMAND ;`.
pub(super) fn find(arguments: &[Word]) -> Inner {
    const EXECUTING: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
    // What is found begins with a place to look in.
    let places = arguments.iter().take_while(|word| !word.text.starts_with(['-', '(', '!']));
    let starts_safely = places.clone().all(|word| !word.may_be_option());
    let mut commands = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(|word| EXECUTING.contains(&word.text.as_str())) {
        let start = 1 + arguments.len() - rest.len() + at + 1;
        let words = rest.get(at + 1..).unwrap_or_default();
        let ends = |(at, word): (usize, &Word)| {
            let text = word.text.as_str();
            let is_plus =
                text == "+" && at > 0 && words.get(at - 1).is_some_and(|it| it.text == "{}");
            text == ";" || is_plus
        };
        // Without an end it is an error, which runs nothing.
        let length = words.iter().enumerate().position(ends).unwrap_or(words.len());
        let mut command = words.get(..length).unwrap_or_default().to_vec();
        replace(&mut command, "{}", starts_safely);
        if command.is_empty() {
            return Inner::Unclear("the command of find cannot be read");
        }
        commands.push((start, command));
        rest = words.get(length + 1..).unwrap_or_default();
    }
    if commands.is_empty() { Inner::Nothing } else { Inner::Commands(commands) }
}

/// `fd … -x COMMAND`.
pub(super) fn fd(arguments: &[Word]) -> Inner {
    const EXECUTING: [&str; 4] = ["-x", "-X", "--exec", "--exec-batch"];
    let is_executing = |word: &Word| EXECUTING.contains(&word.text.as_str());
    if let Some(at) = arguments.iter().position(is_executing) {
        let words = arguments.get(at + 1..).unwrap_or_default();
        let mut command: Vec<Word> =
            words.iter().take_while(|word| word.text != ";").cloned().collect();
        let is_once = command.len() == words.len() && !words.iter().any(is_executing);
        if !is_once || command.is_empty() {
            return Inner::Unclear("the command of fd cannot be read");
        }
        let has_place = command.iter().any(|word| word.text.contains('{'));
        for word in command.iter_mut().filter(|word| word.text.contains('{')) {
            word.loose = Some(UNKNOWN.to_string());
            word.text = UNKNOWN.to_string();
        }
        if !has_place {
            command.push(Word::unknown());
        }
        return Inner::Commands(vec![(at + 2, command)]);
    }
    let may_execute = |word: &Word| {
        let text = word.text.as_str();
        text.starts_with("--exec")
            || text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X'])
            || word.may_be_option()
    };
    match arguments.iter().any(may_execute) {
        true => Inner::Unclear("the command of fd cannot be read"),
        false => Inner::Nothing,
    }
}
