//! Whether this session knows what it is about to change.

use std::path::Path;

use driver_api::{
    Access, CallFacts, EntryKind, Located, PathFact, ToolContext, ToolError, ToolHost,
};
use protocol::event::FileStamp;
use sha2::{Digest, Sha256};

use crate::place;

/// How many bytes of the digest a stamp keeps: 32 hexadecimal digits.
const STAMP_BYTES: usize = 16;

/// Sees what is in a file before anything else is said of it, and may refuse its change.
pub(crate) type Check<'c> = &'c (dyn Fn(&Located, &[u8]) -> Result<(), ToolError> + Sync);

/// Lets a call look ahead: what a session knows matters when the change is made.
pub(crate) const LOOK_AHEAD: Check<'static> = &|_, _| Ok(());

/// Returns the hash of a file's contents as stamps carry it.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(STAMP_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Says what a file contains now.
pub(crate) fn stamp(path: &Path, bytes: &[u8]) -> FileStamp {
    FileStamp { path: path.display().to_string(), hash: Some(hash(bytes)) }
}

/// Says that a file is gone.
pub(crate) fn gone(path: &Path) -> FileStamp {
    FileStamp { path: path.display().to_string(), hash: None }
}

/// Says that a file has to be read before it is changed, if a call changes one that was not.
pub(crate) fn unread(facts: &CallFacts, host: &dyn ToolHost) -> Option<String> {
    if host.overwrites_unseen() {
        return None;
    }
    let is_there = |path: &&PathFact| {
        path.access == Access::Write
            && path.located.stat.is_some_and(|stat| stat.kind == EntryKind::File)
    };
    let mut written = facts.paths.iter().filter(is_there);
    let unread =
        written.find(|path| host.seen(&path.located.real.display().to_string()).is_none())?;
    Some(not_read(&unread.located.shown()))
}

fn not_read(name: &str) -> String {
    format!("{name} exists and has not been read in this session; read it first with read_file")
}

/// Refuses a change of a file that was not read in this session, or has changed since.
pub(crate) fn require_seen(
    context: &ToolContext,
    file: &Located,
    bytes: &[u8],
) -> Result<(), ToolError> {
    if context.host.overwrites_unseen() {
        return Ok(());
    }
    if context.host.seen(&file.real.display().to_string()).is_none() {
        let name = place::shown(&*context.workspace, &file.real);
        return Err(ToolError::Invalid(not_read(&name)));
    }
    require_unchanged(context, file, bytes)
}

/// Refuses a change of a file that has changed since this session last saw it, if it ever did.
pub(crate) fn require_unchanged(
    context: &ToolContext,
    file: &Located,
    bytes: &[u8],
) -> Result<(), ToolError> {
    match context.host.seen(&file.real.display().to_string()) {
        Some(_) if context.host.overwrites_unseen() => Ok(()),
        Some(known) if known != hash(bytes) => {
            let name = place::shown(&*context.workspace, &file.real);
            Err(ToolError::Invalid(format!(
                "{name} has changed since it was read; read it again with read_file"
            )))
        }
        Some(_) | None => Ok(()),
    }
}
