//! `process_output`: what a process in the background has written.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Processes, scope_of};
use crate::arguments;

/// Bytes of output of one answer: with the lines around it no more than a model is given of any
/// result.
const PART_BYTES_MAX: usize = 29_000;

/// The longest that a call waits for news: whoever wants to wait longer calls again, and a turn
/// that is stopped is not held up in between.
const WAIT_MS_MAX: u64 = 60_000;

/// The tool.
#[derive(Debug)]
pub(super) struct ProcessOutput {
    spec: ToolSpec,
    processes: Arc<Processes>,
}

impl ProcessOutput {
    pub(super) fn new(processes: Arc<Processes>) -> Self {
        let spec = arguments::spec(
            "process_output",
            "Returns how a process of process_start stands and the newest of its output, or the \
             output from `since` on. The answer ends with the `since` to go on with.",
            json!({
                "id": {"type": "string"},
                "since": {"type": "integer", "minimum": 0},
                "wait_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 60_000,
                    "description": "How long to wait for more output or its end. Default 0."
                }
            }),
            &["id"],
        );
        Self { spec, processes }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    id: &'a str,
    since: Option<u64>,
    wait_ms: Option<u64>,
}

#[async_trait]
impl Tool for ProcessOutput {
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
        let arguments: Arguments<'_> = arguments::parse(input)?;
        Ok(CallFacts {
            effect: Effect::Read,
            summary: format!("output of process {}", super::short(arguments.id)),
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
        let wait = Duration::from_millis(arguments.wait_ms.unwrap_or(0).min(WAIT_MS_MAX));
        if !wait.is_zero() {
            let since = arguments.since.unwrap_or_else(|| minded.written());
            tokio::select! {
                () = minded.news(since) => {}
                () = tokio::time::sleep(wait) => {}
                () = context.cancel.cancelled() => {}
            }
        }
        // Before the output: what it writes in between is read by the next call.
        let state = minded.state();
        let part = minded.part(arguments.since, PART_BYTES_MAX);
        let mut text = format!("{}: {state}\n", minded.id);
        if part.lost > 0 {
            text.push_str(&format!("({} of its output are gone)\n", stdx::bytes(part.lost)));
        }
        text.push_str(if part.text.is_empty() { "(no new output)" } else { &part.text });
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let more = if part.has_more { ", and there is more" } else { "" };
        text.push_str(&format!("(go on with since = {}{more})", part.next));
        Ok(ToolOutcome { truncated: part.lost > 0 || part.has_more, ..ToolOutcome::text(text) })
    }
}
