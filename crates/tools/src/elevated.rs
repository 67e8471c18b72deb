//! `elevated`: a command that a person has to approve, whatever the mode and the rules say.
//!
//! The power of the command itself is that of `run_shell`: it runs in the same workspace, and no
//! approval lets it out of a neuron. What is higher is its effect, and with it who decides.

use async_trait::async_trait;
use driver_api::{CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{arguments, run_shell, words};

/// Characters of the reason: a person reads it before deciding.
const REASON_CHARS_MAX: usize = 1_000;

/// The tool.
#[derive(Debug)]
pub(crate) struct Elevated {
    spec: ToolSpec,
}

impl Default for Elevated {
    fn default() -> Self {
        let spec = arguments::spec(
            "elevated",
            "Runs a bash command that a person has to approve first, whatever else is allowed: \
             for what cannot be undone, or reaches beyond the working folder. Say in `reason` \
             why it is needed; the person reads that. It runs where other commands run, and \
             waits for its end.",
            json!({
                "command": {"type": "string"},
                "reason": {"type": "string", "description": "Why it is needed."},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 600_000,
                    "description": "Default 120000."
                },
                "cwd": {"type": "string", "description": "Folder to run in."}
            }),
            &["command", "reason"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    command: &'a str,
    reason: &'a str,
    timeout_ms: Option<u64>,
    cwd: Option<&'a str>,
}

#[async_trait]
impl Tool for Elevated {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Destructive
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
        let reason = words::text("the reason", arguments.reason, REASON_CHARS_MAX)?;
        let facts = run_shell::facts_of(arguments.command, arguments.cwd, workspace).await?;
        let summary = format!("{} (because: {})", facts.summary, words::summary(reason));
        Ok(CallFacts { effect: Effect::Destructive, summary, ..facts })
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        run_shell::run_command(arguments.command, arguments.timeout_ms, facts, context).await
    }
}
