//! Checks of what a caller is about to do in a neuron.

use driver_api::{CallFacts, PendingChange, Workspace};
use protocol::{Effect, Finding, Refusal, RefusalCode};
use serde_json::{Map, Value};

use super::House;

impl House {
    /// Lets the checks look at a call before it runs. One that fails refuses the call: it was not
    /// examined.
    ///
    /// # Errors
    /// `locked_by_policy`, with what was found.
    pub(super) async fn examine(
        &self,
        tool: &str,
        call: Pending<'_>,
        workspace: &dyn Workspace,
    ) -> Result<(), Refusal> {
        let checks = self.options.checks.as_ref();
        let Some(checks) = checks.filter(|_| call.facts.effect > Effect::Interact) else {
            return Ok(());
        };
        let paths = call.facts.paths.iter().map(|path| path.located.real.display().to_string());
        let change = PendingChange {
            tool: policy::canonical(tool).to_owned(),
            input: call.input.clone(),
            paths: paths.collect(),
            diff: call.diff,
        };
        let denied = |text: String| Err(Refusal::new(RefusalCode::LockedByPolicy, text));
        match checks.examine(&change, workspace).await {
            Err(fault) => {
                tracing::warn!(tool, %fault, "a check failed");
                denied(format!("{tool} is denied: the check of this change failed"))
            }
            Ok(findings) => {
                let blocking = findings.iter().filter(|finding| finding.blocking);
                let blocking: Vec<_> = blocking.map(line).collect();
                if blocking.is_empty() {
                    return Ok(());
                }
                denied(format!("{tool} is denied by a check: {}", blocking.join("; ")))
            }
        }
    }
}

/// A call that is about to run.
#[derive(Debug)]
pub(super) struct Pending<'a> {
    pub(super) input: &'a Map<String, Value>,
    pub(super) facts: &'a CallFacts,
    pub(super) diff: Option<String>,
}

fn line(finding: &Finding) -> String {
    format!("{}: {}", finding.rule_id, finding.message)
}
