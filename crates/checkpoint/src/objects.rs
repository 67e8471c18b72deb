//! Kept contents, each under its own hash: file contents and pieces of manifests in one place,
//! the heads of manifests in another, so that a head can go before what it names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use crate::error::{Error, Result};
use crate::hash::Hash;

/// The largest object that is read back: the largest file that settings allow, and far more than
/// any manifest. Without it a damaged length would ask for all memory.
const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// The fastest of the usual levels: a checkpoint is in the way of a turn.
const LEVEL: i32 = 1;
/// The bytes before the contents: how they are kept, and how long they are.
const HEAD_LENGTH: usize = 9;

const AS_IT_IS: u8 = 0;
const COMPRESSED: u8 = 1;

/// Which of the two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shelf {
    /// File contents and pieces of manifests.
    Contents,
    /// Heads of manifests.
    Trees,
}

impl Shelf {
    fn folder(self) -> &'static str {
        match self {
            Self::Contents => "objects",
            Self::Trees => "trees",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Objects {
    folder: PathBuf,
}

impl Objects {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn shelf(&self, shelf: Shelf) -> PathBuf {
        self.folder.join(shelf.folder())
    }

    /// Returns the place of an object: 256 folders, so that none grows too long.
    pub(crate) fn place(&self, shelf: Shelf, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        self.folder.join(shelf.folder()).join(first).join(rest)
    }

    pub(crate) fn has(&self, shelf: Shelf, hash: &Hash) -> bool {
        self.place(shelf, hash).is_file()
    }

    /// Reads an object and holds it against its name.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Damaged`].
    pub(crate) fn read(&self, shelf: Shelf, hash: &Hash) -> Result<Vec<u8>> {
        let path = self.place(shelf, hash);
        let packed = match fs::read(&path) {
            Ok(packed) => packed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing(*hash));
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let bytes = unpack(&packed).filter(|bytes| Hash::of(bytes) == *hash);
        bytes.ok_or(Error::Damaged(*hash))
    }

    /// Returns when an object was written or last touched; the beginning of time where it is not.
    pub(crate) fn time(&self, shelf: Shelf, hash: &Hash) -> SystemTime {
        let metadata = fs::metadata(self.place(shelf, hash));
        metadata.and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Gives an object the time of now.
    pub(crate) fn touch(&self, shelf: Shelf, hash: &Hash) -> Result<()> {
        let path = self.place(shelf, hash);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let touched = utimensat(CWD, &path, &times, AtFlags::empty());
        touched.map_err(|error| Error::io("set the time of", &path, error))
    }

    /// Takes an object away, where there is one.
    pub(crate) fn remove(&self, shelf: Shelf, hash: &Hash) {
        let _gone = fs::remove_file(self.place(shelf, hash));
    }
}

pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(bytes, LEVEL).ok();
    let (how, body) = match &packed {
        Some(packed) if packed.len() < bytes.len() => (COMPRESSED, packed.as_slice()),
        Some(_) | None => (AS_IT_IS, bytes),
    };
    let mut out = Vec::with_capacity(HEAD_LENGTH + body.len());
    out.push(how);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = packed.split_at_checked(HEAD_LENGTH)?;
    let (how, length) = head.split_first()?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    let length = usize::try_from(length.min(OBJECT_BYTES_MAX)).ok()?;
    match *how {
        AS_IT_IS => Some(body.to_vec()),
        COMPRESSED => zstd::bulk::decompress(body, length).ok(),
        _ => None,
    }
}

/// Makes a folder for its owner alone, and the folders above it.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::io("make the folder", path, error))
}

/// Writes a new file for its owner alone.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<File> {
    let write = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        Ok(file)
    };
    write().map_err(|error| Error::io("write", path, error))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|error| Error::io("sync", path, error))
}

/// Reads a small file of ours whole; nothing where there is none.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).ok()?.take(bytes_max + 1);
    file.read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_unpacked_as_they_were() {
        let noise: Vec<u8> =
            (0u32..4096).flat_map(|n| Hash::of(&n.to_le_bytes()).as_bytes().to_vec()).collect();
        for bytes in [Vec::new(), b"a".to_vec(), vec![7; 100_000], noise] {
            let packed = pack(&bytes);
            assert!(packed.len() <= bytes.len() + HEAD_LENGTH);
            assert_eq!(unpack(&packed), Some(bytes));
        }
    }

    #[test]
    fn damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::new(folder.path());
        let bytes = b"some text, some text, some text, some text";
        let hash = Hash::of(bytes);
        let place = objects.place(Shelf::Contents, &hash);
        assert!(matches!(objects.read(Shelf::Contents, &hash), Err(Error::Missing(_))));
        make_folder(place.parent().unwrap()).unwrap();
        let packed = pack(bytes);
        for length in 0..packed.len() {
            fs::write(&place, &packed[..length]).unwrap();
            assert!(matches!(objects.read(Shelf::Contents, &hash), Err(Error::Damaged(_))));
        }
        fs::write(&place, &packed).unwrap();
        assert_eq!(objects.read(Shelf::Contents, &hash).unwrap(), bytes);
        fs::write(&place, pack(b"another text")).unwrap();
        assert!(matches!(objects.read(Shelf::Contents, &hash), Err(Error::Damaged(_))));
    }
}
