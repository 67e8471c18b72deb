//! Walking folders for the search tools.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driver_api::{Fault, ToolError, ToolHost};
use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};

/// How many entries one search visits: a home folder should not be walked to its end.
pub(crate) const VISITED_MAX: usize = 1_000_000;

/// [`VISITED_MAX`] as people read it.
pub(crate) const VISITED_SHOWN: &str = "1,000,000 entries";

/// Sets up a walk that honours `.gitignore` and `.ignore`, shows hidden files, leaves `.git` out
/// and does not follow links: what they lead to was not judged. The ignore file of the person's
/// own git settings is left out, so that a search gives the same everywhere.
///
/// Folders that a rule protects are not entered; of the files in the others the search asks
/// [`Guard::hides`], so that only those are counted that it would have shown.
pub(crate) fn builder(root: &Path, guard: &Guard) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    let guard = guard.clone();
    builder.hidden(false).require_git(false).git_global(false).follow_links(false).filter_entry(
        move |entry| entry.depth() == 0 || entry.file_name() != ".git" && guard.enters(entry),
    );
    builder
}

/// Keeps what a rule protects out of a search that was let into a folder above it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    host: Arc<dyn ToolHost>,
    /// Folders that were not entered.
    folders: Arc<AtomicU64>,
}

impl Guard {
    /// Makes the guard of one search.
    pub(crate) fn new(host: &Arc<dyn ToolHost>) -> Self {
        Self { host: Arc::clone(host), folders: Arc::default() }
    }

    fn enters(&self, entry: &DirEntry) -> bool {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let enters = !is_folder || self.host.may_read(entry.path());
        if !enters {
            self.folders.fetch_add(1, Ordering::Relaxed);
        }
        enters
    }

    /// Tells whether a file or link has to be left out. The path that the search starts from was
    /// judged itself. A link is judged by its own place and by that of its target; of one that
    /// leads nowhere there is nothing to read.
    pub(crate) fn hides(&self, entry: &DirEntry) -> bool {
        if entry.depth() == 0 {
            return false;
        }
        if !self.host.may_read(entry.path()) {
            return true;
        }
        let is_link = entry.path_is_symlink();
        is_link && entry.path().canonicalize().is_ok_and(|real| !self.host.may_read(&real))
    }

    /// Returns how many folders were not entered.
    pub(crate) fn folders(&self) -> u64 {
        self.folders.load(Ordering::Relaxed)
    }
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
    /// Files and links that a rule keeps from being read.
    pub(crate) hidden_files: u64,
    /// Folders that a rule keeps from being read; what they hold is not counted.
    pub(crate) hidden_folders: u64,
    /// Files that are larger than what is searched in a workspace elsewhere.
    pub(crate) large: u64,
    /// The limit that ended the walk, as people read it.
    pub(crate) cut_at: Option<&'static str>,
    /// Whether the walk was ended by a stop.
    pub(crate) is_stopped: bool,
}

impl Unseen {
    /// Tells whether a rule left something out.
    pub(crate) fn hides_any(self) -> bool {
        self.hidden_files + self.hidden_folders > 0
    }

    /// Returns notes for the end of a result, one line each.
    pub(crate) fn notes(self) -> String {
        let mut notes = String::new();
        if self.unreadable > 0 {
            let count = stdx::plural(self.unreadable, "place");
            notes.push_str(&format!("\n({count} could not be read)"));
        }
        if self.hides_any() {
            let files = stdx::plural(self.hidden_files, "file");
            let folders = stdx::plural(self.hidden_folders, "folder");
            let what = match (self.hidden_files, self.hidden_folders) {
                (_, 0) => files,
                (0, _) => folders,
                _ => format!("{files} and {folders}"),
            };
            let verb = if self.hidden_files + self.hidden_folders == 1 { "is" } else { "are" };
            notes.push_str(&format!(
                "\n({what} {verb} left out by a rule; read_file with the path of such a file asks \
                 for it where the rule leaves that open)"
            ));
        }
        if self.large > 0 {
            let count = stdx::plural(self.large, "file");
            notes.push_str(&format!("\n({count} larger than 8 MiB left out)"));
        }
        if let Some(limit) = self.cut_at {
            notes.push_str(&format!("\n(stopped after {limit}: search a smaller folder)"));
        }
        if self.is_stopped {
            notes.push_str("\n(stopped before the end)");
        }
        notes
    }
}
