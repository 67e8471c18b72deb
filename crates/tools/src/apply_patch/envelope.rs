//! The `*** Begin Patch` form.

use std::iter::{Enumerate, Peekable};
use std::str::Lines;

use super::patch::{Change, Hunk, Line, Patch, quoted};

/// The first line.
pub(super) const BEGIN: &str = "*** Begin Patch";

const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch.
///
/// # Errors
/// What is wrong, with the number of the line.
pub(super) fn parse(text: &str) -> Result<Patch, String> {
    let mut reader = Reader { lines: text.lines().enumerate().peekable() };
    reader.begin()?;
    let mut changes = Vec::new();
    loop {
        let Some((number, line)) = reader.next() else {
            return Err(format!("the patch has no last line \"{END}\""));
        };
        if line.trim_end() == END {
            break;
        } else if let Some(path) = path_of(line, ADD, number)? {
            changes.push(Change::Add { path, content: reader.content()? });
        } else if let Some(path) = path_of(line, DELETE, number)? {
            changes.push(Change::Delete { path, hunks: Vec::new() });
        } else if let Some(path) = path_of(line, UPDATE, number)? {
            changes.push(reader.update(path)?);
        } else if !line.trim().is_empty() {
            return Err(format!(
                "line {number} of the patch: expected {ADD}, {UPDATE}, {DELETE} or {END}, found \
                 {}",
                quoted(line)
            ));
        }
    }
    match reader.find(|(_, line)| !line.trim().is_empty()) {
        Some((number, line)) => {
            Err(format!("line {number} of the patch stands after {END}: {}", quoted(line)))
        }
        None => Ok(Patch { changes, notes: Vec::new() }),
    }
}

fn path_of(line: &str, mark: &str, number: usize) -> Result<Option<String>, String> {
    match line.strip_prefix(mark).map(str::trim) {
        Some("") => Err(format!("line {number} of the patch: {mark} has no path")),
        Some(path) => Ok(Some(path.to_owned())),
        None => Ok(None),
    }
}

/// Lines with their numbers, from 1.
struct Reader<'a> {
    lines: Peekable<Enumerate<Lines<'a>>>,
}

impl<'a> Iterator for Reader<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next().map(|(index, line)| (index + 1, line))
    }
}

impl<'a> Reader<'a> {
    fn begin(&mut self) -> Result<(), String> {
        match self.find(|(_, line)| !line.trim().is_empty()) {
            Some((_, line)) if line.trim_end() == BEGIN => Ok(()),
            Some((number, line)) => {
                let found = quoted(line);
                Err(format!("line {number} of the patch: expected {BEGIN:?}, found {found}"))
            }
            None => Err(format!("the patch has no first line {BEGIN:?}")),
        }
    }

    fn peek(&mut self) -> Option<&'a str> {
        self.lines.peek().map(|(_, line)| *line)
    }

    /// Tells whether the lines of the current file are over.
    fn is_at_section(&mut self) -> bool {
        self.peek().is_none_or(|line| line.starts_with("*** ") && line.trim_end() != END_OF_FILE)
    }

    fn content(&mut self) -> Result<String, String> {
        let mut content = String::new();
        while !self.is_at_section() {
            let Some((number, line)) = self.next() else { break };
            if let Some(text) = line.strip_prefix('+') {
                content.push_str(text);
                content.push('\n');
            } else if line.trim_end() != END_OF_FILE && !(line.is_empty() && self.is_at_section()) {
                return Err(format!(
                    "line {number} of the patch: each line of a new file begins with +, found \
                     {}",
                    quoted(line)
                ));
            }
        }
        Ok(content)
    }

    fn update(&mut self, path: String) -> Result<Change, String> {
        let mut move_to = None;
        if let Some(line) = self.peek()
            && line.starts_with(MOVE)
            && let Some((number, line)) = self.next()
        {
            move_to = path_of(line, MOVE, number)?;
        }
        let mut hunks = Vec::new();
        while !self.is_at_section() {
            // A blank line between two files belongs to neither.
            if self.peek() == Some("") && hunks.is_empty() {
                self.next();
                continue;
            }
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() && move_to.is_none() {
            return Err(format!("the patch updates {path} without any lines"));
        }
        Ok(Change::Update { path, move_to, hunks })
    }

    fn hunk(&mut self) -> Result<Hunk, String> {
        let mut hunk = Hunk::default();
        while let Some(anchor) = self.peek().and_then(anchor_of) {
            if !anchor.is_empty() {
                hunk.anchors.push(anchor.to_owned());
            }
            self.next();
        }
        while !self.is_at_section() && self.peek().and_then(anchor_of).is_none() {
            let Some((number, line)) = self.next() else { break };
            if line.trim_end() == END_OF_FILE {
                hunk.is_at_end = true;
                break;
            }
            // Models leave the space of an empty context line out; a blank line before the next
            // file is only air.
            if line.is_empty() && self.is_at_section() {
                continue;
            }
            hunk.lines.push(line_of(line, number)?);
        }
        if hunk.lines.is_empty() {
            let anchor = hunk.anchors.last().map_or("@@", String::as_str);
            return Err(format!("the patch has no lines after {}", quoted(anchor)));
        }
        Ok(hunk)
    }
}

/// Returns the text of an `@@` line. Line numbers in the manner of a unified diff say nothing
/// here: models make them up.
fn anchor_of(line: &str) -> Option<&str> {
    let anchor = line.strip_prefix("@@")?.trim();
    if anchor.starts_with('-') && anchor.contains(" +") {
        let after = anchor.split_once("@@").map_or("", |(_, after)| after);
        return Some(after.trim());
    }
    Some(anchor)
}

fn line_of(line: &str, number: usize) -> Result<Line, String> {
    let mut rest = line.chars();
    let text = || line.get(1..).unwrap_or_default().to_owned();
    match rest.next() {
        None => Ok(Line::Keep(String::new())),
        Some(' ') => Ok(Line::Keep(text())),
        Some('-') => Ok(Line::Remove(text())),
        Some('+') => Ok(Line::Add(text())),
        Some(_) => Err(format!(
            "line {number} of the patch: expected a line that begins with a space, - or +, found \
             {}",
            quoted(line)
        )),
    }
}
