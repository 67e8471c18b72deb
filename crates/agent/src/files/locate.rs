//! Where a path really leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{lstat, readlink};
use rustix::io::Errno;

use super::{Facts, FileError, Kind, Target};

/// How many links may be followed: what Linux itself allows.
const LINKS_MAX: usize = 40;

/// How many bytes a path may have: what Linux itself allows.
const PATH_MAX: usize = 4096;

/// What paths are relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locator {
    /// The working folder, real and absolute.
    pub cwd: PathBuf,
    /// The roots, real and absolute.
    pub roots: Vec<PathBuf>,
    /// What `~/` stands for.
    pub home: Option<PathBuf>,
}

impl Locator {
    /// Follows every link of a path (relative to the working folder, absolute, or with `~/`),
    /// also where its last parts do not exist (yet), and tells what is there.
    ///
    /// # Errors
    /// [`FileError::Unfit`] for a path that cannot be, [`FileError::Forbidden`]. That nothing is
    /// there is none.
    pub fn locate(&self, path: &str) -> Result<(Target, Option<Facts>), FileError> {
        let whole = self.absolute(path)?;
        let (real, facts) = follow(&whole).map_err(|error| match error {
            Errno::LOOP => FileError::Unfit(format!("{path} leads through too many links")),
            other => FileError::of_io(&io::Error::from(other), "locate", path),
        })?;
        // Roots may lie in each other: the innermost says most.
        let root = self.roots.iter().filter(|root| real.starts_with(root));
        let root = root.max_by_key(|root| root.components().count()).cloned();
        Ok((Target { real, root }, facts))
    }

    fn absolute(&self, path: &str) -> Result<PathBuf, FileError> {
        if path.is_empty() {
            return Err(FileError::Unfit("the path is empty".to_owned()));
        }
        if path.contains('\0') {
            return Err(FileError::Unfit(format!("{path:?} contains a NUL byte")));
        }
        if path.len() >= PATH_MAX {
            let text = format!("a path of {} bytes is too long", path.len());
            return Err(FileError::Unfit(text));
        }
        let below_home = if path == "~" { Some("") } else { path.strip_prefix("~/") };
        match (below_home, &self.home) {
            // The path may have more slashes; joined as it is it would be absolute.
            (Some(rest), Some(home)) => Ok(home.join(rest.trim_start_matches('/'))),
            (Some(_), None) => {
                Err(FileError::Unfit(format!("{path}: the home folder is not known")))
            }
            (None, _) => Ok(self.cwd.join(path)),
        }
    }
}

/// Returns the real path and what is there. `path` is absolute.
fn follow(path: &Path) -> Result<(PathBuf, Option<Facts>), Errno> {
    let mut ahead = parts(path);
    let mut real = PathBuf::from("/");
    let mut facts = Some(Facts::of(&lstat("/")?));
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            // What was followed so far has no links in it, so this is the true parent. Parts
            // that do not exist are taken back the same way.
            real.pop();
            facts = look(&real)?;
            continue;
        }
        real.push(&part);
        facts = look(&real)?;
        if facts.is_some_and(|facts| facts.kind == Kind::Link) {
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP);
            }
            let target = readlink(&real, Vec::new())?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for part in parts(&target).into_iter().rev() {
                ahead.push_front(part);
            }
            // Where the link was the last part and leads to "/" or ".", nothing follows it.
            facts = look(&real)?;
        }
    }
    Ok((real, facts))
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

fn look(path: &Path) -> Result<Option<Facts>, Errno> {
    match lstat(path) {
        Ok(facts) => Ok(Some(Facts::of(&facts))),
        // Below a file nothing exists either; whoever opens it is told so.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}
