//! `process_start`: a command that goes on by itself.

use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{Processes, Started, scope_of};
use crate::arguments;
use crate::run_shell::{self, OUTPUT_QUEUE_MAX};

/// The tool.
#[derive(Debug)]
pub(super) struct ProcessStart {
    spec: ToolSpec,
    processes: Arc<Processes>,
}

impl ProcessStart {
    pub(super) fn new(processes: Arc<Processes>) -> Self {
        let spec = arguments::spec(
            "process_start",
            "Starts a bash command in the background and returns its id at once: for servers, \
             watchers and long jobs. Read its output with process_output, end it with \
             process_kill.",
            json!({
                "command": {"type": "string"},
                "cwd": {"type": "string", "description": "Folder to run in."},
                "input": {
                    "type": "string",
                    "description": "What it reads on standard input, then the end of it."
                }
            }),
            &["command"],
        );
        Self { spec, processes }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    command: &'a str,
    cwd: Option<&'a str>,
    input: Option<&'a str>,
}

#[async_trait]
impl Tool for ProcessStart {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Execute
    }

    fn is_common(&self) -> bool {
        false
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        run_shell::facts_of(arguments.command, arguments.cwd, workspace).await
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let place = match self.processes.reserve(scope_of(context)?, &facts.summary) {
            Ok(place) => place,
            Err(text) => return Ok(ToolOutcome::error(text)),
        };
        let stdin = arguments.input.unwrap_or_default().as_bytes();
        let (output, pieces) = mpsc::channel(OUTPUT_QUEUE_MAX);
        let folder = run_shell::folder_of(facts, context);
        let process = run_shell::spawn(arguments.command, folder, stdin, output, context).await?;
        let workspace = Arc::clone(&context.workspace);
        let minded = place.take(Started { process, pieces, workspace });
        Ok(ToolOutcome::text(format!("started as {}: {}", minded.id, minded.command)))
    }
}
