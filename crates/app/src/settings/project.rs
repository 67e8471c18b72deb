//! A project's settings file, and whether its words may count.
//!
//! A repository can bring any file, so that nobody's settings change because they cloned one. A
//! file is trusted as it is: after a change it is asked about again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use door_cli::Failure;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Places;
use super::document::{Document, read_text, unreadable};
use super::hook_sets::HooksFile;
use super::permissions;

/// A project's file.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// Where it is.
    pub(crate) path: PathBuf,
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
        let text = read_text(&path).map_err(|error| unreadable(&path, &error));
        let is_trusted = is_trusted
            || match &text {
                Ok(text) => self::is_trusted(places, &path, text)?,
                Err(_) => false,
            };
        let read = text.and_then(|text| Document::parse(&text, &path));
        if is_trusted {
            let document = read?;
            let is_empty = document == Document::default();
            return Ok((!is_empty).then_some(Self { path, document, is_trusted, mistake: None }));
        }
        let read = read.and_then(|document| {
            permissions::check_deny(&document, &path)?;
            Ok(document)
        });
        let (document, mistake) = match read {
            Ok(document) if document == Document::default() => return Ok(None),
            Ok(document) => (document, None),
            Err(failure) => (Document::default(), Some(failure.message)),
        };
        Ok(Some(Self { path, document, is_trusted, mistake }))
    }
}

/// A project's settings, beneath its folder.
const FILE: &str = ".narthex/config.toml";

/// Finds a project's file of that name from a folder upwards, up to the top of its repository.
pub(super) fn locate(places: &Places, from: &Path, name: &str) -> Option<PathBuf> {
    for folder in from.ancestors() {
        let path = folder.join(name);
        // The user's own file may lie above a project; it is no project's.
        let is_users = same(&path, &places.user)
            || same(folder, &user_home(places))
            || path.parent().is_some_and(|parent| same(parent, &places.home));
        if path.is_file() && !is_users {
            return path.canonicalize().ok();
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
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
pub(super) fn is_trusted(places: &Places, path: &Path, text: &str) -> Result<bool, Failure> {
    Ok(read_trusted(places)?.files.get(path) == Some(&hash(text)))
}

/// Trusts the files of a folder as they are now, settings and hooks, and returns the first.
pub(crate) fn trust(places: &Places, folder: Option<&Path>) -> Result<PathBuf, Failure> {
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
    let Some((first, _)) = found.first().cloned() else {
        let text = format!("{} has no .narthex/config.toml to trust", folder.display());
        return Err(Failure::usage(text));
    };
    let mut trusted = read_trusted(places)?;
    trusted.files.extend(found.iter().map(|(path, text)| (path.clone(), hash(text))));
    let json = serde_json::to_string_pretty(&trusted)
        .map_err(|error| Failure::failed(format!("write trust: {error}")))?;
    write_private(&trust_file(places), &json)?;
    Ok(first)
}

/// Writes a file that only its owner can read, in one step.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let problem =
        |error: std::io::Error| Failure::failed(format!("write {}: {error}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(problem)?;
    // Made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(problem)?;
    file.write_all(text.as_bytes()).map_err(problem)?;
    file.as_file().sync_all().map_err(problem)?;
    file.persist(path).map_err(|error| problem(error.error))?;
    Ok(())
}
