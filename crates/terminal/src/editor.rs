//! The line editor of a terminal, with its history.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};

use crate::input::{Ask, Heard, Words};

/// How many lines the history keeps.
const HISTORY_LINES_MAX: usize = 2000;

type Prompter = Editor<Help, FileHistory>;

/// Completes the first word of a line.
struct Help(Words);

impl Helper for Help {}
impl Validator for Help {}
impl Highlighter for Help {}

impl Hinter for Help {
    type Hint = String;
}

impl Completer for Help {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        place: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begin = line.get(..place).unwrap_or_default();
        let found = if begin.is_empty() { Vec::new() } else { self.0.like(begin) };
        Ok((0, found))
    }
}

/// Returns a function that asks at the terminal. The editor is made with the first question.
pub(crate) fn listener(history: Option<PathBuf>, words: Words) -> Box<dyn FnMut(Ask) -> Heard> {
    let mut editor = None;
    Box::new(move |ask| {
        if editor.is_none() {
            match open(history.as_deref(), words.clone()) {
                Ok(fresh) => editor = Some(fresh),
                Err(error) => return Heard::Failed(error.to_string()),
            }
        }
        match &mut editor {
            Some(editor) => listen(editor, &ask, history.as_deref()),
            None => Heard::End,
        }
    })
}

fn open(history: Option<&Path>, words: Words) -> rustyline::Result<Prompter> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES_MAX)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        // Standard output may be a pipe for the answer; the question belongs to the terminal.
        .behavior(Behavior::PreferTerm)
        .build();
    let mut editor = Prompter::with_config(config)?;
    editor.set_helper(Some(Help(words)));
    if let Some(path) = history {
        // A missing or damaged history is an empty one.
        drop(editor.load_history(path));
    }
    Ok(editor)
}

fn listen(editor: &mut Prompter, ask: &Ask, history: Option<&Path>) -> Heard {
    let read = match ask {
        Ask::Line(prompt) | Ask::Answer(prompt) => editor.readline(prompt),
        Ask::Edit(prompt, text) => editor.readline_with_initial(prompt, (text, "")),
    };
    match read {
        Ok(line) => {
            if matches!(ask, Ask::Line(_)) && !line.trim().is_empty() {
                remember(editor, &line, history);
            }
            Heard::Line(line)
        }
        Err(ReadlineError::Interrupted) => Heard::Interrupted,
        Err(ReadlineError::Eof) => Heard::End,
        Err(error) => Heard::Failed(error.to_string()),
    }
}

/// Adds a line to the history and to its file, which only its owner can read: prompts hold
/// secrets more often than one thinks. That it cannot be written is no reason to stop.
fn remember(editor: &mut Prompter, line: &str, history: Option<&Path>) {
    drop(editor.add_history_entry(line));
    let Some(path) = history else { return };
    let created = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if created.is_ok() && editor.append_history(path).is_ok() {
        drop(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)));
    }
}
