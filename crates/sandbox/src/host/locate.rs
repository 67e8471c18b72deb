//! Where a path really leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use driver_api::{EntryKind, FileStat, Located, WorkspaceError};
use rustix::fs::{lstat, readlink};
use rustix::io::Errno;

use super::{refusal, stat_of};

/// How many links may be followed: what Linux itself allows.
const LINKS_MAX: usize = 40;

/// How many bytes a path may have: what Linux itself allows.
const PATH_MAX: usize = 4096;

/// What paths are relative to.
#[derive(Debug)]
pub(super) struct Locator {
    pub(super) cwd: PathBuf,
    pub(super) roots: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

impl Locator {
    /// Follows every link of a path, also where its last parts do not exist (yet).
    pub(super) fn locate(&self, path: &str) -> Result<Located, WorkspaceError> {
        let whole = self.absolute(path)?;
        let (real, stat) = follow(&whole).map_err(|error| match error {
            Errno::LOOP => WorkspaceError::Unfit(format!("{path} leads through too many links")),
            other => refusal(&io::Error::from(other), "locate", path),
        })?;
        // Roots may lie in each other: the innermost says most.
        let root = self.roots.iter().filter(|root| real.starts_with(root));
        let root = root.max_by_key(|root| root.components().count()).cloned();
        Ok(Located { real, root, stat })
    }

    fn absolute(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        if path.is_empty() {
            return Err(WorkspaceError::Unfit("the path is empty".to_owned()));
        }
        if path.contains('\0') {
            return Err(WorkspaceError::Unfit(format!("{path:?} contains a NUL byte")));
        }
        if path.len() >= PATH_MAX {
            let text = format!("a path of {} bytes is too long", path.len());
            return Err(WorkspaceError::Unfit(text));
        }
        let below_home = if path == "~" { Some("") } else { path.strip_prefix("~/") };
        match (below_home, &self.home) {
            // The path may have more slashes; joined as it is it would be absolute.
            (Some(rest), Some(home)) => Ok(home.join(rest.trim_start_matches('/'))),
            (Some(_), None) => {
                Err(WorkspaceError::Unfit(format!("{path}: the home folder is not known")))
            }
            (None, _) => Ok(self.cwd.join(path)),
        }
    }
}

/// Returns the real path and what is there. `path` is absolute.
fn follow(path: &Path) -> Result<(PathBuf, Option<FileStat>), Errno> {
    let mut ahead = parts(path);
    let mut real = PathBuf::from("/");
    let mut stat = Some(stat_of(&lstat("/")?));
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            // What was followed so far has no links in it, so this is the true parent. Parts
            // that do not exist are taken back the same way.
            real.pop();
            stat = look(&real)?;
            continue;
        }
        real.push(&part);
        stat = look(&real)?;
        if stat.is_some_and(|stat| stat.kind == EntryKind::Link) {
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
            stat = look(&real)?;
        }
    }
    Ok((real, stat))
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    named.collect()
}

fn look(path: &Path) -> Result<Option<FileStat>, Errno> {
    match lstat(path) {
        Ok(stat) => Ok(Some(stat_of(&stat))),
        // Below a file nothing exists either; whoever opens it is told so.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}
