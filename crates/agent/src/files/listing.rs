//! What lies in a folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{AtFlags, Dir, OFlags, fstat, statat};
use rustix::io::Errno;

use super::beneath::Place;
use super::{Facts, FileError, Kind, Target};

/// How many entries a listing may have: more than anybody reads, and with names of the greatest
/// length they still fit into one frame.
pub const LIST_MAX: usize = 10_000;

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is; links are not followed.
    pub facts: Facts,
}

/// What lies in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The entries, by name.
    pub entries: Vec<Entry>,
    /// Whether there are more than were asked for.
    pub is_cut: bool,
}

/// Lists a folder: at most `limit` entries and at most [`LIST_MAX`].
///
/// # Errors
/// [`FileError::NotFound`], [`FileError::Unfit`] for what is no folder, [`FileError::Raced`].
pub fn list(folder: &Target, limit: usize) -> Result<Listing, FileError> {
    let place = Place::of(folder)?;
    let told = |error: Errno| place.refusal(error, "list");
    // NONBLOCK: a pipe must not hold up the open that finds out that it is none.
    let open = place.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(told)?;
    if Facts::of(&fstat(&open).map_err(told)?).kind != Kind::Folder {
        return Err(FileError::Unfit(format!("{} is not a folder", folder.shown())));
    }
    let limit = limit.min(LIST_MAX);
    let (mut entries, mut is_cut) = (Vec::new(), false);
    for entry in Dir::read_from(&open).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entries.len() == limit {
            is_cut = true;
            break;
        }
        match statat(&open, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(Entry {
                name: OsString::from_vec(name.to_bytes().to_vec()),
                facts: Facts::of(&stat),
            }),
            // It went since the folder was read.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(told(error)),
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Listing { entries, is_cut })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn target(path: &Path) -> Target {
        Target { real: path.to_owned(), root: Some(path.to_owned()) }
    }

    #[test]
    fn a_folder_is_listed_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::write(base.join("b"), "12").unwrap();
        std::fs::create_dir(base.join("a")).unwrap();
        symlink("nowhere", base.join("c")).unwrap();
        let whole = list(&target(&base), 3).unwrap();
        let seen: Vec<_> = whole
            .entries
            .iter()
            .map(|entry| (entry.name.to_str().unwrap(), entry.facts.kind))
            .collect();
        assert_eq!(seen, [("a", Kind::Folder), ("b", Kind::File), ("c", Kind::Link)]);
        assert!(!whole.is_cut);
        let cut = list(&target(&base), 2).unwrap();
        assert_eq!((cut.entries.len(), cut.is_cut), (2, true));
    }

    #[test]
    fn what_is_no_folder_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::write(base.join("file"), "").unwrap();
        symlink("/", base.join("link")).unwrap();
        let below = |name: &str| Target { real: base.join(name), root: Some(base.clone()) };
        assert!(matches!(list(&below("file"), 9), Err(FileError::Unfit(_))));
        assert!(matches!(list(&below("link"), 9), Err(FileError::Raced(_))));
        assert!(matches!(list(&below("none"), 9), Err(FileError::NotFound(_))));
    }
}
