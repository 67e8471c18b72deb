//! `list_dir`: what is in a folder.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, EntryKind, Located, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec,
    Workspace,
};
use protocol::Effect;
use protocol::event::Display;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::limit::{OUTPUT_CHARS_MAX, grouped};
use crate::survey::Survey;
use crate::walk::{self, Guard, Unseen};
use crate::{arguments, place};

/// How many entries one listing shows.
const ENTRIES_MAX: usize = 500;

/// How many entries are kept while a folder is walked; the rest is only counted.
const KEPT_MAX: usize = 20_000;

/// How deep a listing may go.
const DEPTH_MAX: usize = 5;

/// Room for the notes at the end of a result.
const NOTES_CHARS_MAX: usize = 400;

/// The tool.
#[derive(Debug)]
pub(crate) struct ListDir {
    spec: ToolSpec,
}

impl Default for ListDir {
    fn default() -> Self {
        let spec = arguments::spec(
            "list_dir",
            "Lists a folder: folders end with /, files have sizes. Leaves out what .gitignore \
             names, and .git. At most 500 entries.",
            json!({
                "path": {"type": "string", "description": "Default: the working folder."},
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "description": "Levels; default 1."
                }
            }),
            &[],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    path: Option<&'a str>,
    depth: Option<usize>,
}

#[async_trait]
impl Tool for ListDir {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let path = arguments.path.unwrap_or(".");
        place::facts_of(path, Access::Read, workspace).await
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let folder = place::judged(facts, 0)?;
        place::require_folder(folder, context).await?;
        let depth = arguments.depth.unwrap_or(1).clamp(1, DEPTH_MAX);
        if !context.workspace.is_local() {
            return Ok(list_elsewhere(folder, depth, context).await?.outcome());
        }
        let (root, cancel) = (folder.real.clone(), context.cancel.clone());
        let guard = Guard::new(&context.host);
        let listing = walk::blocking(move || list(&root, depth, &guard, &cancel)).await?;
        Ok(listing.outcome())
    }
}

#[derive(Debug)]
struct Entry {
    depth: usize,
    path: PathBuf,
    shown: String,
}

#[derive(Debug, Default)]
struct Listing {
    entries: Vec<Entry>,
    total: usize,
    unseen: Unseen,
}

fn list(root: &Path, depth: usize, guard: &Guard, cancel: &CancellationToken) -> Listing {
    let mut listing = Listing::default();
    for entry in walk::builder(root, guard).max_depth(Some(depth)).build() {
        if cancel.is_cancelled() {
            listing.unseen.is_stopped = true;
            break;
        }
        if listing.total >= walk::VISITED_MAX {
            listing.unseen.cut_at = Some(walk::VISITED_SHOWN);
            break;
        }
        let Ok(entry) = entry else {
            listing.unseen.unreadable += 1;
            continue;
        };
        if entry.depth() == 0 {
            continue;
        }
        if guard.hides(&entry) {
            listing.unseen.hidden_files += 1;
            continue;
        }
        listing.total += 1;
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path()).to_owned();
        let shown = describe(&entry, &path);
        listing.entries.push(Entry { depth: entry.depth(), path, shown });
        if listing.entries.len() >= 2 * KEPT_MAX {
            listing.keep(KEPT_MAX);
        }
    }
    listing.unseen.hidden_folders = guard.folders();
    listing.keep(ENTRIES_MAX);
    listing.entries.sort_by(|a, b| a.path.cmp(&b.path));
    listing
}

/// Lists a folder of a workspace that is not on this machine.
async fn list_elsewhere(
    folder: &Located,
    depth: usize,
    context: &ToolContext,
) -> Result<Listing, ToolError> {
    let mut survey = Survey::of(folder, Some(depth), context).await?;
    let mut listing = Listing::default();
    for found in std::mem::take(&mut survey.found) {
        if found.depth() == 0 || found.kind != EntryKind::Folder && survey.hides(&found) {
            continue;
        }
        listing.total += 1;
        let name = found.inner.display();
        let shown = match (found.kind, &found.target) {
            (EntryKind::Folder, _) => format!("{name}/"),
            (EntryKind::File, _) => format!("{name}  {}", stdx::bytes(found.size)),
            (EntryKind::Link, Some(target)) => format!("{name} -> {}", target.display()),
            (EntryKind::Link, None) => format!("{name} (link)"),
            (EntryKind::Other, _) => format!("{name} (device, socket or pipe)"),
        };
        listing.entries.push(Entry { depth: found.depth(), path: found.inner, shown });
    }
    listing.unseen = survey.unseen;
    listing.keep(ENTRIES_MAX);
    listing.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

fn describe(entry: &ignore::DirEntry, path: &Path) -> String {
    let name = path.display();
    match entry.file_type() {
        Some(kind) if kind.is_dir() => format!("{name}/"),
        Some(kind) if kind.is_symlink() => match std::fs::read_link(entry.path()) {
            Ok(target) => format!("{name} -> {}", target.display()),
            Err(_) => format!("{name} (link)"),
        },
        Some(kind) if kind.is_file() => match entry.metadata() {
            Ok(facts) => format!("{name}  {}", stdx::bytes(facts.len())),
            Err(_) => name.to_string(),
        },
        Some(_) | None => format!("{name} (device, socket or pipe)"),
    }
}

impl Listing {
    /// Keeps the entries nearest to the top: a deep folder must not crowd out its neighbours.
    fn keep(&mut self, count: usize) {
        if self.entries.len() > count {
            self.entries.sort_by(|a, b| a.depth.cmp(&b.depth).then_with(|| a.path.cmp(&b.path)));
            self.entries.truncate(count);
        }
    }

    fn outcome(self) -> ToolOutcome {
        let (mut text, mut chars, mut count) = (String::new(), 0, 0);
        for entry in &self.entries {
            chars += entry.shown.chars().count() + 1;
            if chars > OUTPUT_CHARS_MAX - NOTES_CHARS_MAX {
                break;
            }
            count += 1;
            text.push_str(&entry.shown);
            text.push('\n');
        }
        let left_out = self.total - count;
        if self.total == 0 && !self.unseen.hides_any() {
            text.push_str("(the folder is empty, or .gitignore names all that is in it)");
        }
        if left_out > 0 {
            let left_out = grouped(left_out as u64);
            text.push_str(&format!("({left_out} more entries left out)"));
        }
        let notes = self.unseen.notes();
        let text = format!("{}{notes}", text.trim_end()).trim_start_matches('\n').to_owned();
        ToolOutcome {
            truncated: left_out > 0,
            display: Some(Display::Note {
                text: if self.total == 1 {
                    "1 entry".to_owned()
                } else {
                    format!("{} entries", self.total)
                },
            }),
            ..ToolOutcome::text(text)
        }
    }
}
