//! What a change looks like: a diff for people, line ranges for the model.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use protocol::event::Display;
use similar::{ChangeTag, DiffOp, TextDiff};

use crate::text_file;

/// The longest diff that people are shown.
const DIFF_BYTES_MAX: usize = 64 * 1024;

/// How long the search for a small diff may take; after that a coarser one is shown.
const DIFF_TIME_MAX: Duration = Duration::from_millis(300);

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// How many ranges of changed lines the model is told.
const RANGES_MAX: usize = 20;

/// One file before and after.
#[derive(Debug)]
pub(crate) struct FileChange {
    /// Its name, as shown.
    pub(crate) name: String,
    /// The text before; none for a new file.
    pub(crate) old: Option<String>,
    /// The text after; none for a removed file.
    pub(crate) new: Option<String>,
}

/// Returns a file's text for a diff; a file that is no text is named only.
pub(crate) fn diffable(bytes: Vec<u8>) -> String {
    match text_file::decode(bytes) {
        Ok(file) => file.readable(),
        Err(kind) => format!("({kind})\n"),
    }
}

/// Says what a call will change, before it runs; none where nothing changes.
pub(crate) fn preview(changes: &[FileChange]) -> Option<String> {
    Some(drawn(changes).0).filter(|text| !text.is_empty())
}

/// Shows changes to files as a unified diff.
pub(crate) fn display(changes: &[FileChange]) -> Display {
    let (diff, added, removed) = drawn(changes);
    Display::Diff { diff, added, removed }
}

/// Returns the diff and how many lines it adds and removes.
fn drawn(changes: &[FileChange]) -> (String, u32, u32) {
    let (mut text, mut added, mut removed) = (String::new(), 0, 0);
    for change in changes {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let diff = diff(old.unwrap_or_default(), new.unwrap_or_default());
        for line in diff.iter_all_changes() {
            match line.tag() {
                ChangeTag::Insert => added += 1,
                ChangeTag::Delete => removed += 1,
                ChangeTag::Equal => {}
            }
        }
        let from = old.map_or("/dev/null".to_owned(), |_| format!("a/{}", change.name));
        let to = new.map_or("/dev/null".to_owned(), |_| format!("b/{}", change.name));
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT_LINES).header(&from, &to);
        if text.len() <= DIFF_BYTES_MAX {
            let start = text.len();
            // Writing to a String cannot fail.
            let _ = write!(text, "{unified}");
            // A file without a line comes or goes without a hunk; its name says so.
            if text.len() == start && old.is_some() != new.is_some() {
                let _ = writeln!(text, "--- {from}\n+++ {to}");
            }
        }
    }
    cut(&mut text);
    (text, added, removed)
}

fn diff<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, str> {
    TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(old, new)
}

fn cut(text: &mut String) {
    const MARK: &str = "… the rest of the diff was left out\n";
    if text.len() <= DIFF_BYTES_MAX {
        return;
    }
    let room = text.get(..text.floor_char_boundary(DIFF_BYTES_MAX - MARK.len()));
    let end = room.and_then(|room| room.rfind('\n')).map_or(0, |end| end + 1);
    text.truncate(end);
    text.push_str(MARK);
}

/// Names the lines of `new` that differ from `old`, for example `lines 3-5, 9`.
pub(crate) fn changed_lines(old: &str, new: &str) -> String {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for op in diff(old, new).ops() {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let range = op.new_range();
        match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            Some(_) | None => ranges.push(range),
        }
    }
    let shown: Vec<_> = ranges.iter().take(RANGES_MAX).map(shown_range).collect();
    let more = ranges.len().saturating_sub(RANGES_MAX);
    let more = if more > 0 { format!(" and {more} more places") } else { String::new() };
    format!("lines {}{more}", shown.join(", "))
}

fn shown_range(range: &Range<usize>) -> String {
    match range.len() {
        // Where lines only went away, the place is named by the line before it.
        0 => format!("{} (removed after it)", range.start),
        1 => (range.start + 1).to_string(),
        _ => format!("{}-{}", range.start + 1, range.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(old: Option<&str>, new: Option<&str>) -> Display {
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        display(&[FileChange { name: "a.txt".to_owned(), old, new }])
    }

    #[test]
    fn a_diff_names_both_sides() {
        let Display::Diff { diff, added, removed } = change(Some("a\nb\n"), Some("a\nc\n")) else {
            panic!("a diff was expected")
        };
        assert_eq!(diff, "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert_eq!((added, removed), (1, 1));
        let Display::Diff { diff, .. } = change(None, Some("a\n")) else { panic!("no diff") };
        assert_eq!(diff, "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn an_empty_file_is_named() {
        let Display::Diff { diff, added, .. } = change(None, Some("")) else { panic!("no diff") };
        assert_eq!((diff.as_str(), added), ("--- /dev/null\n+++ b/a.txt\n", 0));
        let Display::Diff { diff, .. } = change(Some(""), None) else { panic!("no diff") };
        assert_eq!(diff, "--- a/a.txt\n+++ /dev/null\n");
        let Display::Diff { diff, .. } = change(Some(""), Some("")) else { panic!("no diff") };
        assert_eq!(diff, "");
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line() {
        let new: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let Display::Diff { diff, added, .. } = change(None, Some(&new)) else { panic!("no diff") };
        assert!(diff.len() <= DIFF_BYTES_MAX && diff.ends_with("left out\n"), "{}", diff.len());
        assert_eq!(added, 20_000);
    }

    #[test]
    fn changed_lines_are_named() {
        assert_eq!(
            changed_lines("a\nb\nc\nd\n", "a\nx\ny\nc\n"),
            "lines 2-3, 4 (removed after it)"
        );
    }
}
