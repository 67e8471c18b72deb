//! What the two ends of file work call the same things.

use ::agent::files::{Facts, FileError, Kind, Target, WRITE_MAX};
use driver_api::{EntryKind, Fault, FileStat, Located, WorkspaceError};

pub(crate) fn target(file: &Located) -> Target {
    Target { real: file.real.clone(), root: file.root.clone() }
}

pub(crate) fn located((target, facts): (Target, Option<Facts>)) -> Located {
    Located { real: target.real, root: target.root, stat: facts.map(stat) }
}

pub(crate) fn stat(facts: Facts) -> FileStat {
    let kind = match facts.kind {
        Kind::File => EntryKind::File,
        Kind::Folder => EntryKind::Folder,
        Kind::Link => EntryKind::Link,
        Kind::Other => EntryKind::Other,
    };
    FileStat { kind, size: facts.size, mode: facts.mode, modified_ns: facts.modified_ns }
}

pub(crate) fn refusal(error: FileError) -> WorkspaceError {
    match error {
        FileError::NotFound(text) => WorkspaceError::NotFound(text),
        FileError::Unfit(text) => WorkspaceError::Unfit(text),
        FileError::Forbidden(text) => WorkspaceError::Forbidden(text),
        FileError::TooLarge { path, size, limit } => WorkspaceError::TooLarge { path, size, limit },
        FileError::Raced(text) => WorkspaceError::Raced(text),
        FileError::Failed(text) => Fault::new(text).into(),
    }
}

/// Refuses what is too long to be written before it is copied.
pub(crate) fn check_write(file: &Located, bytes: &[u8]) -> Result<(), WorkspaceError> {
    let (size, limit) = (bytes.len() as u64, WRITE_MAX);
    if size > limit {
        return Err(WorkspaceError::TooLarge { path: file.shown(), size, limit });
    }
    Ok(())
}
