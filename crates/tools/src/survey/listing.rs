//! What `find` prints.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver_api::{
    EntryKind, Exit, ExitStatus, Output, Spawn, ToolContext, ToolError, WorkspaceError,
};
use tokio::sync::mpsc;

use super::{ENTRIES_MAX, ENTRIES_SHOWN, Found};
use crate::walk::Unseen;

/// Pieces of output that wait to be taken; then `find` waits.
const OUTPUT_QUEUE_MAX: usize = 64;

/// Bytes of one entry: two of the longest paths and three numbers.
const ENTRY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of complaints that are kept: enough for the first of them.
const COMPLAINTS_BYTES_MAX: usize = 4 * 1024;

/// How long `find` has to end by itself once it is told to.
const KILL_GRACE: Duration = Duration::from_millis(100);

/// The fields of one entry, each ended by a NUL: kind, size, time, what a link names, path.
const FORMAT: &str = "%y\\0%s\\0%T@\\0%l\\0%P\\0";

/// How many fields an entry has.
const FIELDS: usize = 5;

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) found: Vec<Found>,
    pub(super) unseen: Unseen,
}

/// Lists everything beneath a folder but what is in `.git` folders.
pub(super) async fn list(
    root: &Path,
    depth: Option<usize>,
    context: &ToolContext,
) -> Result<Listed, ToolError> {
    let (output, mut pieces) = mpsc::channel(OUTPUT_QUEUE_MAX);
    let spawn = spawn(root, depth, context);
    let started = context.workspace.spawn(spawn, output).await;
    let mut process = started.map_err(|error| match error {
        WorkspaceError::NotFound(_) => cannot("there is no find"),
        other => other.into(),
    })?;
    let mut reading = Reading::default();
    let exit = {
        let exit = process.wait();
        tokio::pin!(exit);
        loop {
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => {
                    reading.listed.unseen.is_stopped = true;
                    break None;
                }
                Some(piece) = pieces.recv() => {
                    reading.take(&piece)?;
                    if reading.listed.found.len() >= ENTRIES_MAX {
                        reading.listed.unseen.cut_at = Some(ENTRIES_SHOWN);
                        break None;
                    }
                }
                exit = &mut exit => break Some(exit?),
            }
        }
    };
    match exit {
        None => process.kill(KILL_GRACE),
        Some(exit) => {
            while let Ok(piece) = pieces.try_recv() {
                reading.take(&piece)?;
            }
            reading.end(exit)?;
        }
    }
    reading.listed.found.truncate(ENTRIES_MAX);
    Ok(reading.listed)
}

fn spawn(root: &Path, depth: Option<usize>, context: &ToolContext) -> Spawn {
    let mut argv = vec!["find".to_owned(), root.display().to_string()];
    if let Some(depth) = depth {
        argv.extend(["-maxdepth".to_owned(), depth.to_string()]);
    }
    let rest = ["-printf", FORMAT, "-name", ".git", "-prune"];
    argv.extend(rest.map(str::to_owned));
    // Its complaints are counted, not read.
    let env = vec![("LC_ALL".to_owned(), Some("C".to_owned()))];
    Spawn { argv, cwd: context.workspace.cwd().to_owned(), env, stdin: Vec::new() }
}

fn cannot(why: &str) -> ToolError {
    ToolError::Invalid(format!(
        "this workspace cannot be searched: {why}; use run_shell with ls and grep instead"
    ))
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Reading {
    listed: Listed,
    /// What follows the last whole entry.
    rest: Vec<u8>,
    complaints: Vec<u8>,
}

impl Reading {
    fn take(&mut self, piece: &Output) -> Result<(), ToolError> {
        match piece {
            Output::Stdout(bytes) => {
                self.rest.extend_from_slice(bytes);
                self.entries()
            }
            Output::Stderr(bytes) => {
                let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                self.listed.unseen.unreadable += lines as u64;
                let room = COMPLAINTS_BYTES_MAX.saturating_sub(self.complaints.len());
                self.complaints.extend(bytes.iter().take(room));
                Ok(())
            }
        }
    }

    fn entries(&mut self) -> Result<(), ToolError> {
        let mut used = 0;
        let mut fields: Vec<&[u8]> = Vec::with_capacity(FIELDS);
        let mut begin = 0;
        for (at, byte) in self.rest.iter().enumerate() {
            if *byte != 0 {
                continue;
            }
            fields.push(self.rest.get(begin..at).unwrap_or_default());
            begin = at + 1;
            if let [kind, size, time, target, path] = fields[..] {
                let found = entry(kind, size, time, target, path);
                self.listed.found.push(found.ok_or_else(|| cannot("its find prints odd things"))?);
                fields.clear();
                used = begin;
            }
        }
        self.rest.drain(..used);
        if self.rest.len() > ENTRY_BYTES_MAX {
            return Err(cannot("its find prints odd things"));
        }
        Ok(())
    }

    /// A `find` that printed nothing at all did not understand what it was told.
    fn end(&self, exit: Exit) -> Result<(), ToolError> {
        if exit.status == ExitStatus::Code(0) || !self.listed.found.is_empty() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&self.complaints);
        Err(cannot(said.lines().next().unwrap_or("its find failed")))
    }
}

fn entry(kind: &[u8], size: &[u8], time: &[u8], target: &[u8], path: &[u8]) -> Option<Found> {
    let text = |field| std::str::from_utf8(field).ok();
    let name = |field: &[u8]| PathBuf::from(OsString::from_vec(field.to_vec()));
    let kind = match kind {
        b"f" => EntryKind::File,
        b"d" => EntryKind::Folder,
        b"l" => EntryKind::Link,
        _ => EntryKind::Other,
    };
    Some(Found {
        inner: name(path),
        kind,
        size: text(size)?.parse().ok()?,
        modified_ns: nanoseconds(text(time)?)?,
        target: (!target.is_empty()).then(|| name(target)),
    })
}

/// Reads seconds with up to nine digits behind the point that count.
fn nanoseconds(time: &str) -> Option<i128> {
    let (whole, part) = time.split_once('.').unwrap_or((time, ""));
    let part = format!("{:0<9}", part.get(..9).unwrap_or(part));
    Some(whole.parse::<i128>().ok()? * 1_000_000_000 + part.parse::<i128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_any_pieces() {
        let printed = b"d\x004096\x001700000000.5\x00\x00\x00\
                        f\x0012\x001700000000.1234567890\x00\x00a\nb\x00\
                        l\x001\x001\x00../x\x00sub/l\x00";
        for size in 1..printed.len() {
            let mut reading = Reading::default();
            for piece in printed.chunks(size) {
                reading.take(&Output::Stdout(bytes::Bytes::copy_from_slice(piece))).unwrap();
            }
            let found = reading.listed.found;
            assert_eq!(found.len(), 3, "pieces of {size}");
            assert_eq!(
                (found[0].kind, found[0].modified_ns),
                (EntryKind::Folder, 17 * 10_i128.pow(17) + 500_000_000)
            );
            assert_eq!(found[1].inner, Path::new("a\nb"));
            assert_eq!(found[1].modified_ns % 1_000_000_000, 123_456_789);
            assert_eq!((found[1].size, found[2].depth()), (12, 2));
            assert_eq!(found[2].target.as_deref(), Some(Path::new("../x")));
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for odd in [&b"f\0x\x001\0\0a\0"[..], b"f\x001\0x\0\0a\0", &[b'x'; ENTRY_BYTES_MAX + 1]] {
            let mut reading = Reading::default();
            let piece = Output::Stdout(bytes::Bytes::copy_from_slice(odd));
            assert!(reading.take(&piece).is_err());
        }
    }
}
