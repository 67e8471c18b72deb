//! What is known about something that lies at a path.

use rustix::fs::{FileType, Stat};

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// The facts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// The permission bits, with those of set-user, set-group and the sticky one.
    pub mode: u32,
    /// When it was last changed, in nanoseconds since the epoch.
    pub modified_ns: i128,
}

impl Facts {
    /// Reads them from what the system says.
    pub(super) fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        #[allow(clippy::useless_conversion, reason = "the fields differ between architectures")]
        let (seconds, nanoseconds) = (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec));
        Self {
            kind,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: stat.st_mode & 0o7777,
            modified_ns: seconds * 1_000_000_000 + nanoseconds,
        }
    }
}
