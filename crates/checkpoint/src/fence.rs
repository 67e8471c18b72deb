//! Places that are never captured and never touched: the checkpoints themselves, and whatever else
//! the program keeps while a turn runs. A turn that is taken back must not take them back with it.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, lstat};

use crate::beneath::below;
use crate::node::Key;

#[derive(Debug)]
pub(crate) struct Fence {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    key: Key,
    /// Device and inode: the same place may be reached under another path, by a bind mount.
    identity: Option<(u64, u64)>,
    /// Names that go on with a dash belong to a file: databases keep such files beside them.
    is_file: bool,
}

impl Place {
    fn holds(&self, key: &Key) -> bool {
        let rest = key.as_bytes().strip_prefix(self.key.as_bytes());
        let is_beside = self.is_file && rest.is_some_and(|rest| rest.starts_with(b"-"));
        is_beside || below(&self.key, key).is_some()
    }
}

impl Fence {
    /// `own` is the folder of the checkpoints. Of the other places those that hold a root do not
    /// count: a workspace within the data folder is a workspace like any other.
    pub(crate) fn around(own: &Path, left_out: &[PathBuf], roots: &[Key]) -> Self {
        let holds_root =
            |key: &Key| roots.iter().any(|root| root != key && below(key, root).is_some());
        let others = left_out.iter().map(|path| real(path)).filter(|key| !holds_root(key));
        let mut keys: Vec<Key> = std::iter::once(real(own)).chain(others).collect();
        keys.sort();
        keys.dedup();
        let places = keys.into_iter().map(|key| {
            let stat = lstat(key.path()).ok();
            let identity = stat.map(|stat| (stat.st_dev, stat.st_ino));
            let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
            Place { key, identity, is_file: kind == Some(FileType::RegularFile) }
        });
        Self { places: places.collect() }
    }

    /// Whether a path that is looked at is such a place, under whatever name.
    pub(crate) fn is_at(&self, key: &Key, stat: &Stat) -> bool {
        let identity = Some((stat.st_dev, stat.st_ino));
        self.places.iter().any(|place| place.holds(key) || place.identity == identity)
    }

    /// Returns the place that a path is or lies in.
    pub(crate) fn place_of(&self, key: &Key) -> Option<&Key> {
        self.places.iter().find(|place| place.holds(key)).map(|place| &place.key)
    }
}

/// Follows all links on the way to a path, as far as there is something.
fn real(path: &Path) -> Key {
    for above in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            let whole = if rest.as_os_str().is_empty() { found } else { found.join(rest) };
            return Key::of(&whole);
        }
    }
    Key::of(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn places_are_real_and_those_that_hold_a_root_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("home/kept")).unwrap();
        fs::write(base.join("store"), "").unwrap();
        symlink("home", base.join("link")).unwrap();
        let key = |below: &str| Key::of(&base.join(below));
        let own = base.join("link/kept");
        let left_out = [base.join("link"), base.join("link/none/file"), base.join("store")];
        let place = |root: &str, path: &str| {
            let fence = Fence::around(&own, &left_out, &[key(root)]);
            fence.place_of(&key(path)).cloned()
        };
        let cases = [
            ("", "home/rules", Some("home")),
            ("", "home", Some("home")),
            ("", "home-made", None),
            ("", "store-wal", Some("store")),
            ("", "stores", None),
            ("home", "home/rules", Some("home")),
            ("home/repo", "home/repo/file", None),
            ("home/repo", "home/none/file", Some("home/none/file")),
            ("home/kept/repo", "home/kept/repo/file", Some("home/kept")),
        ];
        for (root, path, expected) in cases {
            assert_eq!(place(root, path), expected.map(key), "{root} {path}");
        }
    }

    #[test]
    fn a_place_is_known_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::write(base.join("store"), "").unwrap();
        fs::write(base.join("file"), "").unwrap();
        fs::hard_link(base.join("store"), base.join("other")).unwrap();
        let fence = Fence::around(&base.join("kept"), &[base.join("store")], &[]);
        let is_at = |name: &str| {
            let path = base.join(name);
            fence.is_at(&Key::of(&path), &lstat(&path).unwrap())
        };
        assert_eq!([is_at("store"), is_at("other"), is_at("file")], [true, true, false]);
    }
}
