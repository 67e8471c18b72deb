//! `process_kill`: the end of a process in the background.

use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Processes, scope_of};
use crate::arguments;
use crate::run_shell::KILL_WAIT_MAX;

/// The tool.
#[derive(Debug)]
pub(super) struct ProcessKill {
    spec: ToolSpec,
    processes: Arc<Processes>,
}

impl ProcessKill {
    pub(super) fn new(processes: Arc<Processes>) -> Self {
        let spec = arguments::spec(
            "process_kill",
            "Ends a process of process_start and everything that it started: SIGTERM, then \
             SIGKILL after two seconds.",
            json!({"id": {"type": "string"}}),
            &["id"],
        );
        Self { spec, processes }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    id: &'a str,
}

#[async_trait]
impl Tool for ProcessKill {
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
        _: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        Ok(CallFacts {
            effect: Effect::Execute,
            summary: format!("end process {}", super::short(arguments.id)),
            paths: Vec::new(),
            command: None,
        })
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        _: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let minded = self.processes.find(&scope_of(context)?, arguments.id)?;
        let was_running = minded.is_running();
        minded.stop();
        if tokio::time::timeout(KILL_WAIT_MAX, minded.ended()).await.is_err() {
            let limit = KILL_WAIT_MAX.as_secs();
            let text = format!("{}: it did not end within {limit} s", minded.id);
            return Ok(ToolOutcome::error(text));
        }
        let before = if was_running { "" } else { "it had ended before: " };
        Ok(ToolOutcome::text(format!("{}: {before}{}", minded.id, minded.state())))
    }
}
