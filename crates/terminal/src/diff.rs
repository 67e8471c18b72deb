//! Diffs for people: coloured, escaped, and cut before they fill the screen.

use similar::TextDiff;

use crate::escape;
use crate::paint::Paint;

/// How many lines of a diff are shown: an edit is seen, a rewrite does not scroll the talk away.
pub const LINES_SHOWN: usize = 40;
/// How wide a line of a diff may be; the rest is cut.
const LINE_WIDTH: usize = 400;

/// Returns a unified diff between two texts, without colours.
pub fn between(name: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    diff.unified_diff().header(&format!("a/{name}"), &format!("b/{name}")).to_string()
}

/// Returns a unified diff as indented lines for people, at most `limit` of them.
pub fn shown(diff: &str, limit: usize, paint: Paint) -> String {
    let count = diff.lines().count();
    let mut lines: Vec<String> =
        diff.lines().take(limit).map(|line| format!("    {}", one(line, paint))).collect();
    if count > limit {
        lines.push(paint.dim(&format!("    … {} more lines", count - limit)));
    }
    lines.join("\n")
}

/// Returns a unified diff as indented lines for people, all of it.
pub fn whole(diff: &str, paint: Paint) -> String {
    let lines: Vec<String> =
        diff.lines().map(|line| format!("    {}", coloured(&escape::text(line), paint))).collect();
    lines.join("\n")
}

/// Tells whether [`shown`] with this limit leaves anything out.
pub fn is_cut(diff: &str, limit: usize) -> bool {
    diff.lines().count() > limit
        || diff.lines().any(|line| escape::text(line).chars().count() > LINE_WIDTH)
}

fn one(line: &str, paint: Paint) -> String {
    coloured(&escape::cut(&escape::text(line), LINE_WIDTH), paint)
}

fn coloured(safe: &str, paint: Paint) -> String {
    if safe.starts_with("+++") || safe.starts_with("---") {
        paint.bold(safe)
    } else if safe.starts_with('+') {
        paint.good(safe)
    } else if safe.starts_with('-') {
        paint.bad(safe)
    } else if safe.starts_with("@@") || safe.starts_with("***") {
        paint.mark(safe)
    } else {
        safe.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_diffs_are_cut_with_the_count_of_the_rest() {
        let new: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let text = shown(&between("a.txt", "", &new), LINES_SHOWN, Paint::off());
        assert_eq!(text.lines().count(), LINES_SHOWN + 1);
        assert!(text.ends_with("… 13 more lines"), "{text}");
    }

    #[test]
    fn added_and_removed_lines_have_their_colours() {
        let text = shown("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same", 9, Paint::on());
        assert!(text.contains("\u{1b}[31m-old\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\u{1b}[32m+new\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\n     same"), "{text:?}");
    }

    #[test]
    fn a_diff_cannot_move_the_cursor() {
        let text = shown("+\u{1b}[2Jgone", 9, Paint::off());
        assert_eq!(text, "    +␛[2Jgone");
    }
}
