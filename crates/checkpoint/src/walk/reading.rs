//! Reading one file whole, and noticing when it changes meanwhile.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::beneath::Root;
use crate::node::{Key, Stamp};

/// How often a file is read again that changed while it was read. A file that is always written
/// is kept as it was at the last try.
const TRIES: usize = 3;

#[derive(Debug)]
pub(crate) enum Outcome {
    Read { bytes: Vec<u8>, stamp: Stamp, is_steady: bool },
    Large(Stat),
    Gone,
    Unreadable,
}

pub(crate) fn read(root: &Root, key: &Key, bytes_max: u64) -> Outcome {
    // Without `NONBLOCK` a pipe that took the file's name would hold us until somebody writes.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match root.at(key, flags) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Outcome::Gone,
        Err(_) => return Outcome::Unreadable,
    };
    let mut last = Outcome::Gone;
    for _ in 0..TRIES {
        last = attempt(&file, bytes_max);
        if !matches!(&last, Outcome::Read { is_steady: false, .. }) {
            break;
        }
    }
    last
}

fn attempt(file: &OwnedFd, bytes_max: u64) -> Outcome {
    let Ok(before) = fstat(file) else { return Outcome::Unreadable };
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Outcome::Gone;
    }
    let stamp = Stamp::of(&before);
    if stamp.size > bytes_max {
        return Outcome::Large(before);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or_default() + 1);
    let read = || {
        let mut file = File::from(file.try_clone()?);
        std::io::Seek::rewind(&mut file)?;
        file.take(bytes_max + 1).read_to_end(&mut bytes)
    };
    if { read }().is_err() {
        return Outcome::Unreadable;
    }
    let Ok(after) = fstat(file) else { return Outcome::Unreadable };
    if bytes.len() as u64 > bytes_max {
        return Outcome::Large(after);
    }
    let is_steady = Stamp::of(&after) == stamp && bytes.len() as u64 == stamp.size;
    Outcome::Read { bytes, stamp, is_steady }
}
