//! What git would ignore, folder by folder.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::beneath::{LISTED, PASSED, below};
use crate::node::Key;

pub(crate) const NAME: &str = ".gitignore";
pub(crate) const GIT: &str = ".git";
/// The largest file of rules that is read. Those of people have a few hundred lines.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// The rules of a folder and of those above it.
#[derive(Debug)]
pub(crate) struct Rules {
    above: Option<Arc<Self>>,
    folder: Key,
    matcher: Gitignore,
}

impl Rules {
    /// Reads the rules that hold at a root before its own: those of the folders above it, up to
    /// the top of its repository, and the repository's private ones.
    pub(crate) fn above(root: &Key) -> Option<Arc<Self>> {
        let top = root.path().ancestors().find(|folder| folder.join(GIT).exists())?;
        let mut rules = None;
        let mut folders: Vec<_> =
            root.path().ancestors().take_while(|folder| folder.starts_with(top)).collect();
        folders.reverse();
        let private = Path::new("info").join("exclude");
        if let Ok(git) = openat(CWD, top.join(GIT), LISTED | OFlags::CLOEXEC, Mode::empty()) {
            rules = Self::read(rules, &Key::of(top), &git, &private);
        }
        for folder in folders.into_iter().filter(|folder| *folder != root.path()) {
            if let Ok(open) = openat(CWD, folder, PASSED | OFlags::CLOEXEC, Mode::empty()) {
                rules = Self::read(rules, &Key::of(folder), &open, Path::new(NAME));
            }
        }
        rules
    }

    /// Adds a folder's own rules, where it has a file of them. As in git, a link is none.
    pub(crate) fn read(
        above: Option<Arc<Self>>,
        key: &Key,
        folder: &OwnedFd,
        name: &Path,
    ) -> Option<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, name, flags, Mode::empty()) else { return above };
        let mut text = Vec::new();
        if std::fs::File::from(file).take(RULES_BYTES_MAX).read_to_end(&mut text).is_err() {
            return above;
        }
        Self::parse(above, key, &text)
    }

    fn parse(above: Option<Arc<Self>>, folder: &Key, text: &[u8]) -> Option<Arc<Self>> {
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(text).trim_start_matches('\u{feff}').lines() {
            // A line that is no pattern is passed over, as git does.
            let _bad = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(matcher) if !matcher.is_empty() => {
                Some(Arc::new(Self { above, folder: folder.clone(), matcher }))
            }
            Ok(_) | Err(_) => above,
        }
    }

    /// Whether a path is ignored; what is in an ignored folder is not asked about.
    pub(crate) fn ignores(&self, key: &Key, is_folder: bool) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            if let Some(path) = below(&here.folder, key) {
                match here.matcher.matched(Path::new(OsStr::from_bytes(path)), is_folder) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            rules = here.above.as_deref();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_decides() {
        let of = |text: &str| Key::from_bytes(text.as_bytes());
        let top = Rules::parse(
            None,
            &of("/r"),
            b"\xef\xbb\xbf*.log\r\n/target\nbuild/\n[\n!keep.o\n*.tmp",
        );
        let rules = Rules::parse(top, &of("/r/a"), b"!b.log\n/only").unwrap();
        let cases = [
            ("/r/a/x.log", false, true),
            ("/r/a/b.log", false, false),
            ("/r/target", true, true),
            ("/r/a/target", true, false),
            ("/r/a/build", true, true),
            ("/r/a/build", false, false),
            ("/r/a/only", false, true),
            ("/r/a/c/only", false, false),
            ("/r/a/c/d.tmp", false, true),
            ("/r/keep.o", false, false),
        ];
        for (path, is_folder, is_ignored) in cases {
            assert_eq!(rules.ignores(&of(path), is_folder), is_ignored, "{path}");
        }
    }
}
