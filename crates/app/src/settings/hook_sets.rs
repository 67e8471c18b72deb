//! Hooks and checks of every layer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use door_cli::Failure;
use narthex::{CommandChecks, HookLayer, HookOrigin, HookSet};

use super::document::{ChecksTable, read_text, unreadable};
use super::{Places, Project, Settings};

/// The file of a project's hooks, beside its settings.
const FILE: &str = ".narthex/hooks.json";

/// The folder of a project's files.
const FOLDER: &str = ".narthex";

/// How long a check may take at most, in milliseconds: a person waits for it.
const CHECK_MS_MAX: u64 = 600_000;

/// Hooks and checks with the layers they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookSets {
    /// The hooks.
    pub(crate) hooks: Vec<HookLayer>,
    /// The checks; every one of them examines each change.
    pub(crate) checks: Vec<CommandChecks>,
}

impl HookSets {
    /// Takes what a settings file of no project says.
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
        self.put((origin, hooks.clone()).into(), checks, path)
    }

    /// Takes what a file says, with the folder that its commands belong to.
    fn put(&mut self, layer: HookLayer, checks: &ChecksTable, path: &Path) -> Result<(), Failure> {
        let folder = layer.folder.clone();
        if !layer.set.is_empty() {
            self.hooks.push(layer);
        }
        let wrong = |what: &str| Failure::usage(format!("{}: checks.{what}", path.display()));
        let Some(command) = &checks.command else {
            return match checks.timeout_ms {
                Some(_) => Err(wrong("timeout_ms needs checks.command beside it")),
                None => Ok(()),
            };
        };
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
        check.folder = folder;
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
            let layer = of_project(&self.places.cwd, &project.path, &project.document.hooks);
            self.hook_sets.put(layer, &project.document.checks, &project.path)?;
        }
        let places = &self.places;
        self.notices.extend(super::project::passed_over(places, &places.cwd, FILE));
        let Some(file) = HooksFile::find(places, &places.cwd)? else { return Ok(()) };
        let is_trusted =
            is_trusted || super::project::is_trusted(&self.places, &file.path, &file.text)?;
        if is_trusted {
            let checks = ChecksTable::default();
            let layer = of_project(&self.places.cwd, &file.path, &file.read()?);
            return self.hook_sets.put(layer, &checks, &file.path);
        }
        self.notices.push(format!(
            "{} is not trusted, so its hooks do not run; to use them: narthex config trust",
            file.path.display()
        ));
        match file.read() {
            Ok(set) => self.offer(&file.path, &file.text, super::offer::of_hooks(&set)),
            // Trust in a file that is wrong would stop every start.
            Err(failure) => self.notices.push(format!("{}; it was left out", failure.message)),
        }
        Ok(())
    }
}

/// The hooks of a project's file, with the folder that they belong to: the one from which the file
/// was found, which is not where it lies when `.narthex` is a link.
fn of_project(cwd: &Path, file: &Path, set: &HookSet) -> HookLayer {
    let leads_to = |folder: &&Path| {
        let named = file.file_name().map(|name| folder.join(FOLDER).join(name));
        named.is_some_and(|path| path.canonicalize().is_ok_and(|real| real == file))
    };
    let folder = cwd.ancestors().find(leads_to).or_else(|| file.parent()?.parent());
    let folder = folder.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    HookLayer { origin: HookOrigin::Project, set: set.clone(), folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_s_hooks_belong_to_the_folder_that_holds_narthex() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (plain, linked) = (top.join("plain"), top.join("linked"));
        std::fs::create_dir_all(plain.join("sub/deep")).unwrap();
        std::fs::create_dir_all(plain.join(".narthex")).unwrap();
        std::fs::write(plain.join(FILE), "{}").unwrap();
        std::fs::create_dir_all(linked.join("sub")).unwrap();
        std::os::unix::fs::symlink(plain.join(".narthex"), linked.join(".narthex")).unwrap();
        let file = plain.join(FILE);
        for (cwd, folder) in [
            (plain.join("sub/deep"), &plain),
            (plain.clone(), &plain),
            (linked.join("sub"), &linked),
        ] {
            let layer = of_project(&cwd, &file, &HookSet::default());
            assert_eq!((layer.origin, layer.folder.as_ref()), (HookOrigin::Project, Some(folder)));
        }
    }

    #[test]
    fn what_a_project_says_keeps_its_folder() {
        let mut sets = HookSets::default();
        let set = r#"{"Stop": [{"hooks": [{"command": "./again"}]}]}"#;
        let set = HookSet::from_json(set).unwrap();
        let folder = Some(PathBuf::from("/w"));
        let layer = HookLayer { origin: HookOrigin::Project, set: set.clone(), folder };
        let command = Some(vec!["./lint".to_owned()]);
        let checks = ChecksTable { command, ..ChecksTable::default() };
        sets.put(layer.clone(), &checks, Path::new("/w/.narthex/config.toml")).unwrap();
        sets.take(HookOrigin::User, &set, &checks, Path::new("/home/config.toml")).unwrap();
        assert_eq!(sets.hooks, [layer, (HookOrigin::User, set).into()]);
        let folders = sets.checks.iter().map(|check| check.folder.as_deref());
        assert!(folders.eq([Some(Path::new("/w")), None]), "{:?}", sets.checks);
    }
}
