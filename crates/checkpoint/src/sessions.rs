//! Which trees each session has: a file per session, a line per captured tree, oldest first.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use protocol::SessionId;

use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::objects::{read_small, sync_folder, write_new};

/// How long the file of one session may be: a million captures.
const LIST_BYTES_MAX: u64 = 65 << 20;
/// How long an id may be to serve as the name of a file; what is longer is hashed.
const NAME_LENGTH_MAX: usize = 64;
/// A hash in hexadecimal digits and the end of its line.
const LINE_LENGTH: u64 = 65;

#[derive(Debug)]
pub(crate) struct Sessions {
    folder: PathBuf,
}

/// The trees of one session.
#[derive(Debug)]
pub(crate) struct Trees {
    pub(crate) path: PathBuf,
    /// Oldest first; a tree that was captured twice stands where it was captured last.
    pub(crate) trees: Vec<Hash>,
}

impl Sessions {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.join("sessions") }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, session: &SessionId) -> PathBuf {
        let id = session.as_str();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_name = !id.is_empty() && id.len() <= NAME_LENGTH_MAX && id.bytes().all(is_plain);
        if is_name {
            self.folder.join(id)
        } else {
            self.folder.join(format!("id.{}", Hash::of(id.as_bytes())))
        }
    }

    fn trees(&self, session: &SessionId) -> Vec<Hash> {
        read_small(&self.path(session), LIST_BYTES_MAX).map_or_else(Vec::new, |text| lines(&text))
    }

    pub(crate) fn newest(&self, session: &SessionId) -> Option<Hash> {
        self.trees(session).pop()
    }

    /// Writes down that a session has a tree, durably. Returns whether that was news.
    pub(crate) fn add(&self, session: &SessionId, tree: &Hash) -> Result<bool> {
        if self.newest(session).as_ref() == Some(tree) {
            return Ok(false);
        }
        self.append(session, &[*tree]).map(|()| true)
    }

    /// Lets a session have all trees of another one, beneath those that it has.
    pub(crate) fn adopt(&self, from: &SessionId, to: &SessionId) -> Result<()> {
        let own = self.trees(to);
        let mut trees = self.trees(from);
        trees.retain(|tree| !own.contains(tree));
        if trees.is_empty() {
            return Ok(());
        }
        // The newest line tells which paths are known: that stays the session's own.
        trees.extend(own.last());
        self.append(to, &trees)
    }

    fn append(&self, session: &SessionId, trees: &[Hash]) -> Result<()> {
        let text: String = trees.iter().map(|tree| format!("{tree}\n")).collect();
        let path = self.path(session);
        let is_new = !path.exists();
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            // Where a crash cut the last line, the next one must not be joined to it.
            let length = file.metadata()?.len();
            if length % LINE_LENGTH != 0 {
                file.set_len(length - length % LINE_LENGTH)?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| Error::io("write", &path, error))?;
        if is_new { sync_folder(&self.folder) } else { Ok(()) }
    }

    /// Returns the trees of all sessions.
    pub(crate) fn all(&self) -> Result<Vec<Trees>> {
        let failed = |error| Error::io("list", &self.folder, error);
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let text = match fs::read(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("read", &path, error)),
            };
            all.push(Trees { path, trees: lines(&text) });
        }
        Ok(all)
    }

    pub(crate) fn forget(&self, session: &SessionId) -> Result<()> {
        remove(&self.path(session))
    }
}

impl Trees {
    /// Keeps only some trees; the file goes when none is left.
    pub(crate) fn retain(&self, kept: &HashSet<Hash>) -> Result<()> {
        let left: Vec<_> = self.trees.iter().filter(|tree| kept.contains(tree)).collect();
        if left.is_empty() {
            return remove(&self.path);
        }
        if left.len() == self.trees.len() {
            return Ok(());
        }
        let text: String = left.iter().map(|tree| format!("{tree}\n")).collect();
        let aside = self.path.with_extension("new");
        remove(&aside)?;
        write_new(&aside, text.as_bytes())?
            .sync_all()
            .and_then(|()| fs::rename(&aside, &self.path))
            .map_err(|error| Error::io("write", &self.path, error))
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn lines(text: &[u8]) -> Vec<Hash> {
    let whole = text.split_inclusive(|byte| *byte == b'\n');
    let all: Vec<_> = whole
        .filter_map(|line| std::str::from_utf8(line.strip_suffix(b"\n")?).ok())
        .filter_map(Hash::from_hex)
        .collect();
    let mut seen = HashSet::new();
    let mut trees: Vec<_> = all.into_iter().rev().filter(|tree| seen.insert(*tree)).collect();
    trees.reverse();
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_crash_cut_is_no_tree() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(folder.path());
        fs::create_dir(sessions.folder()).unwrap();
        let session = SessionId::new("ses_1");
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| Hash::of(text));
        sessions.add(&session, &a).unwrap();
        sessions.add(&session, &b).unwrap();
        let path = sessions.path(&session);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 10]).unwrap();
        assert_eq!(sessions.newest(&session), Some(a));
        sessions.add(&session, &c).unwrap();
        assert_eq!(sessions.all().unwrap()[0].trees, [a, c]);
        sessions.add(&session, &a).unwrap();
        assert_eq!(sessions.all().unwrap()[0].trees, [c, a]);
    }

    #[test]
    fn no_id_leads_out_of_the_folder() {
        let sessions = Sessions::new(Path::new("/x"));
        let long = "a".repeat(65);
        for id in ["", ".", "..", "../y", "a/b", "ä", long.as_str()] {
            let path = sessions.path(&SessionId::new(id));
            assert_eq!(path.parent(), Some(sessions.folder()), "{id}");
            assert!(path.file_name().unwrap().to_string_lossy().starts_with("id."), "{id}");
        }
    }
}
