//! `run_shell`: a command in the foreground, with its true end.

mod capture;
pub(crate) mod clean;
mod spill;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, EntryKind, Exit, ExitStatus, Fault, Output, PathFact, Process, Progress,
    Spawn, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace, WorkspaceError,
};
use protocol::Effect;
use protocol::event::{Display, OutputStream};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::limit::head;
use crate::{arguments, place};
use capture::Capture;
use clean::Cleaner;
use spill::Spill;

/// How long a command may take where the model sets no limit.
const TIMEOUT_DEFAULT_MS: u64 = 120_000;

/// The longest that a command may take in the foreground.
const TIMEOUT_MAX_MS: u64 = 600_000;

/// How long a tree has to end by itself after SIGTERM.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(2);

/// How long the end of a killed tree is waited for, SIGKILL included; a process that outlives
/// that hangs in the kernel.
pub(crate) const KILL_WAIT_MAX: Duration = Duration::from_secs(30);

/// Pieces of output that wait to be taken; then the command waits.
pub(crate) const OUTPUT_QUEUE_MAX: usize = 64;

/// Characters of the line for people.
const SUMMARY_CHARS_MAX: usize = 200;

/// Variables that keep programs from waiting for a person or painting for a terminal.
const VARIABLES: [(&str, &str); 4] =
    [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

/// The tool.
#[derive(Debug)]
pub(crate) struct RunShell {
    spec: ToolSpec,
}

impl Default for RunShell {
    fn default() -> Self {
        let spec = arguments::spec(
            "run_shell",
            "Runs a bash command and waits for its end; returns its output and exit status. \
             Nothing is on standard input. Processes that it leaves behind are ended. Each call \
             starts anew in the working folder. Prefer the file tools for reading, searching and \
             editing.",
            json!({
                "command": {"type": "string"},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 600_000,
                    "description": "Default 120000."
                },
                "cwd": {"type": "string", "description": "Folder to run in."},
                "description": {
                    "type": "string",
                    "description": "What it does, in a few words."
                }
            }),
            &["command"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    command: &'a str,
    timeout_ms: Option<u64>,
    cwd: Option<&'a str>,
    #[serde(rename = "description")]
    _description: Option<&'a str>,
}

#[async_trait]
impl Tool for RunShell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Execute
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        facts_of(arguments.command, arguments.cwd, workspace).await
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        run_command(arguments.command, arguments.timeout_ms, facts, context).await
    }
}

/// Looks up what a command is about, and the folder that it is to run in.
///
/// # Errors
/// [`ToolError::Invalid`] for what no shell takes, and for a folder that is none.
pub(crate) async fn facts_of(
    command: &str,
    cwd: Option<&str>,
    workspace: &dyn Workspace,
) -> Result<CallFacts, ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::Invalid("command is empty".to_owned()));
    }
    if command.contains('\0') {
        return Err(ToolError::Invalid("command has a NUL character".to_owned()));
    }
    let mut paths = Vec::new();
    if let Some(cwd) = cwd {
        let located = workspace.locate(cwd).await?;
        if located.stat.is_none_or(|stat| stat.kind != EntryKind::Folder) {
            let name = place::shown(workspace, &located.real);
            return Err(ToolError::Invalid(format!("cwd: {name} is not a folder")));
        }
        paths.push(PathFact { located, access: Access::Read });
    }
    Ok(CallFacts {
        effect: Effect::Execute,
        summary: summary(command),
        paths,
        command: Some(command.to_owned()),
    })
}

/// Runs a command to its end, in the folder that the gate judged.
///
/// # Errors
/// Those of the workspace.
pub(crate) async fn run_command(
    command: &str,
    timeout_ms: Option<u64>,
    facts: &CallFacts,
    context: &ToolContext,
) -> Result<ToolOutcome, ToolError> {
    if context.cancel.is_cancelled() {
        return Ok(ToolOutcome::error("stopped by the user before it began"));
    }
    let limit_ms = timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS).clamp(1, TIMEOUT_MAX_MS);
    let limit = Duration::from_millis(limit_ms);
    let deadline = Instant::now() + limit;
    let (output, pieces) = mpsc::channel(OUTPUT_QUEUE_MAX);
    let process = spawn(command, folder_of(facts, context), &[], output, context).await?;
    let mut run = Run::new(pieces, context);
    let (exit, end) = run.follow(process, deadline).await?;
    Ok(run.outcome(exit, end, limit).await)
}

/// Returns the folder that a command runs in: the one that was judged, where one was named.
pub(crate) fn folder_of(facts: &CallFacts, context: &ToolContext) -> PathBuf {
    match facts.paths.first() {
        Some(fact) => fact.located.real.clone(),
        None => context.workspace.cwd().to_owned(),
    }
}

fn summary(command: &str) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    let cut = head(line, SUMMARY_CHARS_MAX);
    if cut.len() < command.trim().len() { format!("{cut} …") } else { cut.to_owned() }
}

/// Starts a command in bash, or in `sh` where there is none.
///
/// # Errors
/// Those of the workspace.
pub(crate) async fn spawn(
    command: &str,
    cwd: PathBuf,
    stdin: &[u8],
    output: mpsc::Sender<Output>,
    context: &ToolContext,
) -> Result<Box<dyn Process>, ToolError> {
    let env = VARIABLES.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    let start = |shell: &str| Spawn {
        argv: vec![shell.to_owned(), "-c".to_owned(), command.to_owned()],
        cwd: cwd.clone(),
        env: env.to_vec(),
        stdin: stdin.to_vec(),
    };
    match context.workspace.spawn(start("bash"), output.clone()).await {
        // The folder was there a moment ago, so it is bash that is missing.
        Err(WorkspaceError::NotFound(_)) => {
            Ok(context.workspace.spawn(start("sh"), output).await?)
        }
        started => Ok(started?),
    }
}

/// Why a command is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It ended by itself.
    Itself,
    /// Its time was over.
    Timeout,
    /// The turn was stopped.
    Stop,
}

/// A command that runs, and what it has said.
#[derive(Debug)]
struct Run<'a> {
    pieces: mpsc::Receiver<Output>,
    context: &'a ToolContext,
    stdout: Cleaner,
    stderr: Cleaner,
    capture: Capture,
}

impl<'a> Run<'a> {
    fn new(pieces: mpsc::Receiver<Output>, context: &'a ToolContext) -> Self {
        let spill = Spill::new(&context.spill_dir, context.call.as_str());
        Self {
            pieces,
            context,
            stdout: Cleaner::default(),
            stderr: Cleaner::default(),
            capture: Capture::new(spill),
        }
    }

    /// Takes output until the command and everything it started is gone.
    async fn follow(
        &mut self,
        mut process: Box<dyn Process>,
        deadline: Instant,
    ) -> Result<(Exit, End), ToolError> {
        let cancel = self.context.cancel.clone();
        let stop = async {
            tokio::select! {
                () = cancel.cancelled() => End::Stop,
                () = sleep_until(deadline) => End::Timeout,
            }
        };
        let (exit, end) = match self.watch(&mut *process, stop).await? {
            Ok(exit) => (exit, End::Itself),
            Err(end) => {
                process.kill(KILL_GRACE);
                let gone = self.watch(&mut *process, sleep(KILL_WAIT_MAX)).await?;
                let exit = gone.map_err(|()| {
                    let limit = KILL_WAIT_MAX.as_secs();
                    Fault::new(format!("end the processes of a command within {limit} s"))
                })?;
                // It may have ended by itself a moment before.
                (exit, if exit.killed { end } else { End::Itself })
            }
        };
        // All output has been sent by now.
        while let Ok(piece) = self.pieces.try_recv() {
            self.take(piece).await;
        }
        Ok((exit, end))
    }

    /// Waits for the end of a process, or for `stop`, and takes output meanwhile. A piece that
    /// was received is always taken whole: nothing is dropped half-way.
    async fn watch<T>(
        &mut self,
        process: &mut dyn Process,
        stop: impl Future<Output = T>,
    ) -> Result<Result<Exit, T>, WorkspaceError> {
        let exit = process.wait();
        tokio::pin!(exit, stop);
        let mut is_open = true;
        loop {
            tokio::select! {
                // A flood of output must not keep a stop waiting.
                biased;
                stopped = &mut stop => return Ok(Err(stopped)),
                piece = self.pieces.recv(), if is_open => match piece {
                    Some(piece) => self.take(piece).await,
                    None => is_open = false,
                },
                exit = &mut exit => return Ok(Ok(exit?)),
            }
        }
    }

    async fn take(&mut self, piece: Output) {
        let (stream, bytes) = match &piece {
            Output::Stdout(bytes) => (OutputStream::Stdout, bytes),
            Output::Stderr(bytes) => (OutputStream::Stderr, bytes),
        };
        let cleaner = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let text = cleaner.push(bytes);
        self.keep(text, Some(stream)).await;
    }

    async fn keep(&mut self, text: String, stream: Option<OutputStream>) {
        if text.is_empty() {
            return;
        }
        self.capture.push(&text).await;
        // Live output may be lost: the whole comes with the result.
        let _sent = self.context.progress.try_send(Progress { text, stream });
    }

    async fn outcome(mut self, exit: Exit, end: End, limit: Duration) -> ToolOutcome {
        let rest = self.stdout.finish();
        self.keep(rest, Some(OutputStream::Stdout)).await;
        let rest = self.stderr.finish();
        self.keep(rest, Some(OutputStream::Stderr)).await;
        let captured = self.capture.finish().await;
        let mut text = captured.text;
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&end_line(exit, end, limit));
        if end == End::Itself && exit.leftovers > 0 {
            let left = match exit.leftovers {
                1 => "1 background process was".to_owned(),
                count => format!("{count} background processes were"),
            };
            text.push_str(&format!("\n{left} ended with the command"));
        }
        let (code, signal) = match exit.status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(signal) => (None, Some(signal)),
        };
        ToolOutcome {
            is_error: end != End::Itself || exit.status != ExitStatus::Code(0),
            truncated: captured.truncated,
            spill: captured.spill,
            display: Some(Display::Exit { code, signal }),
            ..ToolOutcome::text(text)
        }
    }
}

fn end_line(exit: Exit, end: End, limit: Duration) -> String {
    match (end, exit.status) {
        (End::Timeout, _) => format!(
            "timed out after {:.1} s: the process and everything it started were ended",
            limit.as_secs_f64()
        ),
        (End::Stop, _) => "stopped by the user".to_owned(),
        (End::Itself, status) => status_line(status),
    }
}

/// Says how a process ended.
pub(crate) fn status_line(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => match signal_name(signal) {
            Some(name) => format!("ended by signal {signal} ({name})"),
            None => format!("ended by signal {signal}"),
        },
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}
