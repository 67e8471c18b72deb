//! Unified diffs, taken apart into what stood there and what stands there now.

use std::path::{Path, PathBuf};

/// One place that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    /// The old lines with those around them; none where the file is new.
    pub(crate) old: Option<String>,
    /// The new lines with those around them.
    pub(crate) new: String,
    /// The first of the new lines, from 1; of a file that goes, none.
    pub(crate) line: Option<u32>,
}

/// Takes a diff apart; relative names lie below `cwd`. Lines that are none of a diff are passed
/// over, so that one that was cut is shown as far as it goes.
pub(crate) fn hunks(diff: &str, cwd: &Path) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let (mut from, mut to) = (None, None);
    let mut is_inside = false;
    let mut left = (0_usize, 0_usize);
    for line in diff.split_inclusive('\n') {
        let has_more = left != (0, 0);
        if is_inside && has_more {
            if let Some(hunk) = hunks.last_mut() {
                take(hunk, line, &mut left);
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("--- ") {
            (from, is_inside) = (named(name, cwd), false);
        } else if let Some(name) = line.strip_prefix("+++ ") {
            (to, is_inside) = (named(name, cwd), false);
        } else if let Some(header) = line.strip_prefix("@@ ")
            && let Some((old_count, start, new_count)) = counts(header)
            && let Some(path) = to.clone().or_else(|| from.clone())
        {
            let old = from.is_some().then(String::new);
            let line = to.is_some().then_some(start.max(1));
            hunks.push(Hunk { path, old, new: String::new(), line });
            (left, is_inside) = ((old_count, new_count), true);
        }
    }
    hunks
}

fn take(hunk: &mut Hunk, line: &str, left: &mut (usize, usize)) {
    let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
    let (is_old, is_new) = match mark {
        "-" => (true, false),
        "+" => (false, true),
        // It says that the line before has no end.
        "\\" => return,
        _ => (true, true),
    };
    if is_old {
        if let Some(old) = &mut hunk.old {
            old.push_str(text);
        }
        left.0 = left.0.saturating_sub(1);
    }
    if is_new {
        hunk.new.push_str(text);
        left.1 = left.1.saturating_sub(1);
    }
}

/// Returns the file that a header names; none for `/dev/null`.
fn named(name: &str, cwd: &Path) -> Option<PathBuf> {
    let name = name.trim_end_matches(['\r', '\n']);
    if name == "/dev/null" {
        return None;
    }
    let bare = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name);
    // An absolute name stays what it is.
    Some(cwd.join(bare))
}

/// Reads `-1,2 +3,4 @@`: lines before, first line after, lines after.
fn counts(header: &str) -> Option<(usize, u32, usize)> {
    let mut parts = header.split(' ');
    let (_, old) = range(parts.next()?.strip_prefix('-')?)?;
    let (start, new) = range(parts.next()?.strip_prefix('+')?)?;
    Some((old, start, new))
}

fn range(text: &str) -> Option<(u32, usize)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(diff: &str) -> Vec<(String, Option<String>, String, Option<u32>)> {
        hunks(diff, Path::new("/w"))
            .into_iter()
            .map(|it| (it.path.display().to_string(), it.old, it.new, it.line))
            .collect()
    }

    #[test]
    fn both_sides_of_each_hunk_are_told() {
        let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9 +9,2 @@\n x\n+y\n";
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(
            apart(diff),
            [
                ("/w/a.txt".into(), owned("a\nb\n"), "a\nc\n".into(), Some(1)),
                ("/w/a.txt".into(), owned("x\n"), "x\ny\n".into(), Some(9)),
            ]
        );
    }

    #[test]
    fn new_and_removed_files_have_one_side() {
        let diff = "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+one\n\
                    --- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n";
        assert_eq!(
            apart(diff),
            [
                ("/w/n".into(), None, "one\n".into(), Some(1)),
                ("/w/o".into(), Some("two\n".into()), String::new(), None),
            ]
        );
    }

    #[test]
    fn removed_lines_that_look_like_headers_stay_in_their_hunk() {
        let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n z\n";
        assert_eq!(
            apart(diff),
            [("/w/a".into(), Some("-- x\nz\n".into()), "++ y\nz\n".into(), Some(1))]
        );
    }

    #[test]
    fn a_diff_that_was_cut_is_shown_as_far_as_it_goes() {
        let diff = "--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n a\n… the rest of the diff was left out\n";
        assert_eq!(apart(diff).len(), 1);
        assert_eq!(apart("no diff at all\n@@ nonsense\n"), []);
        assert_eq!(
            apart("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n")[0].2,
            "b\n"
        );
    }
}
