//! `process_list`: what was started in the background.

use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Processes, scope_of};
use crate::arguments;

/// The tool.
#[derive(Debug)]
pub(super) struct ProcessList {
    spec: ToolSpec,
    processes: Arc<Processes>,
}

impl ProcessList {
    pub(super) fn new(processes: Arc<Processes>) -> Self {
        let spec = arguments::spec(
            "process_list",
            "Lists the processes that process_start has started, with their ids and how they \
             stand.",
            json!({}),
            &[],
        );
        Self { spec, processes }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[async_trait]
impl Tool for ProcessList {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn is_common(&self) -> bool {
        false
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        _: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let Arguments {} = arguments::parse(input)?;
        Ok(CallFacts {
            effect: Effect::Read,
            summary: "processes in the background".to_owned(),
            paths: Vec::new(),
            command: None,
        })
    }

    async fn run(
        &self,
        _: &Map<String, Value>,
        _: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let processes = self.processes.of(&scope_of(context)?.name);
        let lines = processes
            .iter()
            .map(|minded| format!("{}: {}: {}", minded.id, minded.state(), minded.command));
        let lines: Vec<_> = lines.collect();
        let text = if lines.is_empty() { "no processes".to_owned() } else { lines.join("\n") };
        Ok(ToolOutcome::text(text))
    }
}
