//! Several checks as one: a change passes when it passes each.

use async_trait::async_trait;
use driver_api::{Checks, Fault, PendingChange, Workspace};
use hooks::CommandChecks;
use protocol::Finding;

/// Checks one after the other.
#[derive(Debug)]
pub(crate) struct AllChecks(pub(crate) Vec<CommandChecks>);

#[async_trait]
impl Checks for AllChecks {
    async fn examine(
        &self,
        change: &PendingChange,
        workspace: &dyn Workspace,
    ) -> Result<Vec<Finding>, Fault> {
        let mut findings = Vec::new();
        for check in &self.0 {
            findings.extend(check.examine(change, workspace).await?);
        }
        Ok(findings)
    }
}
