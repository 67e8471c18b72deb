//! `exit_plan`: a person approves a plan, and plan mode ends.

use async_trait::async_trait;
use driver_api::{Asks, CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{arguments, words};

/// Characters of a plan: about ten pages, more than anybody approves with open eyes.
const PLAN_CHARS_MAX: usize = 30_000;

/// The tool.
#[derive(Debug)]
pub(crate) struct ExitPlan {
    spec: ToolSpec,
}

impl Default for ExitPlan {
    fn default() -> Self {
        let spec = arguments::spec(
            "exit_plan",
            "Only in plan mode, when your plan is ready: shows it to the person, whose approval \
             ends plan mode. Before that read all that it depends on, and settle open choices with \
             ask_question. If the person refuses, change the plan by their words and call it \
             again.",
            json!({"plan": {
                "type": "string",
                "description": "Markdown: what changes, in which files, in what order, and how \
                                it will be checked."
            }}),
            &["plan"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    plan: &'a str,
}

fn plan(input: &Map<String, Value>) -> Result<&str, ToolError> {
    let arguments: Arguments<'_> = arguments::parse(input)?;
    words::text("the plan", arguments.plan, PLAN_CHARS_MAX)
}

#[async_trait]
impl Tool for ExitPlan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Interact
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        _workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        Ok(CallFacts {
            effect: Effect::Interact,
            summary: words::summary(plan(input)?),
            paths: Vec::new(),
            command: None,
        })
    }

    fn asks(&self, input: &Map<String, Value>) -> Result<Option<Asks>, ToolError> {
        Ok(Some(Asks::Plan { plan: plan(input)?.to_owned() }))
    }

    async fn run(
        &self,
        _input: &Map<String, Value>,
        _facts: &CallFacts,
        _context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutcome::error("a plan is approved by a person, and nobody was asked"))
    }
}
