//! Walking folders of a workspace whose files are not on this machine.
//!
//! One `find` in the workspace lists everything; what an ignore file names and what a rule
//! protects is left out here, by the same grammar that walks local folders.

mod ignored;
mod listing;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver_api::{EntryKind, Located, ToolContext, ToolError, ToolHost, Workspace};

use crate::walk::Unseen;
use ignored::Ignored;

/// How many entries one survey lists: each travels from the workspace, so fewer than a walk of a
/// local folder visits.
const ENTRIES_MAX: usize = 200_000;

/// [`ENTRIES_MAX`] as people read it.
const ENTRIES_SHOWN: &str = "200,000 entries";

/// How many entries are looked at in one go: a millisecond at most, so that others get their turn.
const STRETCH: usize = 500;

/// Something that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The path from the surveyed folder on; empty for that folder, or file, itself.
    pub(crate) inner: PathBuf,
    /// What it is.
    pub(crate) kind: EntryKind,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// When it was last changed, in nanoseconds since the epoch.
    pub(crate) modified_ns: i128,
    /// Where it leads, for a link.
    pub(crate) target: Option<PathBuf>,
}

impl Found {
    /// Returns how many folders deep it lies.
    pub(crate) fn depth(&self) -> usize {
        self.inner.components().count()
    }
}

/// What a survey found, parents before what is in them.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) found: Vec<Found>,
    pub(crate) unseen: Unseen,
    guard: Guard,
}

/// Keeps what a rule protects out.
#[derive(Debug)]
struct Guard {
    host: Arc<dyn ToolHost>,
    root: PathBuf,
}

impl Survey {
    /// Surveys a folder that was judged, `depth` levels deep.
    ///
    /// # Errors
    /// Where the workspace has no `find` that prints what is needed.
    pub(crate) async fn of(
        folder: &Located,
        depth: Option<usize>,
        context: &ToolContext,
    ) -> Result<Self, ToolError> {
        let root = &folder.real;
        let listed = listing::list(root, depth, context).await?;
        let guard = Guard { host: Arc::clone(&context.host), root: root.clone() };
        let mut survey = Self { found: Vec::new(), unseen: listed.unseen, guard };
        let says = |entry: &&Found| {
            let name = entry.inner.file_name().unwrap_or_default();
            [".ignore", ".gitignore", ".git"].iter().any(|says| name == *says)
        };
        let saying = listed.found.iter().filter(says);
        let saying: HashSet<PathBuf> = saying.map(|entry| root.join(&entry.inner)).collect();
        let mut ignored = Ignored::above(folder, &*context.workspace).await;
        // What lies beneath a folder that is left out comes right behind it.
        let mut left_out: Option<PathBuf> = None;
        let mut passed = 0_usize;
        let mut entries = listed.found.into_iter().peekable();
        while let Some(entry) = entries.next() {
            passed += 1;
            if passed.is_multiple_of(STRETCH) {
                tokio::task::yield_now().await;
            }
            if left_out.as_ref().is_some_and(|folder| entry.inner.starts_with(folder)) {
                continue;
            }
            left_out = None;
            let is_folder = entry.kind == EntryKind::Folder;
            let path = root.join(&entry.inner);
            let is_root = entry.inner.as_os_str().is_empty();
            if !is_root {
                if entry.inner.file_name().is_some_and(|name| name == ".git")
                    || ignored.names(&path, is_folder)
                {
                    left_out = is_folder.then_some(entry.inner);
                    continue;
                }
                if is_folder && !survey.guard.host.may_read(&path) {
                    survey.unseen.hidden_folders += 1;
                    left_out = Some(entry.inner);
                    continue;
                }
            }
            // The entry behind a folder lies in it, where it is not empty.
            let is_entered =
                entries.peek().is_some_and(|next| next.inner.starts_with(&entry.inner));
            if is_folder && is_entered {
                let is_there = |path: &Path| saying.contains(path);
                ignored.enter(&path, is_there, &*context.workspace).await;
            }
            survey.found.push(entry);
        }
        Ok(survey)
    }

    /// Counts a file or link that the search would have shown and that a rule protects; true for
    /// such a one. A link is judged by its own place and by that of what it names.
    pub(crate) fn hides(&mut self, entry: &Found) -> bool {
        let guard = &self.guard;
        if entry.inner.as_os_str().is_empty() {
            return false;
        }
        let path = guard.root.join(&entry.inner);
        let led = entry
            .target
            .as_ref()
            .map(|target| lexical(&path.parent().unwrap_or(&guard.root).join(target)));
        let is_hidden =
            !guard.host.may_read(&path) || led.is_some_and(|target| !guard.host.may_read(&target));
        if is_hidden {
            self.unseen.hidden_files += 1;
        }
        is_hidden
    }
}

/// Takes `.` and `..` out of a path, without a look at links.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Reads a small file of the workspace; none where it is not there, or no text of that size.
async fn small_text(path: &Path, limit: u64, workspace: &dyn Workspace) -> Option<String> {
    let located = workspace.locate(path.to_str()?).await.ok()?;
    // A link may lead to what nobody judged.
    if located.real != path {
        return None;
    }
    let contents = workspace.read(&located, limit).await.ok()?;
    String::from_utf8(contents.bytes).ok()
}
