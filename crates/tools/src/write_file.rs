//! `write_file`: a whole file at once.

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, Located, Tool, ToolContext, ToolError, ToolHost, ToolOutcome, ToolSpec,
    Workspace, WorkspaceError,
};
use protocol::Effect;
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

    fn effect(&self) -> Effect {
        Effect::Write
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

    fn refuses(&self, facts: &CallFacts, host: &dyn ToolHost) -> Option<String> {
        seen::unread(facts, host)
    }

    async fn preview(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        workspace: &dyn Workspace,
    ) -> Option<String> {
        let planned = Planned::make(input, facts, workspace).await.ok()?;
        if planned.changes_nothing() {
            return None;
        }
        change::preview(&[planned.into_change()])
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let planned = Planned::make(input, facts, &*context.workspace).await?;
        let Planned { file, name, content, old } = &planned;
        if let Some(old) = old {
            seen::require_seen(context, file, old)?;
        }
        let stamp = seen::stamp(&file.real, content.as_bytes());
        if planned.changes_nothing() {
            let text = format!("{name} has this content already; unchanged");
            return Ok(ToolOutcome { files: vec![stamp], ..ToolOutcome::text(text) });
        }
        context.workspace.write(file, content.as_bytes()).await?;
        let lines = stdx::plural(content.lines().count() as u64, "line");
        let text = match old {
            Some(_) => format!("wrote {name}: {lines}"),
            None => format!("created {name}: {lines}"),
        };
        Ok(ToolOutcome {
            display: Some(change::display(&[planned.into_change()])),
            files: vec![stamp],
            ..ToolOutcome::text(text)
        })
    }
}

/// What a call does to the file as it is.
#[derive(Debug)]
struct Planned<'a> {
    file: &'a Located,
    name: String,
    content: &'a str,
    /// What is there; none where nothing is.
    old: Option<Vec<u8>>,
}

impl<'a> Planned<'a> {
    /// Works a call out; changes nothing. The file is read anew: it may have come into being since
    /// the gate looked.
    async fn make(
        input: &'a Map<String, Value>,
        facts: &'a CallFacts,
        workspace: &dyn Workspace,
    ) -> Result<Self, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let file = place::judged(facts, 0)?;
        let name = place::shown(workspace, &file.real);
        let old = match workspace.read(file, FILE_BYTES_MAX).await {
            Ok(contents) => Some(contents.bytes),
            Err(WorkspaceError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { file, name, content: arguments.content, old })
    }

    fn changes_nothing(&self) -> bool {
        self.old.as_deref() == Some(self.content.as_bytes())
    }

    fn into_change(self) -> FileChange {
        let old = self.old.map(change::diffable);
        FileChange { name: self.name, old, new: Some(self.content.to_owned()) }
    }
}
