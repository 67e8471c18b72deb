//! What paths hold, and whether two of them hold the same.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use driver_api::Held;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

/// Bytes of a text that is shown whole in a diff: more is no reading for a person.
const TEXT_BYTES_MAX: u64 = 256 << 10;

/// Bytes of all texts together; what comes after that is shown by its size. They are held in
/// memory.
const TEXTS_BYTES_MAX: u64 = 16 << 20;

/// How much is compared at once.
const CHUNK: usize = 64 << 10;

/// The bits of a file's mode that are brought over: never those that lend its owner's rights.
pub(super) const BITS: u32 = 0o777;

/// Opens a regular file without following a link and without waiting for anybody.
pub(super) fn open_plainly(folder: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Tells whether two entries of one name hold the same, as far as it is brought over.
pub(super) fn is_same(
    (upper, above): (&OwnedFd, &Stat),
    (lower, beneath): (&OwnedFd, &Stat),
    name: &CStr,
) -> Result<bool, Errno> {
    match (kind(above), kind(beneath)) {
        (FileType::Directory, FileType::Directory) => Ok(true),
        (FileType::Symlink, FileType::Symlink) => {
            Ok(readlinkat(upper, name, Vec::new())? == readlinkat(lower, name, Vec::new())?)
        }
        (FileType::RegularFile, FileType::RegularFile) => {
            if above.st_size != beneath.st_size || (above.st_mode ^ beneath.st_mode) & BITS != 0 {
                return Ok(false);
            }
            let mut one = File::from(open_plainly(upper, name)?);
            // What may not be read is not the same as far as one can tell.
            let Ok(other) = open_plainly(lower, name) else { return Ok(false) };
            equal(&mut one, &mut File::from(other))
        }
        _ => Ok(false),
    }
}

fn equal(one: &mut File, other: &mut File) -> Result<bool, Errno> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let (had, has) = (fill(one, &mut left)?, fill(other, &mut right)?);
        if left.get(..had) != right.get(..has) {
            return Ok(false);
        }
        if had == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the room is full or the file ends.
fn fill(file: &mut File, room: &mut [u8]) -> Result<usize, Errno> {
    let mut have = 0;
    while have < room.len() {
        match rustix::io::retry_on_intr(|| {
            rustix::io::read(&*file, room.get_mut(have..).unwrap_or_default())
        })? {
            0 => break,
            count => have += count,
        }
    }
    Ok(have)
}

/// Reads texts, as long as there is room for them.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: u64,
}

impl Texts {
    /// Says what an entry holds.
    pub(super) fn held(
        &mut self,
        folder: &OwnedFd,
        name: &CStr,
        stat: &Stat,
    ) -> Result<Held, Errno> {
        Ok(match kind(stat) {
            FileType::Directory => Held::Folder,
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                Held::Link(target.to_string_lossy().into_owned())
            }
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                match self.text(folder, name, size) {
                    Some(text) => Held::Text(text),
                    None => Held::Bytes(size),
                }
            }
            _ => Held::Other,
        })
    }

    fn text(&mut self, folder: &OwnedFd, name: &CStr, size: u64) -> Option<String> {
        if size > TEXT_BYTES_MAX || self.bytes + size > TEXTS_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::from(open_plainly(folder, name).ok()?);
        file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        let read = u64::try_from(bytes.len()).ok().filter(|read| *read <= TEXT_BYTES_MAX)?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        self.bytes += read;
        Some(text)
    }
}
