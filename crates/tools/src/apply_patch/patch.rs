//! A patch, whichever form it came in.

use super::{envelope, unified};
use crate::limit::head;

/// The largest patch.
const PATCH_BYTES_MAX: usize = 8 << 20;

/// Characters of a line that an error names.
const QUOTED_CHARS_MAX: usize = 160;

/// How many files one patch may touch.
const FILES_MAX: usize = 500;

/// What a patch does, file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) changes: Vec<Change>,
    /// What the patch asks for and is not done, for the model.
    pub(super) notes: Vec<String>,
}

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A file that must not exist yet.
    Add { path: String, content: String },
    /// A file that goes away. With hunks they must describe the whole of it.
    Delete { path: String, hunks: Vec<Hunk> },
    /// A file that changes, moves, or both.
    Update { path: String, move_to: Option<String>, hunks: Vec<Hunk> },
}

/// Lines that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines that stand above the place, outermost first.
    pub(super) anchors: Vec<String>,
    /// Where the place is said to be: an index of lines in the old file.
    pub(super) at: Option<usize>,
    /// The lines.
    pub(super) lines: Vec<Line>,
    /// Whether the place is the end of the file.
    pub(super) is_at_end: bool,
    /// Whether the last line ends with a newline afterwards, where the patch says so.
    pub(super) ends_with_newline: Option<bool>,
}

/// A line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Stands there and stays.
    Keep(String),
    /// Stands there and goes.
    Remove(String),
    /// Comes.
    Add(String),
}

impl Patch {
    /// Returns the paths in the order of the changes; a move has two.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().flat_map(|change| match change {
            Change::Add { path, .. } | Change::Delete { path, .. } => vec![path.as_str()],
            Change::Update { path, move_to, .. } => {
                std::iter::once(path.as_str()).chain(move_to.as_deref()).collect()
            }
        })
    }
}

impl Hunk {
    /// Returns the lines that must stand there.
    pub(super) fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
            Line::Add(_) => None,
        });
        old.collect()
    }
}

/// Reads a patch in either form.
///
/// # Errors
/// What is wrong, and where, for the model.
pub(super) fn parse(text: &str) -> Result<Patch, String> {
    if text.len() > PATCH_BYTES_MAX {
        return Err(format!("the patch is larger than {}", stdx::bytes(PATCH_BYTES_MAX as u64)));
    }
    let text = without_fence(text).replace("\r\n", "\n");
    let is_envelope = text.lines().any(|line| line.trim_end() == envelope::BEGIN);
    let patch = if is_envelope { envelope::parse(&text)? } else { unified::parse(&text)? };
    match patch.changes.len() {
        0 => Err("the patch changes nothing".to_owned()),
        1..=FILES_MAX => Ok(patch),
        count => Err(format!("the patch touches {count} files, more than {FILES_MAX}")),
    }
}

/// Names a line in an error.
pub(super) fn quoted(line: &str) -> String {
    let kept = head(line, QUOTED_CHARS_MAX);
    let end = if kept.len() < line.len() { " …" } else { "" };
    format!("{kept:?}{end}")
}

/// Takes a Markdown fence around a patch away.
fn without_fence(text: &str) -> &str {
    let inner = text.trim();
    let fenced = inner.strip_prefix("```").and_then(|rest| rest.strip_suffix("\n```"));
    match fenced.and_then(|rest| rest.split_once('\n')) {
        Some((_, body)) => body,
        None => text,
    }
}
