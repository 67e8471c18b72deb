//! Whether a rule speaks of a part of a call.
//!
//! Rules that allow are read narrowly and rules that protect (deny, ask) widely: where it cannot
//! be told, an allow rule does not match and a protecting rule perhaps does.

use std::path::{Component, Path, PathBuf};

use protocol::event::DeniedBy;
use protocol::{Effect, Mode};

use crate::call::Homes;
use crate::place::Reach;
use crate::rule::Pattern;
use crate::shell::{Part, Script};
use crate::tool_name::{self, FileTools};
use crate::{Call, Decision, PathUse, Rule, Verdict, by_mode};

use super::{Case, command};

/// A part of a call that is judged by itself.
pub(super) enum Unit<'a> {
    /// A simple command of the call's command line.
    Command(&'a Part),
    /// A path of the call.
    Path(PathUse<'a>),
    /// A file that a redirection writes, by its name without a look at links; `None` when the
    /// name is known only when it runs. Judged as `write_file`.
    Written(Option<PathBuf>),
    /// A file that a redirection reads. Judged as `read_file`.
    Fed(Option<PathBuf>),
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

impl Case<'_> {
    /// Tells whether one allow rule covers every part of a call.
    pub(crate) fn is_granted_by(&self, rule: &Rule) -> bool {
        let files = written(self);
        let is_free = |unit: &Unit<'_>| {
            default_of_file(Mode::Ask, self, unit).is_some_and(|it| it.decision == Decision::Allow)
        };
        units(self).iter().all(|unit| grants(rule, self, unit))
            && files.iter().all(|unit| is_free(unit) || grants(rule, self, unit))
    }
}

/// Returns the files that the redirections of a command write and read.
pub(super) fn written(case: &Case<'_>) -> Vec<Unit<'static>> {
    let Some(script) = &case.script else { return Vec::new() };
    let cwd = folder(case);
    // Whoever looks links up may say which places are really written.
    let real = case.call.paths.iter().filter(|path| path.is_write);
    let real = real.map(|path| Unit::Written(Some(path.real.to_path_buf())));
    let named = script.writes.iter().map(|file| {
        let name = file.name.as_deref().map(|name| flat(&cwd.join(name)));
        if file.is_write { Unit::Written(name) } else { Unit::Fed(name) }
    });
    real.chain(named).collect()
}

/// Returns the folder that a command starts in.
fn folder<'a>(case: &'a Case<'_>) -> &'a Path {
    // It is the one path that a command's arguments name.
    let named = case.call.paths.iter().find(|path| !path.is_write);
    named.map_or(case.call.cwd, |path| path.real)
}

/// Says what a mode says to a file that a redirection writes or reads.
pub(super) fn default_of_file(mode: Mode, case: &Case<'_>, unit: &Unit<'_>) -> Option<Verdict> {
    let (name, effect) = match unit {
        Unit::Written(name) => (name, Effect::Write),
        Unit::Fed(name) => (name, Effect::Read),
        _ => return None,
    };
    let Some(name) = name else {
        return Some(match mode {
            Mode::FullAuto => by_mode::verdict(mode, case.call, effect),
            _ => {
                let reason = "the file that a redirection opens is known only when it runs";
                Verdict::new(Decision::Ask, DeniedBy::Mode, reason)
            }
        });
    };
    // Links are not looked at here, so a name counts as what it says.
    let is_inside = name.starts_with(case.call.cwd) || name.starts_with(folder(case));
    let paths = [PathUse { real: name, is_write: effect == Effect::Write, is_inside }];
    let call = Call { effect, command: None, paths: &paths, ..*case.call };
    Some(by_mode::verdict(mode, &call, effect))
}

/// Tells whether a line stays in the folder that it starts in, and beneath.
fn stays_inside(case: &Case<'_>, script: &Script) -> bool {
    script.folders.iter().all(|target| {
        let Some(name) = target.as_deref().map(Path::new) else { return false };
        if name.is_absolute() {
            let flat = flat(name);
            return flat.starts_with(case.call.cwd) || flat.starts_with(folder(case));
        }
        name.components().all(|part| part != Component::ParentDir)
    })
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
    if let Unit::Written(name) | Unit::Fed(name) = unit {
        return grants_file(rule, case, unit, name.as_deref());
    }
    if !tool_name::covers(rule.tool(), case.tool) {
        return false;
    }
    let call = case.call;
    match (rule.pattern(), unit) {
        (Pattern::Any, _) => true,
        (Pattern::Shell(pattern), Unit::Command(part)) => {
            let Some(script) = &case.script else { return false };
            // A rule for a command does not speak of another folder to run it in.
            script.blocked.is_none()
                && call.is_inside()
                && stays_inside(case, script)
                && command::grants(rule, pattern, script, part)
        }
        (Pattern::Place(place), Unit::Path(path)) => {
            place.matches(path.real, call.cwd, call.homes, Reach::Exact) == Some(true)
                && (!path.is_write || names_what_acts(rule, call, path.real))
        }
        (Pattern::Domain(domain), Unit::Whole) => call.host.is_some_and(|it| domain.covers(it)),
        _ => false,
    }
}

/// Tells whether a pattern that covers a path means it, where the path decides what other programs
/// run: `**` was not written with `.git/hooks` in mind, so a rule has to name such a place.
fn names_what_acts(rule: &Rule, call: &Call<'_>, path: &Path) -> bool {
    let beneath = path.strip_prefix(call.cwd).unwrap_or(path);
    let text = rule.pattern_text().unwrap_or_default().to_ascii_lowercase();
    by_mode::acts(beneath).is_none_or(|name| text.contains(name))
}

/// Tells whether an allow rule covers a file that a redirection opens: a rule for the tool that
/// does so by name, or for every use of the shell.
fn grants_file(rule: &Rule, case: &Case<'_>, unit: &Unit<'_>, name: Option<&Path>) -> bool {
    let tool = if matches!(unit, Unit::Written(_)) { "write_file" } else { "read_file" };
    match (rule.pattern(), name) {
        (Pattern::Any, _) => {
            tool_name::covers(rule.tool(), tool) || tool_name::covers(rule.tool(), case.tool)
        }
        (Pattern::Place(place), Some(name)) if rule.tool() == tool => {
            place.matches(name, case.call.cwd, case.call.homes, Reach::Exact) == Some(true)
                && (tool != "write_file" || names_what_acts(rule, case.call, name))
        }
        _ => false,
    }
}

/// Tells whether a deny or ask rule speaks of a part. When in doubt it perhaps does.
pub(super) fn protects(rule: &Rule, case: &Case<'_>, unit: &Unit<'_>) -> Fit {
    let call = case.call;
    if let Unit::Written(name) | Unit::Fed(name) = unit {
        return protects_file(rule, case, unit, name.as_deref());
    }
    if let (Pattern::Place(_), Unit::Command(part)) = (rule.pattern(), unit) {
        return named_by(rule, case, part);
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
        return match place.matches(path.real, call.cwd, call.homes, Reach::Beneath) {
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
        (Pattern::Shell(pattern), Unit::Command(part)) => command::protects(rule, pattern, part),
        (Pattern::Shell(_), _) => match &case.script {
            Some(script) => script.opaque.map_or(Fit::No, Fit::Perhaps),
            None => Fit::Perhaps("the call does not say which command it runs"),
        },
        (Pattern::Domain(domain), _) => match call.host {
            Some(host) if domain.covers(host) => Fit::Yes,
            Some(_) => Fit::No,
            None => Fit::Perhaps("the call does not say which host it asks"),
        },
        (Pattern::Place(_), _) => Fit::No,
    }
}

/// Programs that change the files that their arguments name.
const CHANGING: [&str; 13] = [
    "rm", "rmdir", "mv", "cp", "ln", "tee", "dd", "touch", "truncate", "install", "chmod", "chown",
    "shred",
];

/// A file that an argument of a command names. Whether the program opens it is for the program to
/// know, so a rule that protects it perhaps speaks of the command.
fn named_by(rule: &Rule, case: &Case<'_>, part: &Part) -> Fit {
    let Pattern::Place(place) = rule.pattern() else { return Fit::No };
    let family = FileTools::of(rule.tool());
    let changes = CHANGING.contains(&part.trusted_name());
    if family == Some(FileTools::Write) && !changes {
        return Fit::No;
    }
    let folder = folder(case);
    for word in part.words.iter().skip(1).filter(|word| !word.is_unknown()) {
        // The file of `--file=NAME` and of `@NAME`.
        let text = word.text.rsplit_once('=').map_or(word.text.as_str(), |(_, value)| value);
        let text = text.strip_prefix('@').unwrap_or(text);
        if text.is_empty() || text.starts_with('-') {
            continue;
        }
        let name = match (text.strip_prefix("~/"), case.call.homes.own) {
            (Some(rest), Some(home)) => flat(&home.join(rest)),
            _ => flat(&folder.join(text)),
        };
        if place.matches(&name, case.call.cwd, case.call.homes, Reach::Beneath) == Some(true) {
            return Fit::Perhaps("an argument names a file that it protects");
        }
    }
    Fit::No
}

/// Tells whether a protecting rule speaks of a place against tools that read. When in doubt it
/// does.
pub(super) fn hides(rule: &Rule, cwd: &Path, homes: Homes<'_>, real: &Path) -> bool {
    let Pattern::Place(place) = rule.pattern() else { return false };
    FileTools::of(rule.tool()) == Some(FileTools::Read)
        && place.matches(real, cwd, homes, Reach::Beneath) != Some(false)
}

/// Tells whether a deny rule forbids to read any file. The bare name of a tool that searches
/// forbids that tool alone.
pub(super) fn forbids_reading(rule: &Rule) -> bool {
    *rule.pattern() == Pattern::Any && matches!(rule.tool(), "*" | "read_file")
}

/// A redirection opens a file as `write_file` or `read_file` does, so rules for these hold for it.
fn protects_file(rule: &Rule, case: &Case<'_>, unit: &Unit<'_>, name: Option<&Path>) -> Fit {
    let call = case.call;
    let (tool, family) = match unit {
        Unit::Written(_) => ("write_file", FileTools::Write),
        _ => ("read_file", FileTools::Read),
    };
    match rule.pattern() {
        Pattern::Any if rule.tool() == tool => Fit::Yes,
        Pattern::Place(place) if FileTools::of(rule.tool()) == Some(family) => {
            let Some(name) = name else {
                return Fit::Perhaps("the file that it opens is known only when it runs");
            };
            match place.matches(name, call.cwd, call.homes, Reach::Beneath) {
                Some(true) => Fit::Yes,
                Some(false) => Fit::No,
                None => Fit::Perhaps("the path cannot be compared"),
            }
        }
        _ => Fit::No,
    }
}
