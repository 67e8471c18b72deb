//! Walking folders for the search tools.

use std::path::Path;

use driver_api::{Fault, ToolError};
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

/// How many entries one search visits: a home folder should not be walked to its end.
pub(crate) const VISITED_MAX: usize = 1_000_000;

/// Sets up a walk that honours `.gitignore` and `.ignore`, shows hidden files, leaves `.git` out
/// and does not follow links: what they lead to was not judged. The ignore file of the person's
/// own git settings is left out, so that a search gives the same everywhere.
pub(crate) fn builder(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    builder
}

/// Compiles a glob. Without a slash it is matched against names at any depth, else against the
/// path from the searched folder on.
pub(crate) fn glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.starts_with('/') || pattern.starts_with("~/") || pattern.starts_with("../") {
        return Err(ToolError::Invalid(format!(
            "the glob {pattern} must be relative: name the folder in `path`"
        )));
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    let glob = glob.map_err(|error| {
        ToolError::Invalid(format!("the glob {pattern} cannot be read: {}", error.kind()))
    })?;
    Ok(glob.compile_matcher())
}

/// Runs a walk on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::with("search files", error).into())
}

/// Says what a search could not or would not see; empty when it saw everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Files and folders that could not be read.
    pub(crate) unreadable: u64,
    /// Whether the walk was ended by [`VISITED_MAX`].
    pub(crate) is_cut: bool,
    /// Whether the walk was ended by a stop.
    pub(crate) is_stopped: bool,
}

impl Unseen {
    /// Returns notes for the end of a result, one line each.
    pub(crate) fn notes(self) -> String {
        let mut notes = String::new();
        if self.unreadable > 0 {
            let count = stdx::plural(self.unreadable, "place");
            notes.push_str(&format!("\n({count} could not be read)"));
        }
        if self.is_cut {
            notes.push_str("\n(stopped after 1,000,000 entries: search a smaller folder)");
        }
        if self.is_stopped {
            notes.push_str("\n(stopped before the end)");
        }
        notes
    }
}
