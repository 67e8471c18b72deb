//! What a patch does to the files as they are: made and checked first, then carried out.

use driver_api::{CallFacts, Located, ToolError, ToolOutcome, Workspace, WorkspaceError};
use protocol::event::FileStamp;

use super::apply::apply;
use super::patch::{Change, Hunk, Patch};
use crate::change::{self, FileChange};
use crate::limit::FILE_BYTES_MAX;
use crate::seen::Check;
use crate::text_file;
use crate::{place, seen};

/// The most bytes of all files of one patch together; they are held until all are written.
const TOTAL_BYTES_MAX: usize = 128 << 20;

/// The permission bits that a file takes along: who may read, write and run it. Bits that change
/// whose rights a program has are given by nobody unasked.
const MODE_BITS: u32 = 0o777;

/// A file that the patch touches.
#[derive(Debug)]
struct File {
    located: Located,
    name: String,
    /// What is there; none where nothing is.
    before: Option<Vec<u8>>,
    /// What will be there.
    after: Option<Vec<u8>>,
    /// The permission bits of what is there, or of what moves here; none for a new file, which
    /// gets the usual ones.
    mode: Option<u32>,
}

/// What will be done, in the order of the patch.
#[derive(Debug)]
pub(super) struct Plan {
    files: Vec<File>,
    lines: Vec<String>,
    notes: Vec<String>,
}

impl Plan {
    /// Works the patch out against the files; changes nothing.
    pub(super) async fn make(
        patch: &Patch,
        facts: &CallFacts,
        workspace: &dyn Workspace,
        check: Check<'_>,
    ) -> Result<Self, ToolError> {
        let mut plan = Self { files: Vec::new(), lines: Vec::new(), notes: patch.notes.clone() };
        let mut index = 0;
        for change in &patch.changes {
            let first = plan.open(place::judged(facts, index)?, workspace, check).await?;
            index += 1;
            let second = match change {
                Change::Update { move_to: Some(_), .. } => {
                    let target = place::judged(facts, index)?;
                    index += 1;
                    Some(plan.open(target, workspace, check).await?)
                }
                Change::Update { .. } | Change::Add { .. } | Change::Delete { .. } => None,
            };
            plan.add(change, first, second)
                .map_err(|error| ToolError::Invalid(format!("{error}\nno file was changed")))?;
        }
        Ok(plan)
    }

    /// Reads a file, or finds it among those that earlier changes of the patch touch.
    async fn open(
        &mut self,
        located: &Located,
        workspace: &dyn Workspace,
        check: Check<'_>,
    ) -> Result<usize, ToolError> {
        let known = self.files.iter().position(|file| file.located.real == located.real);
        if let Some(known) = known {
            return Ok(known);
        }
        let (before, mode) = match workspace.read(located, FILE_BYTES_MAX).await {
            Ok(contents) => (Some(contents.bytes), Some(contents.stat.mode & MODE_BITS)),
            Err(WorkspaceError::NotFound(_)) => (None, None),
            Err(error) => return Err(error.into()),
        };
        if let Some(bytes) = &before {
            check(located, bytes)?;
        }
        let held: usize =
            self.files.iter().filter_map(|file| file.before.as_ref()).map(Vec::len).sum();
        if held + before.as_ref().map_or(0, Vec::len) > TOTAL_BYTES_MAX {
            let limit = stdx::bytes(TOTAL_BYTES_MAX as u64);
            return Err(ToolError::Invalid(format!(
                "the files of the patch are larger than {limit}"
            )));
        }
        let name = place::shown(workspace, &located.real);
        let after = before.clone();
        self.files.push(File { located: located.clone(), name, before, after, mode });
        Ok(self.files.len() - 1)
    }

    fn add(&mut self, change: &Change, first: usize, second: Option<usize>) -> Result<(), String> {
        let missing = || "the patch lost a file".to_owned();
        let file = self.files.get_mut(first).ok_or_else(missing)?;
        match change {
            Change::Add { content, .. } => {
                if file.after.is_some() {
                    return Err(format!("{} exists already; update it instead", file.name));
                }
                file.after = Some(content.clone().into_bytes());
                self.lines.push(format!("created {}", file.name));
            }
            Change::Delete { hunks, .. } => {
                let rest = file.changed(hunks)?;
                if !hunks.is_empty() && !rest.is_empty() {
                    return Err(format!("the patch does not describe all of {}", file.name));
                }
                file.after = None;
                self.lines.push(format!("deleted {}", file.name));
            }
            Change::Update { hunks, .. } => {
                let bytes = file.changed(hunks)?;
                let (from, mode) = (file.name.clone(), file.mode);
                match second {
                    None => {
                        file.after = Some(bytes);
                        self.lines.push(format!("updated {from}"));
                    }
                    Some(second) => {
                        file.after = None;
                        let target = self.files.get_mut(second).ok_or_else(missing)?;
                        // A move onto itself is an update: the file was emptied just now.
                        if target.after.is_some() {
                            return Err(format!("{} exists already", target.name));
                        }
                        target.after = Some(bytes);
                        // Where something is, its bits stay, as with any writing.
                        target.mode = target.mode.or(mode);
                        self.lines.push(format!("moved {from} to {}", target.name));
                    }
                }
            }
        }
        Ok(())
    }

    fn touched(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.before != file.after)
    }

    /// Returns what the patch does, file by file.
    pub(super) fn changes(&self) -> Vec<FileChange> {
        self.touched().map(File::change).collect()
    }

    /// Writes everything; what was written before a failure is put back.
    pub(super) async fn carry_out(
        self,
        workspace: &dyn Workspace,
    ) -> Result<ToolOutcome, ToolError> {
        // Files go away last: until then nothing is lost.
        let is_removal = |file: &&File| file.after.is_none();
        let (removals, writes): (Vec<_>, Vec<_>) = self.touched().partition(is_removal);
        let mut done: Vec<&File> = Vec::new();
        for file in writes.into_iter().chain(removals) {
            match put(workspace, file, file.after.as_deref()).await {
                Ok(()) => done.push(file),
                Err(error) => return Err(put_back(workspace, &done, file, error).await),
            }
        }
        let mut text = self.lines.join("\n");
        for file in self.files.iter().filter(|file| file.before == file.after) {
            text.push_str(&format!("\n{} stays as it was", file.name));
        }
        for note in &self.notes {
            text.push_str(&format!("\n({note})"));
        }
        let files = self.files.iter().map(File::stamp).collect();
        Ok(ToolOutcome {
            display: Some(change::display(&self.changes())),
            files,
            ..ToolOutcome::text(text)
        })
    }
}

impl File {
    /// Returns what the file will contain after some hunks.
    fn changed(&self, hunks: &[Hunk]) -> Result<Vec<u8>, String> {
        let name = &self.name;
        let bytes = self.after.clone().ok_or_else(|| format!("{name} does not exist"))?;
        if hunks.is_empty() {
            return Ok(bytes);
        }
        let file =
            text_file::decode(bytes).map_err(|kind| format!("{name} is not a text: {kind}"))?;
        let text = apply(&file.text, hunks).map_err(|error| format!("{name}: {error}"))?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        Ok(file.encoding.encode(&text))
    }

    fn stamp(&self) -> FileStamp {
        match &self.after {
            Some(bytes) => seen::stamp(&self.located.real, bytes),
            None => seen::gone(&self.located.real),
        }
    }

    fn change(&self) -> FileChange {
        let text = |bytes: &Option<Vec<u8>>| bytes.clone().map(change::diffable);
        FileChange { name: self.name.clone(), old: text(&self.before), new: text(&self.after) }
    }
}

async fn put(
    workspace: &dyn Workspace,
    file: &File,
    bytes: Option<&[u8]>,
) -> Result<(), WorkspaceError> {
    match (bytes, file.mode) {
        // What moved, and what was removed and is put back, has the bits that it had.
        (Some(bytes), Some(mode)) => {
            workspace.write_with_mode(&file.located, bytes, mode).await.map(|_| ())
        }
        (Some(bytes), None) => workspace.write(&file.located, bytes).await.map(|_| ()),
        (None, _) => workspace.remove(&file.located).await,
    }
}

async fn put_back(
    workspace: &dyn Workspace,
    done: &[&File],
    failed: &File,
    error: WorkspaceError,
) -> ToolError {
    let mut lost = Vec::new();
    for file in done.iter().rev() {
        if put(workspace, file, file.before.as_deref()).await.is_err() {
            lost.push(file.name.as_str());
        }
    }
    let rest = match lost.as_slice() {
        [] => "no file is changed".to_owned(),
        lost => format!("these could not be put back and are changed: {}", lost.join(", ")),
    };
    ToolError::Invalid(format!("{} could not be written: {error}; {rest}", failed.name))
}
