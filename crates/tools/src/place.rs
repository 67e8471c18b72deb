//! Paths: where an argument leads, and how a place is named to a reader.

use std::path::Path;
use std::sync::Arc;

use driver_api::{
    Access, CallFacts, EntryKind, Fault, Located, PathFact, ToolContext, ToolError, ToolHost,
    Workspace, WorkspaceError,
};
use protocol::Effect;

/// How many names of a folder are compared with a missing one.
const NAMES_MAX: usize = 5_000;

/// How many near names an error lists.
const NEAR_NAMES_MAX: usize = 5;

/// How alike two names must be (Jaro-Winkler) to be worth mentioning.
const NEAR_NAME_MIN: f64 = 0.75;

/// Names a path relative to the working folder, where it lies beneath it.
pub(crate) fn shown(workspace: &dyn Workspace, path: &Path) -> String {
    match path.strip_prefix(workspace.cwd()) {
        Ok(inner) if inner.as_os_str().is_empty() => ".".to_owned(),
        Ok(inner) => inner.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

/// Describes a call that touches one path.
pub(crate) async fn facts_of(
    path: &str,
    access: Access,
    workspace: &dyn Workspace,
) -> Result<CallFacts, ToolError> {
    let located = workspace.locate(path).await?;
    Ok(CallFacts {
        effect: match access {
            Access::Read => Effect::Read,
            Access::Write => Effect::Write,
        },
        summary: shown(workspace, &located.real),
        paths: vec![PathFact { located, access }],
        command: None,
    })
}

/// Returns the path that the gate judged.
pub(crate) fn judged(facts: &CallFacts, index: usize) -> Result<&Located, ToolError> {
    let fact = facts.paths.get(index);
    fact.map(|fact| &fact.located)
        .ok_or_else(|| Fault::new(format!("find path {index} among the facts of a call")).into())
}

/// Makes the error for a folder to search that is not there, or is a file.
pub(crate) async fn require_folder(
    located: &Located,
    context: &ToolContext,
) -> Result<(), ToolError> {
    match located.stat {
        Some(stat) if stat.kind == EntryKind::Folder => Ok(()),
        Some(_) => {
            let name = shown(&*context.workspace, &located.real);
            Err(ToolError::Invalid(format!("{name} is a file, not a folder; use read_file")))
        }
        None => Err(missing(located, context).await),
    }
}

/// Makes the error for a path that is not there; it names what is there instead, but for what a
/// rule keeps from being read.
pub(crate) async fn missing(located: &Located, context: &ToolContext) -> ToolError {
    let workspace = &*context.workspace;
    let name = shown(workspace, &located.real);
    let near = if workspace.is_local() {
        near_names(located, Arc::clone(&context.host)).await
    } else {
        Vec::new()
    };
    if near.is_empty() {
        return WorkspaceError::NotFound(name).into();
    }
    let folder = located.real.parent().unwrap_or(Path::new("/"));
    let near: Vec<_> = near.iter().map(|near| shown(workspace, &folder.join(near))).collect();
    ToolError::Invalid(format!("{name} does not exist; near it: {}", near.join(", ")))
}

async fn near_names(located: &Located, host: Arc<dyn ToolHost>) -> Vec<String> {
    let real = located.real.clone();
    let names = tokio::task::spawn_blocking(move || {
        let wanted = real.file_name().map(|name| name.to_string_lossy().to_lowercase());
        let (Some(folder), Some(wanted)) = (real.parent(), wanted) else { return Vec::new() };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut scored: Vec<_> = entries
            .take(NAMES_MAX)
            .filter(|entry| host.may_read(&entry.path()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name))
            .filter(|(score, _)| *score >= NEAR_NAME_MIN)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored.into_iter().take(NEAR_NAMES_MAX).map(|(_, name)| name).collect()
    });
    names.await.unwrap_or_default()
}
