//! What stands at a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Stat};

use crate::hash::Hash;
use crate::wire::{Reader, Writer};

/// The bits of a mode that are kept: permissions, set-id bits, the sticky bit.
const MODE_BITS: u32 = 0o7777;

/// An absolute path in bytes. The order puts a folder before what it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Box<[u8]>);

impl Key {
    pub(crate) fn of(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().into())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        self.path().parent().map(Self::of)
    }

    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if bytes.last() != Some(&b'/') {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes.into())
    }

    /// Returns the path as people read it. A name that is no text has its odd bytes written as
    /// `\xNN` and its backslashes doubled, so that nothing is lost.
    pub(crate) fn shown(&self) -> String {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return text.to_owned();
        }
        let mut shown = String::new();
        for piece in self.0.utf8_chunks() {
            shown.push_str(&piece.valid().replace('\\', "\\\\"));
            for byte in piece.invalid() {
                shown.push_str(&format!("\\x{byte:02x}"));
            }
        }
        shown
    }
}

/// Why something is there and not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Git,
    Ignored,
    Large,
    Unreadable,
    Special,
    Mount,
    /// The program's own data.
    Own,
    /// There is a name, and nothing can be learned about it.
    Unseen,
}

impl Why {
    /// Manifests hold positions in this list: what is new comes last.
    const ALL: [Self; 8] = [
        Self::Git,
        Self::Ignored,
        Self::Large,
        Self::Unreadable,
        Self::Special,
        Self::Mount,
        Self::Own,
        Self::Unseen,
    ];

    /// Whether nothing at all is known of it, not even whether it changed.
    pub(crate) fn is_blind(self) -> bool {
        matches!(self, Self::Git | Self::Ignored | Self::Mount | Self::Own | Self::Unseen)
    }

    /// Whether its coming and going says nothing either: the program's own files do so while turns
    /// run, and what cannot be looked at may be there in truth.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, Self::Own | Self::Unseen)
    }

    /// Says it of the older state, as half a sentence.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Git => "git's own folder is not kept",
            Self::Ignored => "it was ignored, so its older state is not kept",
            Self::Large => "it was too large to keep",
            Self::Unreadable => "it could not be read when the checkpoint was made",
            Self::Special => "it is no file, folder or link",
            Self::Mount => "it is on another mount",
            Self::Own => "it is this program's own data",
            Self::Unseen => "it could not be looked at when the checkpoint was made",
        }
    }
}

/// Something that is there and not kept. What is known of it tells whether it is still the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) why: Why,
    pub(crate) is_folder: bool,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Folder { mode: u32 },
    File { mode: u32, size: u64, hash: Hash },
    Link { target: Box<[u8]> },
    Left(Left),
}

impl Node {
    pub(crate) fn left(why: Why, stat: &Stat) -> Self {
        let stamp = Stamp::of(stat);
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let (mode, size, mtime_ns) = match why {
            Why::Git | Why::Ignored | Why::Mount | Why::Own | Why::Unseen => (0, 0, 0),
            // The time of a folder changes with every name in it.
            Why::Unreadable if is_folder => (stamp.mode, 0, 0),
            Why::Large | Why::Unreadable | Why::Special => (stamp.mode, stamp.size, stamp.mtime_ns),
        };
        Self::Left(Left { why, is_folder, mode, size, mtime_ns })
    }

    /// A name about which nothing is known.
    pub(crate) fn unseen() -> Self {
        let why = Why::Unseen;
        Self::Left(Left { why, is_folder: false, mode: 0, size: 0, mtime_ns: 0 })
    }

    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Self::Folder { mode } => to.number(0).number(u64::from(*mode)),
            Self::File { mode, size, hash } => {
                to.number(1).number(u64::from(*mode)).number(*size).hash(hash)
            }
            Self::Link { target } => to.number(2).bytes(target),
            Self::Left(left) => {
                let why = Why::ALL.iter().position(|why| *why == left.why).unwrap_or_default();
                to.number(3).number(why as u64).number(u64::from(left.is_folder));
                to.number(u64::from(left.mode)).number(left.size).signed(left.mtime_ns)
            }
        };
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mode = |from: &mut Reader<'_>| from.number().and_then(|mode| mode.try_into().ok());
        Some(match from.number()? {
            0 => Self::Folder { mode: mode(from)? },
            1 => Self::File { mode: mode(from)?, size: from.number()?, hash: from.hash()? },
            2 => Self::Link { target: from.bytes()?.into() },
            3 => {
                let why = usize::try_from(from.number()?).ok()?;
                Self::Left(Left {
                    why: *Why::ALL.get(why)?,
                    is_folder: from.number()? != 0,
                    mode: mode(from)?,
                    size: from.number()?,
                    mtime_ns: from.signed()?,
                })
            }
            _ => return None,
        })
    }
}

/// What tells, without reading, that a file is the one that was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            mode: stat.st_mode & MODE_BITS,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

fn nanoseconds(seconds: i64, rest: u64) -> i64 {
    let rest = i64::try_from(rest).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) node: Node,
}

#[cfg(test)]
mod tests;
