//! Hunks put into a text.

use super::patch::{Hunk, Line, quoted};

/// How many places an error names.
const PLACES_MAX: usize = 10;

/// How many lines of a hunk an error shows.
const LINES_SHOWN_MAX: usize = 12;

/// A line of a file with its end.
#[derive(Clone, Copy, Debug)]
struct FileLine<'a> {
    text: &'a str,
    end: &'a str,
}

/// Applies hunks to a text; line ends of the file are kept, and new lines get the common one.
///
/// # Errors
/// Which hunk does not fit, and why, for the model.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let lines: Vec<_> = text.split_inclusive('\n').map(split_end).collect();
    let crlf = lines.iter().filter(|line| line.end == "\r\n").count();
    let end = if crlf * 2 > lines.len() { "\r\n" } else { "\n" };
    let mut ends_with_newline = lines.last().is_none_or(|line| !line.end.is_empty());
    let mut result: Vec<FileLine<'_>> = Vec::with_capacity(lines.len());
    let mut from = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let which = if hunks.len() == 1 { String::new() } else { format!("hunk {}: ", index + 1) };
        let place = find(&lines, hunk, from).map_err(|error| format!("{which}{error}"))?;
        result.extend(lines.get(from..place).unwrap_or_default());
        from = place;
        for line in &hunk.lines {
            match line {
                // The file's own line stays: it may differ in whitespace at its end.
                Line::Keep(_) => {
                    result.extend(lines.get(from));
                    from += 1;
                }
                Line::Remove(_) => from += 1,
                Line::Add(text) => result.push(FileLine { text, end }),
            }
        }
        if from >= lines.len()
            && let Some(newline) = hunk.ends_with_newline
        {
            ends_with_newline = newline;
        }
    }
    result.extend(lines.get(from..).unwrap_or_default());
    Ok(join(&result, end, ends_with_newline))
}

fn split_end(line: &str) -> FileLine<'_> {
    let text = line.strip_suffix('\n').unwrap_or(line);
    // Without a newline a carriage return is part of the text.
    let text = if text.len() < line.len() { text.strip_suffix('\r').unwrap_or(text) } else { text };
    FileLine { text, end: line.get(text.len()..).unwrap_or_default() }
}

fn join(lines: &[FileLine<'_>], end: &str, ends_with_newline: bool) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        text.push_str(line.text);
        let is_last = index + 1 == lines.len();
        if !is_last || ends_with_newline {
            text.push_str(if line.end.is_empty() { end } else { line.end });
        }
    }
    text
}

/// Finds where a hunk belongs, from line `from` on.
fn find(lines: &[FileLine<'_>], hunk: &Hunk, from: usize) -> Result<usize, String> {
    let (start, is_anchored) = after_anchors(lines, &hunk.anchors, from)?;
    let old = hunk.old();
    if old.is_empty() {
        return Ok(match hunk.at {
            Some(at) if !hunk.is_at_end => at.clamp(from, lines.len()),
            None if is_anchored && !hunk.is_at_end => (start + 1).min(lines.len()),
            Some(_) | None => lines.len(),
        });
    }
    let mut places = matches(lines, &old, start, |line, old| line == old);
    if places.is_empty() {
        places = matches(lines, &old, start, |line, old| line.trim_end() == old.trim_end());
    }
    if hunk.is_at_end {
        places.retain(|place| place + old.len() == lines.len());
    }
    match (places.as_slice(), hunk.at) {
        ([], _) => Err(not_found(lines, &old, start)),
        ([place], _) => Ok(*place),
        (places, Some(at)) if places.contains(&at) => Ok(at),
        ([place, ..], _) if is_anchored => Ok(*place),
        (places, _) => Err(ambiguous(places)),
    }
}

/// Passes the lines that stand above the place; returns where to look from, and whether there were
/// any. The last of them may be repeated in the hunk's own lines.
fn after_anchors(
    lines: &[FileLine<'_>],
    anchors: &[String],
    from: usize,
) -> Result<(usize, bool), String> {
    let mut at = from;
    for (index, anchor) in anchors.iter().enumerate() {
        let start = if index == 0 { at } else { at + 1 };
        let wanted = anchor.trim();
        let rest = || lines.iter().enumerate().skip(start);
        let found = rest().find(|(_, line)| line.text.trim() == wanted);
        let found = found.or_else(|| rest().find(|(_, line)| line.text.trim().starts_with(wanted)));
        match found {
            Some((found, _)) => at = found,
            None => {
                let where_ =
                    if start == 0 { String::new() } else { format!(" after line {start}") };
                let anchor = quoted(anchor);
                return Err(format!("the line {anchor} of @@ was not found{where_}"));
            }
        }
    }
    Ok((at, !anchors.is_empty()))
}

fn matches(
    lines: &[FileLine<'_>],
    old: &[&str],
    from: usize,
    is_equal: impl Fn(&str, &str) -> bool,
) -> Vec<usize> {
    let windows = lines.windows(old.len()).enumerate().skip(from);
    let fit = windows
        .filter(|(_, window)| window.iter().zip(old).all(|(line, old)| is_equal(line.text, old)));
    fit.map(|(at, _)| at).collect()
}

fn ambiguous(places: &[usize]) -> String {
    let shown: Vec<_> = places.iter().take(PLACES_MAX).map(|at| (at + 1).to_string()).collect();
    let more = if places.len() > PLACES_MAX { ", …" } else { "" };
    format!(
        "its lines stand at {} places (lines {}{more}); add more lines around the change, or an \
         @@ line that names a line above it",
        places.len(),
        shown.join(", ")
    )
}

/// Says which line is the first that does not fit, at the place where most of them do.
fn not_found(lines: &[FileLine<'_>], old: &[&str], from: usize) -> String {
    let fit = |at: usize| {
        let pairs = lines.iter().skip(at).zip(old);
        pairs.take_while(|(line, old)| line.text.trim_end() == old.trim_end()).count()
    };
    let best = (from..lines.len()).map(|at| (fit(at), std::cmp::Reverse(at))).max();
    if let Some((count, std::cmp::Reverse(at))) = best
        && count > 0
        && let Some(wanted) = old.get(count)
    {
        let found = match lines.get(at + count) {
            Some(line) => quoted(line.text),
            None => "the end of the file".to_owned(),
        };
        let (place, wanted) = (at + 1, quoted(wanted));
        return format!(
            "its lines were not found; at line {place} the first {count} fit, but then the patch \
             has {wanted} and the file {found}"
        );
    }
    let after = if from == 0 { String::new() } else { format!(" after line {from}") };
    let shown: Vec<_> = old.iter().take(LINES_SHOWN_MAX).map(|line| quoted(line)).collect();
    let more = if old.len() > LINES_SHOWN_MAX { "\n…" } else { "" };
    format!("its lines were not found{after}; they are:\n{}{more}", shown.join("\n"))
}
