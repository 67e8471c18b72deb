//! Whether a rule speaks of a part of a call.
//!
//! Rules that allow are read narrowly and rules that protect (deny, ask) widely: where it cannot
//! be told, an allow rule does not match and a protecting rule perhaps does.

use std::path::{Component, Path, PathBuf};

use crate::place::Reach;
use crate::rule::Pattern;
use crate::shell::Part;
use crate::tool_name::{self, FileTools};
use crate::{PathUse, Rule};

use super::Case;

/// A part of a call that is judged by itself.
pub(super) enum Unit<'a> {
    /// A simple command of the call's command line.
    Command(&'a Part),
    /// A path of the call.
    Path(PathUse<'a>),
    /// A file that a redirection writes, by its name without a look at links; `None` when the
    /// name is known only when it runs. Judged as `write_file`.
    Written(Option<PathBuf>),
    /// The call as a whole, which has no parts; of a command line what could not be found in it.
    Whole,
}

/// Whether a protecting rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It does.
    Yes,
    /// It may, and this is why it cannot be told.
    Perhaps(&'static str),
    /// It does not.
    No,
}

/// Takes a call apart; there is at least one part.
pub(super) fn units<'a>(case: &'a Case<'_>) -> Vec<Unit<'a>> {
    let mut units: Vec<Unit<'a>> = match &case.script {
        Some(script) => {
            let whole = script.opaque.is_some().then_some(Unit::Whole);
            script.parts.iter().map(Unit::Command).chain(whole).collect()
        }
        None => case.call.paths.iter().map(|path| Unit::Path(*path)).collect(),
    };
    if units.is_empty() {
        units.push(Unit::Whole);
    }
    units
}

/// Returns the files that the redirections of a command write.
pub(super) fn written(case: &Case<'_>) -> Vec<Unit<'static>> {
    let writes = case.script.iter().flat_map(|script| &script.writes);
    // The folder to run in is the one path that a command's arguments name.
    let named = case.call.paths.iter().find(|path| !path.is_write);
    let cwd = named.map_or(case.call.cwd, |path| path.real);
    writes
        .map(|write| {
            let name = write.name.as_deref().filter(|name| !name.starts_with('~'));
            Unit::Written(name.map(|name| flat(&cwd.join(name))))
        })
        .collect()
}

/// Takes `.` and `..` out of a path by its names alone.
fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                flat.pop();
            }
            Component::CurDir => {}
            other => flat.push(other),
        }
    }
    flat
}

/// Tells whether an allow rule covers a part. When in doubt it does not.
pub(super) fn grants(rule: &Rule, case: &Case<'_>, unit: &Unit<'_>) -> bool {
    if !tool_name::covers(rule.tool(), case.tool) {
        return false;
    }
    let call = case.call;
    match (rule.pattern(), unit) {
        (Pattern::Any, _) => true,
        (Pattern::Shell(pattern), Unit::Command(part)) => {
            let is_plain = case.script.as_ref().is_some_and(|script| script.blocked.is_none());
            // A rule for a command does not speak of another folder to run it in.
            is_plain && call.is_inside() && pattern.matches(&part.raw())
        }
        (Pattern::Place(place), Unit::Path(path)) => {
            place.matches(path.real, call.cwd, call.home, Reach::Exact) == Some(true)
        }
        _ => false,
    }
}

/// Tells whether a deny or ask rule speaks of a part. When in doubt it perhaps does.
pub(super) fn protects(rule: &Rule, case: &Case<'_>, unit: &Unit<'_>) -> Fit {
    let call = case.call;
    if let Unit::Written(name) = unit {
        return protects_written(rule, case, name.as_deref());
    }
    if let Pattern::Place(place) = rule.pattern() {
        // A pattern names a place, and a place is protected against every tool of its kind; a
        // bare name forbids one tool.
        let family = FileTools::of(rule.tool());
        if family.is_none() || family != FileTools::of(case.tool) {
            return Fit::No;
        }
        let Unit::Path(path) = unit else {
            return Fit::Perhaps("the call does not say which files it touches");
        };
        return match place.matches(path.real, call.cwd, call.home, Reach::Beneath) {
            Some(true) => Fit::Yes,
            Some(false) => Fit::No,
            None => Fit::Perhaps("the path cannot be compared"),
        };
    }
    if !tool_name::covers(rule.tool(), case.tool) {
        return Fit::No;
    }
    match (rule.pattern(), unit) {
        (Pattern::Any, _) => Fit::Yes,
        (Pattern::Shell(pattern), Unit::Command(part)) => {
            let texts = std::iter::once(part.raw()).chain(part.resolved());
            let mut programs = [part.program(), part.base_name()].into_iter();
            if texts.into_iter().any(|text| pattern.matches(&text)) {
                Fit::Yes
            } else if part.has_unknown() && programs.any(|program| pattern.concerns(program)) {
                Fit::Perhaps("an argument is known only when the command runs")
            } else {
                Fit::No
            }
        }
        (Pattern::Shell(_), _) => match &case.script {
            Some(script) => script.opaque.map_or(Fit::No, Fit::Perhaps),
            None => Fit::Perhaps("the call does not say which command it runs"),
        },
        (Pattern::Domain, _) => Fit::Perhaps("the call does not say which host it asks"),
        (Pattern::Place(_), _) => Fit::No,
    }
}

/// Tells whether a protecting rule speaks of a place against tools that read. When in doubt it
/// does.
pub(super) fn hides(rule: &Rule, cwd: &Path, home: Option<&Path>, real: &Path) -> bool {
    let Pattern::Place(place) = rule.pattern() else { return false };
    FileTools::of(rule.tool()) == Some(FileTools::Read)
        && place.matches(real, cwd, home, Reach::Beneath) != Some(false)
}

/// Tells whether a deny rule forbids to read any file. The bare name of a tool that searches
/// forbids that tool alone.
pub(super) fn forbids_reading(rule: &Rule) -> bool {
    *rule.pattern() == Pattern::Any && matches!(rule.tool(), "*" | "read_file")
}

/// A redirection writes a file as `write_file` does, so rules for that hold for it.
fn protects_written(rule: &Rule, case: &Case<'_>, name: Option<&Path>) -> Fit {
    let call = case.call;
    match rule.pattern() {
        Pattern::Any if rule.tool() == "write_file" => Fit::Yes,
        Pattern::Place(place) if FileTools::of(rule.tool()) == Some(FileTools::Write) => {
            let Some(name) = name else {
                return Fit::Perhaps("the file that it writes is known only when it runs");
            };
            match place.matches(name, call.cwd, call.home, Reach::Beneath) {
                Some(true) => Fit::Yes,
                Some(false) => Fit::No,
                None => Fit::Perhaps("the path cannot be compared"),
            }
        }
        _ => Fit::No,
    }
}
