//! `glob`: files by the pattern of their names.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, EntryKind, Located, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec,
    Workspace,
};
use globset::GlobMatcher;
use protocol::Effect;
use protocol::event::Display;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::limit::{OUTPUT_CHARS_MAX, grouped};
use crate::survey::Survey;
use crate::walk::{self, Guard, Unseen};
use crate::{arguments, place};

/// How many files one call shows.
const FILES_MAX: usize = 200;

/// How many files are kept while folders are walked, before the older ones are dropped.
const KEPT_MAX: usize = 20_000;

/// Room for the notes at the end of a result.
const NOTES_CHARS_MAX: usize = 400;

/// The tool.
#[derive(Debug)]
pub(crate) struct Glob {
    spec: ToolSpec,
}

impl Default for Glob {
    fn default() -> Self {
        let spec = arguments::spec(
            "glob",
            "Finds files by name, newest first, at most 200. A pattern without a slash matches at \
             any depth (*.rs); with one, from the folder on (src/**/*.{ts,tsx}). Honours \
             .gitignore.",
            json!({
                "pattern": {"type": "string"},
                "path": {
                    "type": "string",
                    "description": "Folder to search; default: the working folder."
                }
            }),
            &["pattern"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    pattern: &'a str,
    path: Option<&'a str>,
}

#[async_trait]
impl Tool for Glob {
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
        walk::glob(arguments.pattern)?;
        let path = arguments.path.unwrap_or(".");
        let facts = place::facts_of(path, Access::Read, workspace).await?;
        let summary = match facts.summary.as_str() {
            "." => arguments.pattern.to_owned(),
            folder => format!("{} in {folder}", arguments.pattern),
        };
        Ok(CallFacts { summary, ..facts })
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
        let glob = walk::glob(arguments.pattern)?;
        if !context.workspace.is_local() {
            let found = find_elsewhere(folder, &glob, context).await?;
            return Ok(found.outcome(&*context.workspace));
        }
        let (root, cancel) = (folder.real.clone(), context.cancel.clone());
        let guard = Guard::new(&context.host);
        let found = walk::blocking(move || find(&root, &glob, &guard, &cancel)).await?;
        Ok(found.outcome(&*context.workspace))
    }
}

#[derive(Debug, Default)]
struct Found {
    files: Vec<(Option<SystemTime>, PathBuf)>,
    total: usize,
    unseen: Unseen,
}

fn find(root: &Path, glob: &GlobMatcher, guard: &Guard, cancel: &CancellationToken) -> Found {
    let mut found = Found::default();
    for (visited, entry) in walk::builder(root, guard).build().enumerate() {
        if cancel.is_cancelled() {
            found.unseen.is_stopped = true;
            break;
        }
        if visited >= walk::VISITED_MAX {
            found.unseen.cut_at = Some(walk::VISITED_SHOWN);
            break;
        }
        let Ok(entry) = entry else {
            found.unseen.unreadable += 1;
            continue;
        };
        let inner = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if entry.file_type().is_none_or(|kind| kind.is_dir()) || !glob.is_match(inner) {
            continue;
        }
        if guard.hides(&entry) {
            found.unseen.hidden_files += 1;
            continue;
        }
        found.total += 1;
        let modified = entry.metadata().ok().and_then(|facts| facts.modified().ok());
        found.files.push((modified, entry.into_path()));
        if found.files.len() >= 2 * KEPT_MAX {
            found.keep(KEPT_MAX);
        }
    }
    found.unseen.hidden_folders = guard.folders();
    found.keep(FILES_MAX);
    found
}

/// Finds files in a workspace that is not on this machine.
async fn find_elsewhere(
    folder: &Located,
    glob: &GlobMatcher,
    context: &ToolContext,
) -> Result<Found, ToolError> {
    let mut survey = Survey::of(folder, None, context).await?;
    let mut found = Found::default();
    for entry in std::mem::take(&mut survey.found) {
        if entry.kind == EntryKind::Folder || !glob.is_match(&entry.inner) || survey.hides(&entry) {
            continue;
        }
        found.total += 1;
        let since = u64::try_from(entry.modified_ns).ok().map(Duration::from_nanos);
        let modified = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        found.files.push((modified, folder.real.join(&entry.inner)));
    }
    found.unseen = survey.unseen;
    found.keep(FILES_MAX);
    Ok(found)
}

impl Found {
    fn keep(&mut self, count: usize) {
        self.files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        self.files.truncate(count);
    }

    fn outcome(self, workspace: &dyn Workspace) -> ToolOutcome {
        let (mut text, mut chars, mut count) = (String::new(), 0, 0);
        for (_, path) in &self.files {
            let name = place::shown(workspace, path);
            chars += name.chars().count() + 1;
            if chars > OUTPUT_CHARS_MAX - NOTES_CHARS_MAX {
                break;
            }
            count += 1;
            text.push_str(&name);
            text.push('\n');
        }
        let left_out = self.total - count;
        if self.total == 0 {
            text.push_str("no file matches");
        }
        if left_out > 0 {
            let left_out = grouped(left_out as u64);
            text.push_str(&format!("({left_out} older files left out)"));
        }
        let text = format!("{}{}", text.trim_end(), self.unseen.notes());
        ToolOutcome {
            truncated: left_out > 0,
            display: Some(Display::Note { text: stdx::plural(self.total as u64, "file") }),
            ..ToolOutcome::text(text)
        }
    }
}
