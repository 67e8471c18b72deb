//! Code that runs in a neuron.

use std::path::PathBuf;
use std::time::Duration;

use driver_api::{Access, CallFacts, EntryKind, PathFact, Spawn, Workspace, WorkspaceError};
use protocol::{Effect, NeuronId, Refusal};
use runtime_api::Error;
use runtime_api::neuron::{CodeLanguage, Exec, Executed};
use serde_json::{Map, Value};

use super::check::Pending;
use super::command::{self, Failure};
use super::{House, invalid, refused};

/// Characters of a piece of code: a long program, and less than what standard input takes.
const CODE_CHARS_MAX: usize = 100_000;

/// Milliseconds that code may be given at least: less says nothing about the code.
const TIMEOUT_MS_MIN: u64 = 100;

/// Milliseconds that code may be given at most, as any command in the foreground.
const TIMEOUT_MS_MAX: u64 = 600_000;

/// Bytes of a folder's name: the longest path that Linux takes.
const CWD_BYTES_MAX: usize = 4_096;

/// Bytes of code that are handed over as an argument. The kernel takes 128 KiB in one; with more
/// the shell reads its code from standard input first.
const ARGUMENT_BYTES_MAX: usize = 100 * 1024;

/// Reads the whole code and runs it: what the code itself reads then is at its end, as it is for
/// short code.
const FROM_STDIN: &str = "eval \"$(cat)\"";

impl House {
    pub(super) async fn execute(&self, neuron: &NeuronId, exec: Exec) -> Result<Executed, Error> {
        check(&exec)?;
        let _admitted = self.admit()?;
        let workspace = self.enter(neuron).await?;
        let located = match &exec.cwd {
            None => None,
            Some(cwd) => Some(workspace.locate(cwd).await.map_err(in_cwd)?),
        };
        if let Some(folder) = &located
            && folder.stat.is_none_or(|stat| stat.kind != EntryKind::Folder)
        {
            let shown = folder.real.display();
            return Err(invalid(format!("cwd: {shown} is not a folder of this neuron")).into());
        }
        let cwd = located.as_ref().map_or(workspace.cwd(), |folder| &folder.real).to_owned();
        let program = Program::of(&exec);
        let facts = CallFacts {
            effect: Effect::Execute,
            summary: program.name.to_owned(),
            paths: located
                .map(|located| PathFact { located, access: Access::Read })
                .into_iter()
                .collect(),
            command: Some(program.judged_as.clone()),
        };
        self.pass("run_shell", &facts, self.grounds(&*workspace), &self.spill_of(neuron))?;
        if self.options.checks.is_some() {
            let input = [("command".to_owned(), Value::from(program.judged_as.clone()))];
            let input = Map::from_iter(input);
            let pending = Pending { input: &input, facts: &facts, diff: None };
            self.examine("run_shell", pending, &*workspace).await?;
        }
        let name = program.name;
        let limit = Duration::from_millis(exec.timeout_ms);
        match self.run(&*workspace, program.spawn(cwd), limit).await {
            Ok(executed) => Ok(executed),
            // The folder was there a moment ago, so it is the program that is missing.
            Err(Failure::Start(WorkspaceError::NotFound(_))) => {
                Err(invalid(format!("language: there is no {name} in this neuron")).into())
            }
            Err(Failure::Start(error) | Failure::Watch(error)) => {
                Err(self.broken(neuron, error).await)
            }
        }
    }

    pub(super) async fn run(
        &self,
        workspace: &dyn Workspace,
        spawn: Spawn,
        limit: Duration,
    ) -> Result<Executed, Failure> {
        command::run(workspace, spawn, limit, &*self.options.clock).await
    }
}

fn in_cwd(error: WorkspaceError) -> Error {
    match error {
        WorkspaceError::Fault(_) => refused(error.into()),
        other => invalid(format!("cwd: {other}")).into(),
    }
}

fn check(exec: &Exec) -> Result<(), Refusal> {
    let chars = exec.code.chars().count();
    if !(1..=CODE_CHARS_MAX).contains(&chars) {
        let text = format!("code: it has {chars} characters, expected 1 to {CODE_CHARS_MAX}");
        return Err(invalid(text));
    }
    if exec.code.contains('\0') {
        return Err(invalid("code: it has a NUL character, which no interpreter takes"));
    }
    check_timeout(exec.timeout_ms, TIMEOUT_MS_MAX)?;
    match &exec.cwd {
        Some(cwd) if cwd.is_empty() || cwd.len() > CWD_BYTES_MAX || cwd.contains('\0') => {
            let text = format!("cwd: expected a path of 1 to {CWD_BYTES_MAX} bytes without NUL");
            Err(invalid(text))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_timeout(timeout_ms: u64, most: u64) -> Result<(), Refusal> {
    if (TIMEOUT_MS_MIN..=most).contains(&timeout_ms) {
        return Ok(());
    }
    let text = format!("timeout_ms: {timeout_ms} is not within {TIMEOUT_MS_MIN} to {most}");
    Err(invalid(text))
}

/// An interpreter and how it gets its code.
#[derive(Debug)]
struct Program {
    name: &'static str,
    arguments: Vec<String>,
    stdin: Vec<u8>,
    /// What rules for commands are held against: the code itself where it is one.
    judged_as: String,
}

impl Program {
    fn of(exec: &Exec) -> Self {
        let name = match exec.language {
            CodeLanguage::Bash => "bash",
            CodeLanguage::Sh => "sh",
            CodeLanguage::Python => "python3",
            CodeLanguage::JavaScript => "node",
        };
        let code = exec.code.clone();
        match exec.language {
            CodeLanguage::Bash | CodeLanguage::Sh if code.len() <= ARGUMENT_BYTES_MAX => {
                let arguments = vec!["-c".to_owned(), code.clone()];
                Self { name, arguments, stdin: Vec::new(), judged_as: code }
            }
            CodeLanguage::Bash | CodeLanguage::Sh => {
                let arguments = vec!["-c".to_owned(), FROM_STDIN.to_owned()];
                Self { name, arguments, stdin: code.clone().into_bytes(), judged_as: code }
            }
            CodeLanguage::Python | CodeLanguage::JavaScript => {
                let (arguments, judged_as) = (vec!["-".to_owned()], format!("{name} -"));
                Self { name, arguments, stdin: code.into_bytes(), judged_as }
            }
        }
    }

    fn spawn(self, cwd: PathBuf) -> Spawn {
        let argv = [self.name.to_owned()].into_iter().chain(self.arguments).collect();
        Spawn { argv, cwd, env: Vec::new(), stdin: self.stdin }
    }
}
