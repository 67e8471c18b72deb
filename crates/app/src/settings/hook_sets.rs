//! Hooks and checks of every layer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use door_cli::Failure;
use narthex::{CommandChecks, HookOrigin, HookSet};

use super::document::{ChecksTable, read_text, unreadable};
use super::{Places, Project, Settings};

/// The file of a project's hooks, beside its settings.
const FILE: &str = ".narthex/hooks.json";

/// How long a check may take at most, in milliseconds: a person waits for it.
const CHECK_MS_MAX: u64 = 600_000;

/// Hooks and checks with the layers they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookSets {
    /// The hooks.
    pub(crate) hooks: Vec<(HookOrigin, HookSet)>,
    /// The checks; every one of them examines each change.
    pub(crate) checks: Vec<CommandChecks>,
}

impl HookSets {
    /// Takes what a settings file says.
    ///
    /// # Errors
    /// Names the file and what is wrong.
    pub(super) fn take(
        &mut self,
        origin: HookOrigin,
        hooks: &HookSet,
        checks: &ChecksTable,
        path: &Path,
    ) -> Result<(), Failure> {
        if !hooks.is_empty() {
            self.hooks.push((origin, hooks.clone()));
        }
        let Some(command) = &checks.command else { return Ok(()) };
        let wrong = |what: &str| Failure::usage(format!("{}: checks.{what}", path.display()));
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(wrong("command: expected a program and its arguments"));
        }
        let mut check = CommandChecks::new(command.clone());
        if let Some(limit) = checks.timeout_ms {
            if !(1..=CHECK_MS_MAX).contains(&limit) {
                return Err(wrong("timeout_ms: expected 1 to 600000"));
            }
            check.timeout = Duration::from_millis(limit);
        }
        self.checks.push(check);
        Ok(())
    }
}

/// A project's file of hooks.
#[derive(Clone, Debug)]
pub(crate) struct HooksFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) text: String,
}

impl HooksFile {
    /// Finds the file beside the project's settings, or where they would be.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(super) fn find(places: &Places, from: &Path) -> Result<Option<Self>, Failure> {
        let Some(path) = super::project::locate(places, from, FILE) else { return Ok(None) };
        match read_text(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// Reads what it says.
    ///
    /// # Errors
    /// Names the file, the place in it and what would be right.
    pub(super) fn read(&self) -> Result<HookSet, Failure> {
        HookSet::from_json(&self.text)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.path.display())))
    }
}

impl Settings {
    /// Takes the hooks of a project: those of its settings and of its file of hooks, where they
    /// are trusted.
    pub(super) fn take_project_hooks(
        &mut self,
        project: Option<&Project>,
        is_trusted: bool,
    ) -> Result<(), Failure> {
        if let Some(project) = project.filter(|project| project.is_trusted) {
            let (hooks, checks) = (&project.document.hooks, &project.document.checks);
            self.hook_sets.take(HookOrigin::Project, hooks, checks, &project.path)?;
        }
        let Some(file) = HooksFile::find(&self.places, &self.places.cwd)? else { return Ok(()) };
        let is_trusted =
            is_trusted || super::project::is_trusted(&self.places, &file.path, &file.text)?;
        if is_trusted {
            let checks = ChecksTable::default();
            return self.hook_sets.take(HookOrigin::Project, &file.read()?, &checks, &file.path);
        }
        self.notices.push(format!(
            "{} is not trusted, so its hooks do not run; to use them: narthex config trust",
            file.path.display()
        ));
        let lines = match file.read() {
            Ok(set) => super::offer::of_hooks(&set),
            Err(failure) => vec![format!("nothing, for it is wrong: {}", failure.message)],
        };
        self.offer(&file.path, lines);
        Ok(())
    }
}
