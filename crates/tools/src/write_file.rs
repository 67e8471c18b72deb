//! `write_file`: a whole file at once.

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace,
    WorkspaceError,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::change::{self, FileChange};
use crate::limit::FILE_BYTES_MAX;
use crate::{arguments, place, seen};

/// The tool.
#[derive(Debug)]
pub(crate) struct WriteFile {
    spec: ToolSpec,
}

impl Default for WriteFile {
    fn default() -> Self {
        let spec = arguments::spec(
            "write_file",
            "Writes a whole file and creates missing folders. An existing file must have been read \
             first. For small changes use edit_file.",
            json!({
                "path": {"type": "string"},
                "content": {"type": "string"}
            }),
            &["path", "content"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    path: &'a str,
    content: &'a str,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        if arguments.content.len() as u64 > FILE_BYTES_MAX {
            let limit = stdx::bytes(FILE_BYTES_MAX);
            return Err(ToolError::Invalid(format!("content is larger than {limit}")));
        }
        place::facts_of(arguments.path, Access::Write, workspace).await
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let file = place::judged(facts, 0)?;
        let name = place::shown(&*context.workspace, &file.real);
        let content = arguments.content;
        // Read anew: the file may have come into being since the gate looked.
        let old = match context.workspace.read(file, FILE_BYTES_MAX).await {
            Ok(contents) => Some(contents.bytes),
            Err(WorkspaceError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(old) = &old {
            seen::require_seen(context, file, old)?;
        }
        let stamp = seen::stamp(&file.real, content.as_bytes());
        if old.as_deref() == Some(content.as_bytes()) {
            let text = format!("{name} has this content already; unchanged");
            return Ok(ToolOutcome { files: vec![stamp], ..ToolOutcome::text(text) });
        }
        context.workspace.write(file, content.as_bytes()).await?;
        let lines = stdx::plural(content.lines().count() as u64, "line");
        let text = match old {
            Some(_) => format!("wrote {name}: {lines}"),
            None => format!("created {name}: {lines}"),
        };
        let old = old.map(change::diffable);
        let change = FileChange { name, old, new: Some(content.to_owned()) };
        Ok(ToolOutcome {
            display: Some(change::display(&[change])),
            files: vec![stamp],
            ..ToolOutcome::text(text)
        })
    }
}
