//! Unified diffs, with git's headers or without.

use std::fmt::Write as _;

use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchSet};

use super::patch::{Change, Hunk, Line, Patch, quoted};

/// Reads a diff.
///
/// # Errors
/// What is wrong, for the model.
pub(super) fn parse(text: &str) -> Result<Patch, String> {
    let recounted = recount(text)?;
    let is_git = text.lines().any(|line| line.starts_with("diff --git "));
    let options = if is_git { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut patch = Patch::default();
    let mut hunks = 0;
    for file in PatchSet::parse(recounted.text.as_str(), options) {
        let file = file.map_err(|error| {
            format!("the patch is neither a unified diff nor the *** Begin Patch form: {error}")
        })?;
        hunks += file.patch().as_text().map_or(0, |text| text.hunks().len());
        patch.changes.push(change(&file, is_git, &mut patch.notes)?);
    }
    // The parser passes over what it does not expect between two files: nothing may get lost there.
    if hunks != recounted.hunks {
        return Err(format!(
            "only {hunks} of the {} hunks of the patch belong to a file: each file needs its \
             --- and +++ lines{}",
            recounted.hunks,
            if is_git { " after a diff --git line" } else { "" }
        ));
    }
    Ok(patch)
}

#[derive(Debug, Default)]
struct Recounted {
    text: String,
    hunks: usize,
}

/// Writes the line counts of all hunks anew: models count badly, and the lines themselves say it.
fn recount(text: &str) -> Result<Recounted, String> {
    let lines: Vec<_> = text.lines().collect();
    let mut result = Recounted::default();
    let (mut old_end, mut new_end) = (0, 0);
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        index += 1;
        if is_mail(&lines) && *line == "-- " {
            break;
        }
        if !is_hunk_header(line) {
            if result.hunks > 0 {
                require_header(line, index)?;
            }
            if line.starts_with("--- ") {
                (old_end, new_end) = (0, 0);
            }
            result.text.push_str(line);
            result.text.push('\n');
            continue;
        }
        let stated = stated(line);
        let body = body(&lines, index, stated);
        index += body.len();
        let (old, new) = (count(body, '-'), count(body, '+'));
        // The parser wants ascending places; ours are only hints.
        let old_at = stated.map_or(0, |stated| stated.old_at).max(old_end);
        let new_at = stated.map_or(0, |stated| stated.new_at).max(new_end);
        let place = if stated.is_some() { "" } else { NO_PLACE };
        // Writing to a String cannot fail.
        let _ = writeln!(result.text, "@@ -{old_at},{old} +{new_at},{new} @@{place}");
        for line in body {
            let space = if line.is_empty() { " " } else { "" };
            let _ = writeln!(result.text, "{space}{line}");
        }
        (old_end, new_end) = (old_at.saturating_add(old), new_at.saturating_add(new));
        result.hunks += 1;
    }
    Ok(result)
}

/// Beginnings of lines that may follow a hunk: what describes the next file.
const HEADERS: [&str; 15] = [
    "diff ",
    "index ",
    "--- ",
    "+++ ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity ",
    "dissimilarity ",
    "rename ",
    "copy ",
    "Binary files ",
    "GIT binary patch",
    "Only in ",
];

/// Refuses what follows a hunk and describes no next file: mostly a line of the hunk whose mark
/// was forgotten, and the parser would drop the rest of the hunk without a word.
fn require_header(line: &str, number: usize) -> Result<(), String> {
    if line.trim().is_empty() || HEADERS.iter().any(|header| line.starts_with(header)) {
        return Ok(());
    }
    Err(format!(
        "line {number} of the patch: expected a line that begins with a space, - or +, or the \
         next file, found {}",
        quoted(line)
    ))
}

/// The section text of a hunk whose header had no line numbers.
const NO_PLACE: &str = " (no place)";

fn is_hunk_header(line: &str) -> bool {
    line.starts_with("@@ ") || line.trim_end() == "@@"
}

/// What a hunk header says.
#[derive(Clone, Copy, Debug)]
struct Stated {
    old_at: usize,
    old_count: usize,
    new_at: usize,
}

fn stated(line: &str) -> Option<Stated> {
    let mut words = line.strip_prefix("@@ -")?.split_whitespace();
    let range = |word: &str| {
        let (at, count) = word.split_once(',').unwrap_or((word, "1"));
        let number = |text: &str| text.parse::<u32>().ok().and_then(|n| usize::try_from(n).ok());
        Some((number(at)?, number(count)?))
    };
    let (old_at, old_count) = range(words.next()?)?;
    let (new_at, _) = range(words.next()?.strip_prefix('+')?)?;
    Some(Stated { old_at, old_count, new_at })
}

fn is_mail(lines: &[&str]) -> bool {
    lines.first().is_some_and(|line| line.starts_with("From "))
}

/// Counts the lines that stand in the old file (`-`) or in the new one (`+`). An empty line stands
/// for an empty line of context.
fn count(body: &[&str], mark: char) -> usize {
    body.iter().filter(|line| line.is_empty() || line.starts_with([' ', mark])).count()
}

/// Returns the lines of a hunk that begin at `start`.
fn body<'a, 'b>(lines: &'b [&'a str], start: usize, stated: Option<Stated>) -> &'b [&'a str] {
    let is_file_header = |at: usize| {
        let line = |offset: usize| lines.get(at + offset).copied().unwrap_or_default();
        line(0).starts_with("--- ") && line(1).starts_with("+++ ") && is_hunk_header(line(2))
    };
    let rest = lines.get(start..).unwrap_or_default();
    let is_body = |(offset, line): (usize, &&str)| {
        let is_marked = line.is_empty() || line.starts_with([' ', '+', '-', '\\']);
        is_marked && !is_file_header(start + offset)
    };
    let end = rest.iter().enumerate().take_while(|(offset, line)| is_body((*offset, line))).count();
    let mut body = rest.get(..end).unwrap_or_default();
    // Blank lines at the end are air where the header does not count them, and in a mail "-- "
    // begins the signature.
    let is_mail = is_mail(lines);
    let wanted = stated.map_or(0, |stated| stated.old_count);
    while let [shorter @ .., last] = body
        && (last.is_empty() || (is_mail && *last == "-- "))
        && count(body, '-') > wanted
    {
        body = shorter;
    }
    body
}

fn change(
    file: &FilePatch<'_, str>,
    is_git: bool,
    notes: &mut Vec<String>,
) -> Result<Change, String> {
    let name = |path: &str, prefix: &str| path.strip_prefix(prefix).unwrap_or(path).to_owned();
    match file.new_mode() {
        Some(FileMode::Symlink | FileMode::Gitlink) => {
            return Err("the patch makes a link or a submodule; use run_shell".to_owned());
        }
        Some(FileMode::Executable) if file.old_mode() != file.new_mode() => {
            notes.push(
                "permission bits are not set by a patch; use run_shell with chmod".to_owned(),
            );
        }
        Some(FileMode::Executable | FileMode::Regular) | None => {}
    }
    let text = file.patch().as_text();
    let text = text.ok_or("the patch changes a binary file; that is not possible here")?;
    let hunks: Vec<_> = text.hunks().iter().map(hunk).collect();
    Ok(match file.operation() {
        FileOperation::Create(path) => {
            Change::Add { path: name(path, "b/"), content: content(&hunks)? }
        }
        FileOperation::Delete(path) => Change::Delete { path: name(path, "a/"), hunks },
        FileOperation::Modify { original, modified } => {
            // Prefixes come in pairs: a folder may be called `b` too.
            let has_prefixes = original.starts_with("a/") && modified.starts_with("b/") || is_git;
            let prefix = if has_prefixes { "b/" } else { "" };
            let path = name(modified, prefix);
            if hunks.is_empty() {
                return Err(format!("the patch names {path} and has no hunks for it"));
            }
            Change::Update { path, move_to: None, hunks }
        }
        FileOperation::Rename { from, to } => {
            Change::Update { path: from.to_string(), move_to: Some(to.to_string()), hunks }
        }
        FileOperation::Copy { from, .. } => {
            return Err(format!("the patch copies {from}; use run_shell with cp for that"));
        }
    })
}

fn hunk(hunk: &diffy::Hunk<'_, str>) -> Hunk {
    let bare = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    let (mut old_is_open, mut new_is_open) = (false, false);
    let mut lines = Vec::new();
    for line in hunk.lines() {
        match line {
            diffy::Line::Context(text) => {
                (old_is_open, new_is_open) = (!text.ends_with('\n'), !text.ends_with('\n'));
                lines.push(Line::Keep(bare(text)));
            }
            diffy::Line::Delete(text) => {
                old_is_open = !text.ends_with('\n');
                lines.push(Line::Remove(bare(text)));
            }
            diffy::Line::Insert(text) => {
                new_is_open = !text.ends_with('\n');
                lines.push(Line::Add(bare(text)));
            }
        }
    }
    let old = hunk.old_range();
    let has_place = hunk.function_context().map(str::trim) != Some(NO_PLACE.trim());
    // A range without lines names the line before the place.
    let at = if old.is_empty() { old.start() } else { old.start().saturating_sub(1) };
    let ends_with_newline = match (old_is_open, new_is_open) {
        (_, true) => Some(false),
        (true, false) => Some(true),
        (false, false) => None,
    };
    Hunk { at: has_place.then_some(at), lines, ends_with_newline, ..Hunk::default() }
}

/// Returns what a new file contains.
fn content(hunks: &[Hunk]) -> Result<String, String> {
    let mut content = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            let Line::Add(text) = line else {
                return Err("the patch makes a new file with lines that are not added".to_owned());
            };
            content.push_str(text);
            content.push('\n');
        }
    }
    if hunks.last().is_some_and(|hunk| hunk.ends_with_newline == Some(false)) {
        content.pop();
    }
    Ok(content)
}
