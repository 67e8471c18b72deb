//! Checks: a command that examines a pending change and answers with findings.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Checks, ExitStatus, Fault, PendingChange, Spawn, Workspace};
use protocol::Finding;
use serde::Deserialize;
use serde_json::json;

use crate::runner::{self, Ran, failure};
use crate::settings::TIMEOUT_MAX;

/// How many findings an answer may have: more than anybody reads means that the check is broken.
const FINDINGS_MAX: usize = 200;

/// How many characters of the command a message shows.
const NAME_CHARS_MAX: usize = 80;

/// How long a check may take where nothing else is said: a linter of a large project needs tens of
/// seconds.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// A check that is a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandChecks {
    /// The program and its arguments. It runs without a shell.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// The folder that it belongs to and runs in, for the check of a project; where there is none,
    /// it runs in the session's working folder.
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    findings: Vec<FindingForm>,
}

/// A finding, strictly: a misspelt `blocking` must not make it a remark.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FindingForm {
    rule_id: String,
    severity: String,
    message: String,
    path: Option<String>,
    line: Option<u64>,
    blocking: bool,
}

impl CommandChecks {
    /// Makes a check with a time limit of one minute.
    pub fn new(command: Vec<String>) -> Self {
        Self { command, timeout: TIMEOUT_DEFAULT, folder: None }
    }

    fn fault(&self, what: impl std::fmt::Display) -> Fault {
        let line = self.command.join(" ");
        let short: String = line.chars().take(NAME_CHARS_MAX).collect();
        let dots = if short.len() < line.len() { "…" } else { "" };
        Fault::new(format!("check `{short}{dots}` {what}"))
    }
}

#[async_trait]
impl Checks for CommandChecks {
    async fn examine(
        &self,
        change: &PendingChange,
        workspace: &dyn Workspace,
    ) -> Result<Vec<Finding>, Fault> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(self.fault("names no program"));
        }
        let told = told(change).map_err(|why| self.fault(why))?;
        let spawn = Spawn {
            argv: self.command.clone(),
            cwd: self.folder.as_deref().unwrap_or(workspace.cwd()).to_owned(),
            env: Vec::new(),
            stdin: told,
        };
        let limit = self.timeout.min(Duration::from_secs(TIMEOUT_MAX));
        let ran = runner::run(workspace, spawn, limit).await.map_err(|error| self.fault(error))?;
        findings(&ran).map_err(|why| self.fault(why))
    }
}

fn told(change: &PendingChange) -> Result<Vec<u8>, String> {
    let value = json!({
        "toolName": change.tool,
        "input": change.input,
        "paths": change.paths,
        "diff": change.diff,
    });
    let bytes = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
    if bytes.len() > Spawn::STDIN_MAX {
        let size = stdx::bytes(bytes.len() as u64);
        return Err(format!("cannot be told of a call of {size}"));
    }
    Ok(bytes)
}

fn findings(ran: &Ran) -> Result<Vec<Finding>, String> {
    if ran.status != ExitStatus::Code(0) {
        return Err(failure(ran));
    }
    let form: Form = serde_json::from_slice(&ran.stdout).map_err(|error| {
        let how = if ran.stdout.iter().all(u8::is_ascii_whitespace) {
            "with nothing".to_owned()
        } else {
            format!("in another form: {error}")
        };
        format!("answered {how}; expected {{\"findings\": […]}}")
    })?;
    if form.findings.len() > FINDINGS_MAX {
        let count = form.findings.len();
        return Err(format!("answered with {count} findings, more than {FINDINGS_MAX}"));
    }
    Ok(form.findings.into_iter().map(Finding::from).collect())
}

impl From<FindingForm> for Finding {
    fn from(form: FindingForm) -> Self {
        let FindingForm { rule_id, severity, message, path, line, blocking } = form;
        Self { rule_id, severity, message, path, line, blocking }
    }
}
