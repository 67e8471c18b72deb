//! The line editor of a terminal, with its history.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, Config, Editor};

use crate::input::{Ask, Heard};

/// How many lines the history keeps.
const HISTORY_LINES_MAX: usize = 2000;

/// Returns a function that asks at the terminal. The editor is made with the first question.
pub(crate) fn listener(history: Option<PathBuf>) -> Box<dyn FnMut(Ask) -> Heard> {
    let mut editor = None;
    Box::new(move |ask| {
        if editor.is_none() {
            match open(history.as_deref()) {
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

fn open(history: Option<&Path>) -> rustyline::Result<Editor<(), FileHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES_MAX)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        // Standard output may be a pipe for the answer; the question belongs to the terminal.
        .behavior(Behavior::PreferTerm)
        .build();
    let mut editor = Editor::with_config(config)?;
    if let Some(path) = history {
        // A missing or damaged history is an empty one.
        drop(editor.load_history(path));
    }
    Ok(editor)
}

fn listen(editor: &mut Editor<(), FileHistory>, ask: &Ask, history: Option<&Path>) -> Heard {
    let (Ask::Line(text) | Ask::Answer(text)) = ask;
    match editor.readline(text) {
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
fn remember(editor: &mut Editor<(), FileHistory>, line: &str, history: Option<&Path>) {
    drop(editor.add_history_entry(line));
    let Some(path) = history else { return };
    let created = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if created.is_ok() && editor.append_history(path).is_ok() {
        drop(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)));
    }
}
