//! Why work on a file was refused.

use std::io;

use rustix::io::Errno;

use super::Kind;

/// Why work on a file was refused. Nothing was changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No such file or folder.
    #[error("{0} does not exist")]
    NotFound(String),
    /// It is not what was asked for, for example a folder instead of a file.
    #[error("{0}")]
    Unfit(String),
    /// The operating system forbids it.
    #[error("permission denied: {0}")]
    Forbidden(String),
    /// It is larger than the limit.
    #[error("{path} has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The path changed between the check and the use, for example a folder became a link.
    #[error("{0} changed while it was used")]
    Raced(String),
    /// The system failed; the text says at what.
    #[error("{0}")]
    Failed(String),
}

impl FileError {
    /// Says why the system refused something.
    pub fn of_io(error: &io::Error, what: &str, shown: &str) -> Self {
        let Some(errno) = Errno::from_io_error(error) else {
            return Self::Failed(format!("{what} {shown}: {error}"));
        };
        match errno {
            Errno::NOENT => Self::NotFound(shown.to_owned()),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Forbidden(shown.to_owned()),
            Errno::ISDIR => Self::Unfit(format!("{shown} is a folder")),
            Errno::NOTDIR => {
                Self::Unfit(format!("{shown} lies below something that is not a folder"))
            }
            Errno::NAMETOOLONG => Self::Unfit(format!("{shown} is too long for a path")),
            Errno::INVAL => Self::Unfit(format!("{shown} is no possible path")),
            Errno::NXIO | Errno::NODEV => {
                Self::Unfit(format!("{shown} is a device, pipe or socket, not a file"))
            }
            _ => Self::Failed(format!("{what} {shown}: {error}")),
        }
    }
}

pub(super) fn check_kind(kind: Kind, shown: &str) -> Result<(), FileError> {
    match kind {
        Kind::File => Ok(()),
        Kind::Folder => Err(FileError::Unfit(format!("{shown} is a folder"))),
        Kind::Other => {
            Err(FileError::Unfit(format!("{shown} is a device, pipe or socket, not a file")))
        }
        // All links were followed when the path was located.
        Kind::Link => Err(FileError::Raced(shown.to_owned())),
    }
}

pub(super) fn check_size(shown: &str, size: u64, limit: u64) -> Result<(), FileError> {
    if size > limit {
        return Err(FileError::TooLarge { path: shown.to_owned(), size, limit });
    }
    Ok(())
}
