//! `apply_patch`: changes to several files, all or none.

mod apply;
mod envelope;
mod patch;
mod plan;
mod unified;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, Located, PathFact, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec,
    Workspace,
};
use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::seen::LOOK_AHEAD;
use crate::{arguments, change, place, seen};
use patch::Patch;
use plan::Plan;

/// How many paths the line for people names.
const NAMES_SHOWN_MAX: usize = 3;

/// The tool.
#[derive(Debug)]
pub(crate) struct ApplyPatch {
    spec: ToolSpec,
}

impl Default for ApplyPatch {
    fn default() -> Self {
        let spec = arguments::spec(
            "apply_patch",
            "Changes several files at once, all or none. `patch` is a unified diff, or:\n\
             *** Begin Patch\n\
             *** Update File: src/a.rs\n\
             *** Move to: src/b.rs\n\
             @@ fn main() {\n unchanged line\n-old line\n+new line\n\
             *** Add File: c.txt\n+content\n\
             *** Delete File: d.txt\n\
             *** End Patch\n\
             Move to is optional. The text after @@ is a line above the place, needed where the \
             lines alone are not unique.",
            json!({"patch": {"type": "string"}}),
            &["patch"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    patch: &'a str,
}

#[async_trait]
impl Tool for ApplyPatch {
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
        let patch = parse(input)?;
        let mut paths = Vec::new();
        let mut names = BTreeSet::new();
        for path in patch.paths() {
            let located = workspace.locate(path).await?;
            names.insert(place::shown(workspace, &located.real));
            paths.push(PathFact { located, access: Access::Write });
        }
        Ok(CallFacts { effect: Effect::Write, summary: summary(&names), paths, command: None })
    }

    async fn preview(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        workspace: &dyn Workspace,
    ) -> Option<String> {
        let plan = Plan::make(&parse(input).ok()?, facts, workspace, LOOK_AHEAD).await.ok()?;
        change::preview(&plan.changes())
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let patch = parse(input)?;
        let is_known = |file: &Located, bytes: &[u8]| seen::require_unchanged(context, file, bytes);
        let plan = Plan::make(&patch, facts, &*context.workspace, &is_known).await?;
        if context.cancel.is_cancelled() {
            return Ok(ToolOutcome::error("stopped by the user; nothing was changed"));
        }
        plan.carry_out(&*context.workspace).await
    }
}

fn parse(input: &Map<String, Value>) -> Result<Patch, ToolError> {
    let arguments: Arguments<'_> = arguments::parse(input)?;
    patch::parse(arguments.patch).map_err(ToolError::Invalid)
}

fn summary(names: &BTreeSet<String>) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect();
    let shown = shown.join(", ");
    match names.len() {
        0..=NAMES_SHOWN_MAX => shown,
        count => format!("{count} files: {shown}, …"),
    }
}
