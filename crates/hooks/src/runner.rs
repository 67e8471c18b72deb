//! One command from its start to its end, with limits on its time and its output.

use std::time::Duration;

use driver_api::{ExitStatus, Output, Process, Spawn, Workspace, WorkspaceError};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// How many bytes a command may write, to both outputs together. An answer has a few hundred;
/// nobody reads more than this, and it is held in memory.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// How many pieces of output may wait. They are taken at once.
const PIECES_MAX: usize = 16;

/// The time between SIGTERM and SIGKILL for a command that took too long or wrote too much.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// How long the end of a killed command is waited for: its grace, and what a busy machine needs.
const END_TIME: Duration = Duration::from_secs(10);

/// How many characters of its errors a failure quotes: the last lines say what was wrong.
const TAIL_CHARS_MAX: usize = 500;

/// What a command did that ended by itself.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Why a command did not come to an end by itself, as the rest of a sentence about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("could not be started: {0}")]
    Start(WorkspaceError),
    #[error("took longer than {}", stdx::duration(*.0))]
    Time(Duration),
    #[error("wrote more than {}", stdx::bytes(OUTPUT_BYTES_MAX as u64))]
    Flood,
    #[error("could not be watched: {0}")]
    Lost(WorkspaceError),
}

/// Runs a command. Dropping the future ends its tree.
pub(crate) async fn run(
    workspace: &dyn Workspace,
    spawn: Spawn,
    limit: Duration,
) -> Result<Ran, Error> {
    let deadline = Instant::now() + limit;
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    let started = timeout_at(deadline, workspace.spawn(spawn, sender)).await;
    let mut process = started.map_err(|_| Error::Time(limit))?.map_err(Error::Start)?;
    let followed = timeout_at(deadline, follow(&mut *process, pieces)).await;
    let ran = followed.unwrap_or(Err(Error::Time(limit)));
    if matches!(ran, Err(Error::Time(_) | Error::Flood)) {
        end(&mut *process).await;
    }
    ran
}

async fn follow(
    process: &mut dyn Process,
    mut pieces: mpsc::Receiver<Output>,
) -> Result<Ran, Error> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    // The queue closes when the tree is gone and all of its output was taken.
    while let Some(piece) = pieces.recv().await {
        match piece {
            Output::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            Output::Stderr(bytes) => stderr.extend_from_slice(&bytes),
        }
        if stdout.len() + stderr.len() > OUTPUT_BYTES_MAX {
            return Err(Error::Flood);
        }
    }
    let exit = process.wait().await.map_err(Error::Lost)?;
    Ok(Ran { status: exit.status, stdout, stderr })
}

/// Ends a tree and waits until it is gone, so that nothing of it acts beside what comes next.
async fn end(process: &mut dyn Process) {
    process.kill(KILL_GRACE);
    // One that cannot be ended must not hold up the turn as well.
    let _end = timeout(END_TIME, process.wait()).await;
}

/// Says how a command failed that ended by itself, with the last of what it wrote to its errors.
pub(crate) fn failure(ran: &Ran) -> String {
    let how = match ran.status {
        ExitStatus::Code(code) => format!("ended with exit code {code}"),
        ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
    };
    let text = String::from_utf8_lossy(&ran.stderr);
    let text = text.trim();
    let from = text.char_indices().rev().nth(TAIL_CHARS_MAX - 1).map_or(0, |(place, _)| place);
    match text.get(from..).unwrap_or_default() {
        "" => how,
        tail if from > 0 => format!("{how}: …{tail}"),
        tail => format!("{how}: {tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_quotes_the_end_of_the_errors() {
        let ran = |status, stderr: &str| Ran {
            status,
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
        };
        let long = format!("{}{}", "a".repeat(400), "ö".repeat(200));
        let tail = format!("{}{}", "a".repeat(300), "ö".repeat(200));
        for (ran, expected) in [
            (ran(ExitStatus::Code(3), ""), "ended with exit code 3".to_owned()),
            (ran(ExitStatus::Code(127), " x\n"), "ended with exit code 127: x".to_owned()),
            (ran(ExitStatus::Signal(9), "y"), "was ended by signal 9: y".to_owned()),
            (ran(ExitStatus::Code(1), &long), format!("ended with exit code 1: …{tail}")),
        ] {
            assert_eq!(failure(&ran), expected);
        }
    }
}
